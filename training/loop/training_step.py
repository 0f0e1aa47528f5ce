"""One update of a worker: gradients of its part of a batch, their sum over all workers, and the optimizer's step."""

import logging
import math
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from interlinear.batch import Batch
from interlinear.devices import computes_bf16, is_out_of_memory
from interlinear.losses.loss import SUMS, Loss
from interlinear.losses.training_loss import training_loss
from interlinear.minimum_risk.minimum_risk import RiskOptions, minimum_risk_loss
from interlinear.models.model import Model
from training.loop.checkpoints.training_state import TrainingProgress
from training.loop.cuda_graphs import CapturedGradients, CaptureError
from training.loop.optim import build_optimizer
from training.loop.out_of_memory import (
    MicroBatch,
    RowDoesNotFitError,
    empty_cache,
    error_summary,
    split_from,
)
from training.loop.process_group import Collective, ProcessGroup
from training.recipe import TrainingSettings


@dataclass
class Totals:
    """Sums over some updates; learning rate and gradient norm of the newest of them."""

    updates: int = 0
    tokens: int = 0
    sentences: int = 0
    objective: float = 0.0
    nats: float = 0.0
    guide_nats: float = 0.0
    linked_words: int = 0
    learning_rate: float = 0.0
    gradient_norm: float = 0.0


class Objective:
    """The loss of a batch and its normalizer."""

    def __init__(self, settings: TrainingSettings) -> None:
        self.smoothing = settings.label_smoothing
        self.risk = (settings.risk or RiskOptions()) if settings.objective == "risk" else None
        self.guide_weight = settings.guide.weight if settings.guide else 1.0
        self.by_sentences = self.risk is not None or settings.divide_by == "sentences"

    def loss(self, model: Model, batch: Batch) -> Loss:
        """The objective, summed over a batch."""
        if self.risk is None:
            return training_loss(model, batch, self.smoothing, self.guide_weight)
        return minimum_risk_loss(model, batch, self.risk, self.smoothing, self.guide_weight)

    def normalizer(self, tokens: int, sentences: int) -> int:
        """The divisor of an update's summed objective."""
        return sentences if self.by_sentences else tokens

    def mean(self, sums: TrainingProgress | Totals) -> float:
        """The reported mean: loss per target word, or risk per sentence."""
        return sums.objective / max(1, sums.tokens if self.risk is None else sums.sentences)


def mean_guide(sums: TrainingProgress | Totals) -> float | None:
    """The mean loss of guided attention per linked target word, in nats; None where no attention was guided."""
    return sums.guide_nats / sums.linked_words if sums.linked_words else None


log = logging.getLogger("interlinear.training")

# The updates that a GPU is given before the host reads the result of one: it does not become idle meanwhile.
GPU_READ_DELAY = 2


@dataclass(frozen=True)
class StepResult:
    """The gradient's norm before clipping, and sums over all workers."""

    stop_requests: int
    objective: float
    nats: float
    guide_nats: float
    linked_words: int
    splits: int  # workers that had to split their part of the batch
    gradient_norm: float

    @property
    def is_finite(self) -> bool:
        return math.isfinite(self.objective) and math.isfinite(self.gradient_norm)


@dataclass(frozen=True)
class EnqueuedStep:
    """An update that the device may still be computing.

    sums_6: stop requests, splits, objective, nats, and nats and linked words of the guide, over all workers. norm: of
    the gradient, before clipping. Both are on the device. all_reduce: the sum over the workers, where it may not be
    done.
    """

    sums_6: Tensor
    norm: Tensor
    all_reduce: Collective | None = None


class ResultCopy:
    """The copy of an update's result to the host, which is made when the device has computed it."""

    def __init__(self, step: EnqueuedStep) -> None:
        self.all_reduce = step.all_reduce
        # torch allocates page-locked memory for this copy from a GPU, and does not wait
        self.numbers_7 = torch.cat([step.sums_6, step.norm[None]]).to("cpu", non_blocking=True)
        self.copied = torch.cuda.current_stream(step.norm.device).record_event() if step.norm.is_cuda else None

    def read(self) -> StepResult:
        """Wait for the update and return its result. Raises WorkerLostError."""
        if self.all_reduce:
            self.all_reduce.wait()  # has a deadline, unlike the event
        if self.copied:
            self.copied.synchronize()
        stop_requests, splits, objective, nats, guide_nats, linked_words, norm = self.numbers_7.tolist()
        return StepResult(int(stop_requests), objective, nats, guide_nats, int(linked_words), int(splits), norm)


