"""One update of a worker: gradients of its part of a batch, their sum over all workers, and the optimizer's step."""

import math
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from seq2seq.batch import Batch
from seq2seq.devices import computes_bf16
from seq2seq.model.model import Model
from training.loop.objective import Objective
from training.loop.optim import build_optimizer
from training.loop.out_of_memory import (
    MicroBatch,
    RowDoesNotFitError,
    empty_cache,
    error_summary,
    is_out_of_memory,
    split_from,
)
from training.loop.process_group import ProcessGroup
from training.recipe import TrainingSettings


@dataclass(frozen=True)
class StepResult:
    """The gradient's norm before clipping, and sums over all workers."""

    gradient_norm: float
    stop_requests: int
    objective: float
    nats: float
    splits: int  # workers that had to split their part of the batch

    @property
    def is_finite(self) -> bool:
        return math.isfinite(self.objective) and math.isfinite(self.gradient_norm)


class TrainingStep:
    """The updates of one worker's model."""

    def __init__(
        self,
        settings: TrainingSettings,
        objective: Objective,
        model: Model,
        workers: ProcessGroup,
        device: torch.device,
    ) -> None:
        self.settings, self.objective, self.model = settings, objective, model
        self.workers, self.device = workers, device
        self.optimizer = build_optimizer(settings, [p for p in model.parameters() if p.requires_grad])
        self.parameters = [p for group in self.optimizer.param_groups for p in group["params"]]
        self.parameter_count = sum(parameter.numel() for parameter in self.parameters)  # trainable ones
        self.bf16 = settings.precision == "bf16" and computes_bf16(device)
        self.gradient_buffer: Tensor | None = None  # all gradients in one flat tensor, where several workers sum them

    def run(self, batches: Sequence[Batch], normalizer: int, rate: float, updates_done: int) -> StepResult:
        """One optimizer step over this worker's part of a batch, whose loss is divided by `normalizer`.

        There is no step where the gradient is not finite. Raises RowDoesNotFitError.
        """
        for group in self.optimizer.param_groups:
            group["lr"] = rate
        # stop requests, objective, nats, splits
        sums = torch.tensor([float(self.workers.stop_requested() > 0), 0.0, 0.0, 0.0], device=self.device)
        micro_batches = [MicroBatch(batch, part) for part, batch in enumerate(batches) if batch.rows]
        unsplit = len(micro_batches)
        while (failed := self.compute_gradients(micro_batches, normalizer, sums, updates_done)) is not None:
            empty_cache(self.device)
            micro_batches = split_from(micro_batches, failed)
        sums[3] += len(micro_batches) > unsplit
        for parameter in self.parameters:
            if parameter.grad is None:  # unused in this batch: there was no image, or there were no rows
                parameter.grad = torch.zeros_like(parameter)
        if self.workers.world_size > 1:
            self.all_reduce(sums)
        norm = torch.nn.utils.clip_grad_norm_(self.parameters, self.settings.clip or math.inf)
        if torch.isfinite(norm):
            self.optimizer.step()
        stop_requests, objective, nats, splits = sums.tolist()
        return StepResult(float(norm), int(stop_requests), objective, nats, int(splits))

    def compute_gradients(
        self, micro_batches: Sequence[MicroBatch], normalizer: int, sums: Tensor, updates_done: int
    ) -> int | None:
        """Compute the gradients of all micro-batches from zero; sum objective and nats.

        Returns the number of the first micro-batch for which memory did not suffice, or None. Its backward pass may
        have added some gradients already, so a retry starts again at the first micro-batch, with the same random
        numbers.
        """
        self.seed(updates_done)
        self.optimizer.zero_grad(set_to_none=True)
        sums[1:3] = 0
        for number, micro_batch in enumerate(micro_batches):
            try:
                with self.precision():
                    loss = self.objective.loss(self.model, micro_batch.batch.to(self.device))
                (loss.objective / normalizer).backward()  # type: ignore[no-untyped-call]
                sums[1] += loss.objective.detach()
                sums[2] += loss.nats
            except (RuntimeError, MemoryError) as error:
                if not is_out_of_memory(error):
                    raise
                if micro_batch.batch.rows == 1:
                    raise RowDoesNotFitError(micro_batch.part, micro_batch.first, error_summary(error)) from None
                return number
        return None

    def all_reduce(self, sums: Tensor) -> None:
        """Sum gradients and counts over the workers, once, in one flat buffer.

        A recurrent network's weights are shared over time, so no gradient is ready before nearly all are: there is no
        computation to overlap with.
        """
        gradients = [p.grad for p in self.parameters if p.grad is not None]
        if self.gradient_buffer is None:
            self.gradient_buffer = self.workers.buffer(self.parameter_count + len(sums), self.device)
        torch.cat([gradient.flatten() for gradient in gradients] + [sums], out=self.gradient_buffer)
        self.workers.all_reduce(self.gradient_buffer)
        *parts, total = torch.split(self.gradient_buffer, [p.numel() for p in self.parameters] + [len(sums)])
        for parameter, part in zip(self.parameters, parts, strict=True):
            parameter.grad = part.view_as(parameter)
        sums.copy_(total)

    def seed(self, updates_done: int) -> None:
        """Seed the random numbers of dropout and of sampled candidates from the recipe's seed, the update and the rank
        alone, so that a resumed run draws the same."""
        entropy = np.random.SeedSequence([self.settings.seed, updates_done, self.workers.rank])
        torch.manual_seed(int(entropy.generate_state(1, np.uint64)[0] >> 1))

    def precision(self) -> torch.autocast | nullcontext[None]:
        """Autocast to bf16 where the recipe asks for it and the device supports it; softmax, loss and cell states stay
        in fp32."""
        return torch.autocast(self.device.type, torch.bfloat16) if self.bf16 else nullcontext()
