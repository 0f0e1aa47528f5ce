"""The training loop. It is independent of Ray and MLflow: the process group and the observers are arguments."""

import math
import time
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from interlinear.batch import Batch
from interlinear.bundle import hash_weights, initialize_from, unique_weights
from interlinear.devices import is_out_of_memory
from interlinear.errors import TrainingError
from interlinear.memory_allocator import release_freed_memory
from interlinear.metrics.score import Score
from interlinear.models.image_encoders.weights import load_weights
from interlinear.models.model import Model, build
from training.data.guide.piece_links import INDEX, RowArrays
from training.data.guide.stored_guide import WordLinks
from training.data.prepare.prepared import PreparedData
from training.data.subword_sampling import SampledSplit, text_sampler
from training.events import EpochReport, Observer, Observers, Outcome, StartReport, StepReport, TrainingJob
from training.loop.batches import BatchLoader, EpochPlan
from training.loop.checkpoints.checkpoint_manager import CheckpointManager
from training.loop.checkpoints.checkpoint_upload import CheckpointUploader
from training.loop.checkpoints.resume import check_same_run, initial_progress
from training.loop.checkpoints.training_state import (
    BestEpoch,
    TrainingProgress,
    TrainingState,
    collect_tensors,
    restore_tensors,
)
from training.loop.evaluate import DevEvaluation, Evaluator
from training.loop.export import export_bundle, model_card
from training.loop.optim import LearningRateSchedule
from training.loop.out_of_memory import RowDoesNotFitError, error_summary
from training.loop.process_group import ProcessGroup, SingleProcess, broadcast_from_rank_0
from training.loop.remaining_time import RemainingTime
from training.loop.self_guide import ENDS, LINKS, align_training_pairs
from training.loop.training_step import Objective, ResultCopy, StepResult, Totals, TrainingStep, mean_guide
from training.loop.windows import plan_epoch

REPORT_SECONDS = 1.0
LEAST_RATE = 0.01  # of the recipe's learning rate; a training ends when halvings have brought it below
RELEASE_SECONDS = 20.0  # seconds; freed memory is fragmented, and batches of new shapes seldom fit the fragments


def train(
    job: TrainingJob, workers: ProcessGroup | None = None, observers: Sequence[Observer] = (), device: str = "cpu"
) -> Outcome:
    """Train as the job's recipe says, resuming from its newest checkpoint where asked, and write the bundle.

    Every worker calls this with the same job; rank 0 writes, and each worker notifies its own observers. An
    interruption saves the state and returns an outcome without a bundle. Raises TrainingError.
    """
    try:
        return Trainer(job, workers or SingleProcess(), observers, torch.device(device)).run()
    except (RuntimeError, MemoryError) as error:
        if not is_out_of_memory(error):
            raise
        raise TrainingError(
            job.name,
            f"the memory of {device} does not suffice ({error_summary(error)})",
            "take a smaller model, training.batch_tokens or training.dev_beam; what was saved is kept",
        ) from error


@dataclass(frozen=True)
class UnreadUpdate:
    """An update of an epoch whose result the host has not read: its number, target tokens, pairs and learning rate."""

    update: int
    tokens: int
    sentences: int
    learning_rate: float
    copy: ResultCopy