class TrainingStep:
    """The updates of one worker's model."""

    def __init__(
        self,
        settings: TrainingSettings,
        objective: Objective,
        model: Model,
        workers: ProcessGroup,
        device: torch.device,
        cuda_graphs: bool = False,
        warn: Callable[[str], None] = log.warning,
    ) -> None:
        """`cuda_graphs`: compute gradients by CUDA graphs, except for expected risk, whose candidates are made on the
        host. `warn` is called at the first failure: batches of that shape are then computed without graphs."""
        self.settings, self.objective, self.model = settings, objective, model
        self.workers, self.device = workers, device
        self.optimizer = build_optimizer(settings, [p for p in model.parameters() if p.requires_grad])
        self.parameters = [p for group in self.optimizer.param_groups for p in group["params"]]
        self.parameter_count = sum(parameter.numel() for parameter in self.parameters)  # trainable ones
        self.bf16 = settings.precision == "bf16" and computes_bf16(device)
        self.gradient_buffer: Tensor | None = None  # all gradients in one flat tensor, where several workers sum them
        # The host reads an update's result after this number of further updates, the same at every worker. Where
        # candidates are made and compared on the host, it waits for the device in every update anyway.
        self.read_delay = 0 if device.type == "cpu" or objective.risk else GPU_READ_DELAY
        self.warn = warn
        self.collective: Collective | None = None  # the newest sum over the workers
        self.captured: CapturedGradients | None = None
        if cuda_graphs and not objective.risk:
            self.captured = CapturedGradients(self.loss, self.parameters, device, self.wait_for_workers)

    def run(self, batches: Sequence[Batch], normalizer: int, rate: float, updates_done: int) -> EnqueuedStep:
        """One optimizer step over this worker's part of a batch, whose loss is divided by `normalizer`.

        The host reads nothing from the device, so it does not know yet whether the gradient is finite. If it is not,
        neither are the weights after this step: nothing may be saved before the result is read. Raises
        RowDoesNotFitError.
        """
        for group in self.optimizer.param_groups:
            group["lr"] = rate
        sums = torch.zeros(2 + SUMS, device=self.device)  # stop requests, splits, then the sums of the loss
        sums[0].fill_(self.workers.stop_requested() > 0)  # to assign a number copies it from the host, and waits
        micro_batches = [MicroBatch(batch, part) for part, batch in enumerate(batches) if batch.rows]
        unsplit = len(micro_batches)
        while (failed := self.compute_gradients(micro_batches, normalizer, sums, updates_done)) is not None:
            empty_cache(self.device)
            micro_batches = split_from(micro_batches, failed)
        sums[1] += len(micro_batches) > unsplit
        for parameter in self.parameters:
            if parameter.grad is None:  # unused in this batch: there was no image, or there were no rows
                parameter.grad = torch.zeros_like(parameter)
        self.collective = self.all_reduce(sums) if self.workers.world_size > 1 else None
        norm = torch.nn.utils.clip_grad_norm_(self.parameters, self.settings.clip or math.inf)
        self.optimizer.step()
        return EnqueuedStep(sums, norm, self.collective)

    def compute_gradients(
        self, micro_batches: Sequence[MicroBatch], normalizer: int, sums: Tensor, updates_done: int
    ) -> int | None:
        """Compute the gradients of all micro-batches from zero, and sum `Loss.sums`.

        Returns the number of the first micro-batch for which memory did not suffice, or None. Its backward pass may
        have added some gradients already, so a retry starts again at the first micro-batch, with the same random
        numbers.
        """
        self.seed(updates_done)
        sums[2:] = 0
        if self.captured:
            self.captured.reset()
        else:
            self.optimizer.zero_grad(set_to_none=True)
        for number, micro_batch in enumerate(micro_batches):
            try:
                if self.captured:
                    self.captured.add(micro_batch.batch, normalizer, micro_batch.whole)
                else:
                    loss = self.loss(micro_batch.batch.to(self.device))
                    (loss.objective / normalizer).backward()  # type: ignore[no-untyped-call]
                    own = loss.sums()
                    sums[2 : 2 + len(own)] += own
                continue
            except (RuntimeError, MemoryError) as error:
                if not (is_out_of_memory(error) or isinstance(error, CaptureError)):
                    raise
                reason = error_summary(error)
            # From here on the error is gone, and with it the memory of the failed computation.
            if self.captured and micro_batch.whole and self.captured.give_up(micro_batch.batch):
                empty_cache(self.device)
                if len(self.captured.given_up) == 1:  # said once
                    self.warn(f"batches of some shapes are computed without CUDA graphs, and more slowly ({reason})")
                return self.compute_gradients(micro_batches, normalizer, sums, updates_done)
            if micro_batch.batch.rows == 1:
                raise RowDoesNotFitError(micro_batch.part, micro_batch.first, reason)
            return number
        if self.captured:
            sums[2:] = self.captured.sums_4
        return None

    def loss(self, batch: Batch) -> Loss:
        """The objective of a micro-batch on the device."""
        with self.precision():
            return self.objective.loss(self.model, batch)

    def wait_for_workers(self) -> None:
        """Wait until the newest sum over the workers is done. Raises WorkerLostError."""
        if self.collective:
            self.collective.wait()

    def all_reduce(self, sums: Tensor) -> Collective | None:
        """Sum gradients and counts over the workers, once, in one flat buffer; None where it is done.

        A recurrent network's weights are shared over time, so no gradient is ready before nearly all are: there is no
        computation to overlap with.
        """
        gradients = [p.grad for p in self.parameters if p.grad is not None]
        if self.gradient_buffer is None:
            self.gradient_buffer = self.workers.buffer(self.parameter_count + len(sums), self.device)
        torch.cat([gradient.flatten() for gradient in gradients] + [sums], out=self.gradient_buffer)
        collective = self.workers.all_reduce(self.gradient_buffer, enqueue=self.read_delay > 0)
        *parts, total = torch.split(self.gradient_buffer, [p.numel() for p in self.parameters] + [len(sums)])
        for parameter, part in zip(self.parameters, parts, strict=True):
            parameter.grad = part.view_as(parameter)
        sums.copy_(total)
        return collective

    def seed(self, updates_done: int) -> None:
        """Seed the random numbers of dropout and of sampled candidates from the recipe's seed, the update and the rank
        alone, so that a resumed run draws the same."""
        entropy = np.random.SeedSequence([self.settings.seed, updates_done, self.workers.rank])
        torch.manual_seed(int(entropy.generate_state(1, np.uint64)[0] >> 1))

    def precision(self) -> torch.autocast | nullcontext[None]:
        """Autocast to bf16 where the recipe asks for it and the device supports it; softmax, loss and cell states stay
        in fp32."""
        return torch.autocast(self.device.type, torch.bfloat16) if self.bf16 else nullcontext()