class Trainer:
    """One worker's part of a training."""

    def __init__(
        self, job: TrainingJob, workers: ProcessGroup, observers: Sequence[Observer], device: torch.device
    ) -> None:
        self.job, self.workers, self.device = job, workers, device
        self.observers = Observers(observers)
        self.settings = job.recipe.training
        self.objective = Objective(self.settings)
        self.prepared = PreparedData.load(job.prepared)
        self.data = self.prepared.split("train")
        links = self.prepared.guide
        # Links between pieces; with from: self they are made of these words when their epoch comes.
        self.guide = links if isinstance(links, RowArrays) else None
        self.words = links if isinstance(links, WordLinks) else None
        self.texts = list(job.recipe.texts)
        self.fields = [*self.texts, "target"]
        tokenizers = self.prepared.tokenizers
        torch.manual_seed(self.settings.seed)
        config = job.recipe.model_for({name: tokenizers[name].size for name in self.fields}, self.prepared.grids)
        self.model = build(config)
        self.model.to(device)
        cuda_graphs = job.cuda_graphs and device.type == "cuda"
        self.samplers = {
            name: text_sampler(tokenizers[name], text.subword_dropout, text.subword_sampling)
            for name, text in (*job.recipe.texts.items(), ("target", job.recipe.target))
            if text.sampled
        }
        self.step = TrainingStep(self.settings, self.objective, self.model, workers, device, cuda_graphs, self.warn)
        self.evaluator = Evaluator(
            job, workers, self.prepared, self.model, model_card(job, self.model), device, self.step.precision
        )
        self.warned_of_split = False
        self.unread: deque[UnreadUpdate] = deque()
        # The update after which every worker stops. Rank 0 alone reads results early, to save, but stops with the rest.
        self.stop_after: int | None = None
        keep, stored = self.settings.keep_last, job.run_storage
        self.uploader = (
            CheckpointUploader(stored, job.name, job.run / "checkpoints", keep, self.warn) if stored else None
        )
        self.checkpoints = CheckpointManager(job.run, keep, self.uploader)
        self.progress = initial_progress(job.recipe, job.prepared)
        self.remaining = RemainingTime()

    def run(self) -> Outcome:
        try:
            return self.train()
        finally:
            if self.uploader:
                self.uploader.close()

    def train(self) -> Outcome:
        self.initialize()
        updates = self.plan(self.progress.epoch).updates
        self.observers.started(
            self.job, StartReport(self.step.parameter_count, self.data.rows, updates, self.progress.updates)
        )
        if self.settings.precision == "bf16" and not self.step.bf16:
            self.observers.warned("this processor cannot compute in bf16: training.precision is fp32 here")
        started = time.monotonic() - self.progress.seconds
        while not self.progress.done and self.progress.epoch <= self.settings.epochs:
            if stopped := self.epoch(self.plan(self.progress.epoch), started):
                self.save()
                self.wait_for_uploads()
                return Outcome(self.job.run, self.progress.epoch - 1, self.progress.updates, signal=stopped)
            self.end_epoch()
        return self.finish()

    def initialize(self) -> None:
        """Set the initial weights: from the newest checkpoint, from another model, or random.

        Rank 0 reads or draws them and broadcasts them, so that all workers train the same model even if one cannot read
        a file, would read an older one, or draws other random numbers on another processor. Raises TrainingError at
        every worker.
        """
        if self.uploader:
            self.uploader.download_newest(self.workers, self.job.resume)
        self.progress, tensors = broadcast_from_rank_0(self.workers, self.load_initial_state)
        if self.workers.rank != 0:
            self.restore(tensors)

    def load_initial_state(self) -> tuple[TrainingProgress, dict[str, Tensor]]:
        """Load the initial state into model and optimizer; returns the progress and all tensors by name."""
        if not (self.job.resume and self.resume()):
            load_network_weights(self.model, self.job.network_weights)
            if self.job.init_from:
                self.observers.warned(initialize_from(self.model, self.job.init_from))
        return self.progress, self.tensors()

    def resume(self) -> bool:
        """Load the newest intact checkpoint, if there is one; it must belong to this recipe and this data."""
        state = self.checkpoints.load_newest(self.observers.warned)
        if state is None:
            return False
        check_same_run(self.job.run, before := state.progress, self.progress)
        # A finished training resumes where more epochs or more patience are asked for.
        done = before.done and (before.epoch > self.settings.epochs or self.should_stop_early(before))
        now = {"recipe": self.progress.recipe, "fingerprint": self.progress.fingerprint, "done": done}
        self.progress = before.model_copy(update=now)
        self.restore(state.tensors)
        return True

    def tensors(self) -> dict[str, Tensor]:
        """The tensors of a training state: of model and optimizer, and the links that the model itself has made."""
        tensors = collect_tensors(self.model, self.step.optimizer)
        if self.words and self.guide:
            values, ends = self.guide.values_N2.astype(np.int32), self.guide.ends_R
            tensors |= {LINKS: torch.from_numpy(values), ENDS: torch.from_numpy(ends)}
        return tensors

    def restore(self, tensors: dict[str, Tensor]) -> None:
        """Set everything that `tensors` returned."""
        restore_tensors(tensors, self.model, self.step.optimizer)
        if LINKS in tensors:
            self.guide = RowArrays(tensors[LINKS].numpy().astype(INDEX), tensors[ENDS].numpy())

    def plan(self, epoch: int) -> EpochPlan:
        """The assignment of pairs to the updates of an epoch: the same at every worker."""
        return plan_epoch(
            self.data,
            self.fields,
            tokens=self.settings.batch_tokens,
            sentences=self.settings.batch_sentences,
            seed=self.settings.seed,
            epoch=epoch,
            accumulation=self.settings.accumulation,
            max_updates=self.settings.epoch_updates,
        )

    def epoch(self, plan: EpochPlan, started: float) -> int:
        """Run the remaining updates of an epoch. Returns the signal that interrupted it, or 0."""
        progress, workers = self.progress, self.workers
        self.model.train()
        schedule = self.schedule
        reported = saved = released = time.monotonic()
        totals = Totals()
        pinned = self.device.type == "cuda"
        data = (
            SampledSplit(self.data, self.samplers, self.settings.max_length, self.settings.seed, progress.epoch)
            if self.samplers
            else self.data
        )
        loader = BatchLoader(
            data, plan, self.texts, workers.rank, workers.world_size, progress.position, pin=pinned,
            images=self.model.config.images,
            guide=self.guide if self.settings.guide and self.settings.guide.applies_to(progress.epoch) else None,
        )  # fmt: skip
        with loader:
            for update, batches in loader:
                last = update + 1 == plan.updates
                self.enqueue(plan, update, batches, schedule.rate(progress.updates, self.share_done(plan)))
                self.read_results(0 if last else self.step.read_delay, totals)
                now = time.monotonic()
                progress.seconds = now - started
                if last or (totals.updates and now - reported >= REPORT_SECONDS):
                    self.report(plan, totals, now - reported)
                    reported, totals = now, Totals()
                if now - released >= RELEASE_SECONDS:
                    release_freed_memory()
                    released = now
                if self.stop_after is not None and (last or update >= self.stop_after):
                    self.read_results(0, totals)
                    return int(max(workers.all_gather(workers.stop_requested())))
                if workers.save_requested() or now - saved >= 60 * self.settings.save_minutes:
                    self.read_results(0, totals)
                    self.save()
                    saved = time.monotonic()
                if not (self.uploader and self.uploader.is_busy):
                    workers.confirm_saved()
        return 0

    def enqueue(self, plan: EpochPlan, update: int, batches: Sequence[Batch], rate: float) -> None:
        """Give an update to the device; `read_results` reads its result. `progress` counts the update at once."""
        tokens, sentences = plan.target_tokens(update), plan.sentences(update)
        normalizer = self.objective.normalizer(tokens, sentences)
        try:
            step = self.step.run(batches, normalizer, rate, self.progress.updates)
        except RowDoesNotFitError as error:
            raise self.row_too_large_error(plan, update, error) from None
        self.unread.append(UnreadUpdate(update, tokens, sentences, rate, ResultCopy(step)))
        self.progress.position, self.progress.updates = update + 1, self.progress.updates + 1

    def read_results(self, keep: int, totals: Totals) -> None:
        """Read the results of all updates but the `keep` newest, and add them to the epoch's sums and to `totals`.

        Raises TrainingError for an update that is not finite; so nothing computed after it is saved or reported.
        """
        progress = self.progress
        while len(self.unread) > keep:
            done = self.unread.popleft()
            result = done.copy.read()
            if not result.is_finite:
                raise self.divergence_error(done.update, result)
            sums: TrainingProgress | Totals
            for sums in (progress, totals):
                sums.objective += result.objective
                sums.nats += result.nats
                sums.guide_nats += result.guide_nats
                sums.linked_words += result.linked_words
                sums.tokens += done.tokens
                sums.sentences += done.sentences
            totals.updates += 1
            totals.learning_rate, totals.gradient_norm = done.learning_rate, result.gradient_norm
            if result.splits:
                self.count_split(done.update, result.splits)
            if result.stop_requests and self.stop_after is None:
                self.stop_after = done.update + self.step.read_delay

    def share_done(self, plan: EpochPlan) -> float:
        """The part of all epochs that is done, from 0 to 1."""
        return (self.progress.epoch - 1 + self.progress.position / plan.updates) / self.settings.epochs

    @property
    def schedule(self) -> LearningRateSchedule:
        return LearningRateSchedule(self.settings, self.progress.halvings, self.progress.waited)

    def end_epoch(self) -> None:
        """After an epoch: dev scores, schedule, best epochs, early stopping, checkpoint."""
        progress, settings, began = self.progress, self.settings, time.monotonic()
        release_freed_memory()
        score = self.evaluator.evaluate()
        improved = progress.best is None or score.value > progress.best
        schedule = self.schedule.after_epoch(progress.epoch, improved)
        report = EpochReport(
            progress.epoch,
            progress.updates,
            self.objective.mean(progress),
            score.perplexity,
            score.bleu,
            self.schedule.rate(progress.updates, progress.epoch / settings.epochs),
            progress.seconds,
            progress.seconds - progress.began,
            improved,
            score.rouge,
            mean_guide(progress),
            score.gate,
        )
        this_epoch = BestEpoch(epoch=progress.epoch, score=score.value)
        ranked = sorted([*progress.kept, this_epoch], key=lambda kept: -kept.score)[: settings.average]
        if this_epoch in ranked:
            this_epoch.sha256 = self.save_epoch_weights()
        self.progress = progress.model_copy(
            update={
                "kept": ranked,
                "best": score.value if improved else progress.best,
                "stale": 0 if improved else progress.stale + 1,
                "halvings": schedule.halvings,
                "waited": schedule.waited,
                "epoch": progress.epoch + 1,
                "position": 0,
                "began": progress.seconds,
                "objective": 0.0,
                "nats": 0.0,
                "guide_nats": 0.0,
                "linked_words": 0,
                "tokens": 0,
                "sentences": 0,
            }
        )
        self.observers.epoch(report)
        self.progress.done = self.should_stop_early(self.progress)
        if self.words and self.settings.guide and report.epoch == self.settings.guide.after:
            self.guide = align_training_pairs(
                self.model, self.data, self.words, self.workers, self.device, self.step.precision
            )
        self.save()
        self.workers.all_gather(None)  # rank 0's files are complete before any other worker reads them
        self.remaining.dev_seconds = time.monotonic() - began

    def save_epoch_weights(self) -> str:
        """Save this epoch's weights at rank 0; returns their file's SHA-256 at every worker."""
        saved = ""
        if self.workers.rank == 0:
            saved = self.checkpoints.save_weights(self.progress.epoch, own_weights_on_cpu(self.model))
        return str(self.workers.all_gather(saved)[0])

    def should_stop_early(self, progress: TrainingProgress) -> bool:
        """Whether the dev score has not improved for as many epochs as the recipe's patience, or the learning rate has
        been halved until it moves nothing."""
        patience = self.settings.patience
        return (patience is not None and progress.stale >= patience) or 0.5**progress.halvings < LEAST_RATE

    def finish(self) -> Outcome:
        """Choose the final weights and write the bundle: the best epoch's, or the average of the best few where it
        scores at least as well on the dev set."""
        kept = self.progress.kept
        last = {name: weight.detach().clone() for name, weight in unique_weights(self.model).items()}
        self.wait_for_uploads()
        self.workers.all_gather(None)  # every worker finds the epochs' weights
        score = self.load_average(kept[:1])
        chosen = kept[:1]
        if len(kept) > 1 and (averaged := self.load_average(kept)).value >= score.value:
            score, chosen = averaged, kept
        elif len(kept) > 1:
            self.load_average(kept[:1], evaluate=False)
        saved, self.progress.done = self.progress.done, True  # an end by patience was saved with the last epoch
        outcome = Outcome(
            self.job.run,
            self.progress.epoch - 1,
            self.progress.updates,
            hash_weights(own_weights_on_cpu(self.model)),
            self.job.run / "bundle",
            score.bleu,
            score.perplexity,
            tuple(sorted(best.epoch for best in chosen)),
            baseline=self.evaluator.baseline(score, self.data) if self.workers.rank == 0 else None,
        )
        if self.workers.rank == 0:
            examples = self.evaluator.examples(score)
            export_bundle(self.job, self.model, self.prepared.tokenizers, score, examples)
            if self.uploader:
                self.uploader.upload_bundle(self.job.run / "bundle")
        if not saved:
            self.set_weights(last)  # a resumed training with more epochs continues from these
            self.save()
        self.wait_for_uploads()
        # no worker leaves before all is written: a worker that leaves may clear files that its node's workers share
        self.workers.all_gather(None)
        self.observers.finished(outcome)
        return outcome

    def load_average(self, epochs: Sequence[BestEpoch], evaluate: bool = True) -> DevEvaluation:
        """Set the weights to the mean over these epochs and, with `evaluate`, score them on the dev set."""

        def mean() -> tuple[Sequence[BestEpoch], dict[str, Tensor]]:
            weights = [self.checkpoints.load_weights(kept) for kept in epochs]
            return epochs, {name: torch.stack([each[name] for each in weights]).mean(0) for name in weights[0]}

        self.set_weights(broadcast_from_rank_0(self.workers, mean)[1])
        return (
            self.evaluator.evaluate()
            if evaluate
            else DevEvaluation(math.nan, Score(score=0.0, signature=""), None, math.nan)
        )

    @torch.no_grad()
    def set_weights(self, weights: dict[str, Tensor]) -> None:
        """Copy these weights into the model."""
        for name, parameter in unique_weights(self.model).items():
            parameter.copy_(weights[name])

    def save(self) -> None:
        """Write a checkpoint, at rank 0."""
        self.progress.workers = self.workers.world_size
        if self.workers.rank == 0:
            self.checkpoints.save(TrainingState(self.progress, self.tensors()))

    def wait_for_uploads(self) -> None:
        """Wait until everything that rank 0 has saved is on the storage."""
        if self.uploader:
            self.uploader.wait(self.workers.stop_requested)

    def warn(self, message: str) -> None:
        self.observers.warned(message)
        self.workers.stop_requested()  # sends the warning to the driver at once

    def report(self, plan: EpochPlan, totals: Totals, seconds: float) -> None:
        """Notify the observers of the updates that were read since the last report, and pass on the storage's
        warnings."""
        if self.uploader:
            self.uploader.report_warnings()
        progress = self.progress
        left = (self.settings.epochs - progress.epoch) * plan.updates + plan.updates - progress.position
        self.remaining.add(seconds, totals.updates)
        self.observers.step(
            StepReport(
                progress.updates,
                progress.updates + left,
                progress.epoch,
                self.objective.mean(totals),
                math.exp(min(totals.nats / totals.tokens, 100.0)),
                totals.learning_rate,
                totals.gradient_norm,
                totals.tokens / seconds,
                self.remaining.estimate(left, self.settings.epochs - progress.epoch + 1),
                progress.split_batches,
                mean_guide(totals),
            ),
        )

    def count_split(self, update: int, workers: int) -> None:
        """Count the batches that workers had to split, and warn at the first."""
        self.progress.split_batches += workers
        if self.warned_of_split:
            return
        self.warned_of_split = True
        who = "1 worker" if workers == 1 else f"{workers} workers"
        self.observers.warned(
            f"{self.job.name}: epoch {self.progress.epoch}, update {update + 1}: a batch did not fit into the memory "
            f"of {who}, and was learned in halves. So will others be, and counted (train/split_batches). A smaller "
            "training.batch_tokens, or a larger training.accumulation in a new run, saves the time.",
        )

    def row_too_large_error(self, plan: EpochPlan, update: int, error: RowDoesNotFitError) -> TrainingError:
        """The error for a row that does not fit into memory alone; names its line of the corpus."""
        row = int(plan.rows(update, self.workers.rank, self.workers.world_size)[error.part][error.row])
        lengths = ", ".join(f"{field} {len(self.data.ids(field, row)) + 1}" for field in self.fields)
        return TrainingError(
            f"{self.job.name}: epoch {self.progress.epoch}, update {update + 1}",
            f"line {self.data.line(row) + 1} of the training data (tokens: {lengths}) does not fit into the memory of "
            f"{self.device}, not even alone ({error.reason})",
            "start again with a smaller training.max_length, which leaves such lines out, or with a smaller model",
        )

    def divergence_error(self, update: int, result: StepResult) -> TrainingError:
        quantity = "loss" if not math.isfinite(result.objective) else "gradient"
        return TrainingError(
            f"{self.job.name}: epoch {self.progress.epoch}, update {update + 1}",
            f"the {quantity} is not finite (loss {result.objective}, gradient norm {result.gradient_norm})",
            "lower training.learning_rate or training.clip, or set training.precision=fp32; what was saved is kept",
        )


def load_network_weights(model: Model, files: Mapping[str, Path]) -> None:
    """Load the weights that the recipe names for the networks of image sources. Raises DataError."""
    for source, path in files.items():
        network = model.images[source].network
        assert network is not None  # a recipe names weights only where there is one
        load_weights(network, path)


def own_weights_on_cpu(model: Model) -> dict[str, Tensor]:
    return {name: parameter.detach().cpu().contiguous() for name, parameter in unique_weights(model).items()}
