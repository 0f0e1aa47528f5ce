"""The training loop. It knows nothing of Ray or MLflow: workers and observers are given to it."""

import math
import shutil
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from seq2seq.batch import Batch
from seq2seq.bundle import Bundle, Limits, ModelCard, hash_weights, initialize_from, unique_weights, write_bundle
from seq2seq.devices import computes_bf16
from seq2seq.errors import TrainingError
from seq2seq.generate import GenerationResult, SequenceGenerator
from seq2seq.images.networks import load_weights
from seq2seq.memory_allocator import release_freed_memory
from seq2seq.metrics.metric import Preprocessing, ReferenceSet, SystemOutputs
from seq2seq.metrics.rouge import RougeL
from seq2seq.metrics.score import Score
from seq2seq.metrics.translation import Sacrebleu, bleu
from seq2seq.model.model import Model, build
from seq2seq.search import SearchOptions
from training.data.baselines import Baseline, most_frequent_output
from training.data.prepare.prepared import PreparedData
from training.events import EpochReport, Observer, Outcome, StartReport, StepReport, TrainingJob
from training.loop.batches import BatchLoader, BatchPlan, EpochPlan
from training.loop.checkpoint import (
    BestEpoch,
    CheckpointManager,
    TrainingProgress,
    TrainingState,
    collect_tensors,
    restore_tensors,
    save_errors,
)
from training.loop.checkpoint_upload import CheckpointUploader
from training.loop.objective import Objective, Totals
from training.loop.optim import LearningRateSchedule, build_optimizer
from training.loop.out_of_memory import (
    MicroBatch,
    RowDoesNotFitError,
    empty_cache,
    error_summary,
    halve,
    is_out_of_memory,
    split_from,
)
from training.loop.process_group import ProcessGroup, SingleProcess, broadcast_from_rank_0
from training.loop.resume import check_same_run, initial_progress
from training.loop.windows import plan_epoch

REPORT_SECONDS = 1.0
RELEASE_SECONDS = 20.0  # what was freed lies in pieces between what lives, and new shapes of batches seldom fit them


@dataclass(frozen=True)
class DevEvaluation:
    """The dev set's verdict on one set of weights; `value` is what decides, higher is better."""

    perplexity: float
    bleu: Score
    rouge: Score | None  # ROUGE-L, where it decides
    value: float


def train(
    job: TrainingJob, workers: ProcessGroup | None = None, observers: Sequence[Observer] = (), device: str = "cpu"
) -> Outcome:
    """Train as the job's recipe says, from its newest checkpoint where it resumes; write the bundle.

    Every worker calls this with the same job; rank 0 writes, and each tells its own observers. An interruption saves
    the state and returns an outcome without a bundle. Raises TrainingError.
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


class Trainer:
    """One worker's part of a training."""

    def __init__(
        self, job: TrainingJob, workers: ProcessGroup, observers: Sequence[Observer], device: torch.device
    ) -> None:
        self.job, self.workers, self.device = job, workers, device
        self.observers = observers
        self.settings = job.recipe.training
        self.objective = Objective(self.settings)
        self.prepared = PreparedData.load(job.prepared)
        self.data = self.prepared.split("train")
        self.dev = self.prepared.split("dev")
        self.texts = list(job.recipe.texts)
        self.fields = [*self.texts, "target"]
        tokenizers = self.prepared.tokenizers
        torch.manual_seed(self.settings.seed)
        config = job.recipe.model_for({name: tokenizers[name].size for name in self.fields}, self.prepared.grids)
        self.model = build(config)
        self.model.to(device)
        self.optimizer = build_optimizer(self.settings, [p for p in self.model.parameters() if p.requires_grad])
        self.parameters = [p for group in self.optimizer.param_groups for p in group["params"]]
        self.bf16 = self.settings.precision == "bf16" and computes_bf16(device)
        self.warned_of_split = False
        self.gradient_buffer: Tensor | None = None  # all gradients side by side, where several workers sum them
        keep, stored = self.settings.keep_last, job.run_storage
        self.uploader = (
            CheckpointUploader(stored, job.name, job.run / "checkpoints", keep, self.warn) if stored else None
        )
        self.checkpoints = CheckpointManager(job.run, keep, self.uploader)
        self.progress = initial_progress(job.recipe, job.prepared)

    def run(self) -> Outcome:
        try:
            return self.train()
        finally:
            if self.uploader:
                self.uploader.close()

    def train(self) -> Outcome:
        self.initialize()
        updates = self.plan(self.progress.epoch).updates
        self.notify(
            "started", self.job, StartReport(self.parameter_count(), self.data.rows, updates, self.progress.updates)
        )
        if self.settings.precision == "bf16" and not self.bf16:
            self.notify("warned", "this processor cannot compute in bf16: training.precision is fp32 here")
        started = time.monotonic() - self.progress.seconds
        while not self.progress.done and self.progress.epoch <= self.settings.epochs:
            if stopped := self.epoch(self.plan(self.progress.epoch), started):
                self.save()
                self.wait_for_uploads()
                return Outcome(self.job.run, self.progress.epoch - 1, self.progress.updates, signal=stopped)
            self.end_epoch()
        return self.finish()

    def initialize(self) -> None:
        """The weights to go on from: those of the newest checkpoint, or of another model, or as they were drawn.

        Rank 0 reads and draws them, and all others have its own: whoever else cannot read a file, reads an older one,
        or draws other numbers on another processor, trains the same model. Raises TrainingError at every worker.
        """
        if self.uploader:
            self.uploader.download_newest(self.workers, self.job.resume)
        self.progress, tensors = broadcast_from_rank_0(self.workers, self.load_initial_state)
        if self.workers.rank != 0:
            restore_tensors(tensors, self.model, self.optimizer)

    def load_initial_state(self) -> tuple[TrainingProgress, dict[str, Tensor]]:
        """Put into model and optimizer what they begin with; how far that had come, and all of it by name."""
        if not (self.job.resume and self.resume()):
            load_network_weights(self.model, self.job.network_weights)
            if self.job.init_from:
                self.notify("warned", initialize_from(self.model, self.job.init_from))
        return self.progress, collect_tensors(self.model, self.optimizer)

    def resume(self) -> bool:
        """Go on from the newest whole checkpoint, if there is one; it must be this recipe's and this data's."""
        state = self.checkpoints.load_newest(lambda message: self.notify("warned", message))
        if state is None:
            return False
        check_same_run(self.job.run, before := state.progress, self.progress)
        # One that had ended goes on where more epochs are asked for, or more patience.
        done = before.done and (before.epoch > self.settings.epochs or self.should_stop_early(before))
        now = {"recipe": self.progress.recipe, "fingerprint": self.progress.fingerprint, "done": done}
        self.progress = before.model_copy(update=now)
        restore_tensors(state.tensors, self.model, self.optimizer)
        return True

    def plan(self, epoch: int) -> EpochPlan:
        """Which pairs make up each update of an epoch: the same at every worker."""
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
        """The updates of an epoch that are still to do. Returns the signal that interrupted it, or 0."""
        progress, workers = self.progress, self.workers
        self.model.train()
        schedule = self.schedule
        reported = saved = released = time.monotonic()
        since = Totals()
        pinned = self.device.type == "cuda"
        loader = BatchLoader(
            self.data, plan, self.texts, workers.rank, workers.world_size, progress.position, pin=pinned,
            images=self.model.config.images,
        )  # fmt: skip
        with loader:
            for update, batches in loader:
                tokens, sentences = plan.target_tokens(update), plan.sentences(update)
                rate = schedule.rate(progress.updates)
                try:
                    norm, sums = self.update(batches, self.objective.normalizer(tokens, sentences), rate)
                except RowDoesNotFitError as error:
                    raise self.row_too_large_error(plan, update, error) from None
                stop, objective, nats, split_at = sums.tolist()
                if not math.isfinite(objective) or not math.isfinite(norm):
                    raise self.divergence_error(update, objective, norm)
                progress.position, progress.updates = update + 1, progress.updates + 1
                progress.objective += objective
                progress.nats += nats
                progress.tokens += tokens
                progress.sentences += sentences
                if split_at:
                    self.count_split(update, int(split_at))
                since.add(tokens, sentences, objective, nats)
                now = time.monotonic()
                progress.seconds = now - started
                if now - reported >= REPORT_SECONDS or update + 1 == plan.updates:
                    self.report(plan, since, rate, norm, now - reported)
                    reported, since = now, Totals()
                if now - released >= RELEASE_SECONDS:
                    release_freed_memory()
                    released = now
                if stop:
                    return int(max(workers.all_gather(workers.stop_requested())))
                if workers.save_requested() or now - saved >= 60 * self.settings.save_minutes:
                    self.save()
                    saved = time.monotonic()
                if not (self.uploader and self.uploader.is_busy):
                    workers.confirm_saved()
        return 0

    def update(self, batches: Sequence[Batch], normalizer: int, rate: float) -> tuple[float, Tensor]:
        """One step of the optimizer over this worker's part of a batch, whose loss is divided by `normalizer`.

        Returns the gradient's norm and four sums over all workers: wishes to stop, the objective, nats, and the workers
        that had to split their part. Raises RowDoesNotFitError.
        """
        for group in self.optimizer.param_groups:
            group["lr"] = rate
        sums = torch.tensor([float(self.workers.stop_requested() > 0), 0.0, 0.0, 0.0], device=self.device)
        micro_batches = [MicroBatch(batch, part) for part, batch in enumerate(batches) if batch.rows]
        whole = len(micro_batches)
        while (failed := self.compute_gradients(micro_batches, normalizer, sums)) is not None:
            empty_cache(self.device)
            micro_batches = split_from(micro_batches, failed)
        sums[3] += len(micro_batches) > whole
        for parameter in self.parameters:
            if parameter.grad is None:  # it took no part in the batch: no picture was there, or there were no rows
                parameter.grad = torch.zeros_like(parameter)
        if self.workers.world_size > 1:
            self.all_reduce(sums)
        norm = torch.nn.utils.clip_grad_norm_(self.parameters, self.settings.clip or math.inf)
        if torch.isfinite(norm):
            self.optimizer.step()
        return float(norm), sums

    def compute_gradients(self, micro_batches: Sequence[MicroBatch], normalizer: int, sums: Tensor) -> int | None:
        """Compute the gradients of an update's pieces from the start; sum objective and nats.

        Returns the number of the first piece for which memory did not suffice, if there is one. Its backward may have
        added some of its gradients: to try again is to begin with the first piece, and with the same random numbers.
        """
        self.seed()
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
        """Sum gradients and counts over the workers: once, in one flat buffer.

        The weights of a recurrent net are shared over time, so no gradient is ready before nearly all are: there is
        nothing to overlap.
        """
        gradients = [p.grad for p in self.parameters if p.grad is not None]
        if self.gradient_buffer is None:
            self.gradient_buffer = self.workers.buffer(self.parameter_count() + len(sums), self.device)
        torch.cat([gradient.flatten() for gradient in gradients] + [sums], out=self.gradient_buffer)
        self.workers.all_reduce(self.gradient_buffer)
        *parts, total = torch.split(self.gradient_buffer, [p.numel() for p in self.parameters] + [len(sums)])
        for parameter, part in zip(self.parameters, parts, strict=True):
            parameter.grad = part.view_as(parameter)
        sums.copy_(total)

    def seed(self) -> None:
        """Dropout's random numbers, and those that candidates are drawn by, come from the seed, the update and the rank
        alone: a resumed run has the same."""
        entropy = np.random.SeedSequence([self.settings.seed, self.progress.updates, self.workers.rank])
        torch.manual_seed(int(entropy.generate_state(1, np.uint64)[0] >> 1))

    def precision(self) -> torch.autocast | nullcontext[None]:
        """bf16 where the recipe says so and the device can; softmax, loss and the cells' memory stay in fp32."""
        return torch.autocast(self.device.type, torch.bfloat16) if self.bf16 else nullcontext()

    @property
    def schedule(self) -> LearningRateSchedule:
        return LearningRateSchedule(self.settings, self.progress.halvings, self.progress.waited)

    def end_epoch(self) -> None:
        """After an epoch: the dev scores, the schedule, the best epochs, early stopping, a checkpoint."""
        progress, settings = self.progress, self.settings
        release_freed_memory()
        score = self.evaluate()
        improved = progress.best is None or score.value > progress.best
        schedule = self.schedule.after_epoch(progress.epoch, improved)
        report = EpochReport(
            progress.epoch,
            progress.updates,
            self.objective.mean(progress),
            score.perplexity,
            score.bleu,
            self.schedule.rate(progress.updates),
            progress.seconds,
            progress.seconds - progress.began,
            improved,
            score.rouge,
        )
        judged = BestEpoch(epoch=progress.epoch, score=score.value)
        ranked = sorted([*progress.kept, judged], key=lambda kept: -kept.score)[: settings.average]
        if judged in ranked:
            judged.sha256 = self.save_epoch_weights()
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
                "tokens": 0,
                "sentences": 0,
            }
        )
        self.notify("epoch", report)
        self.progress.done = self.should_stop_early(self.progress)
        self.save()
        self.workers.all_gather(None)  # what rank 0 has written is there when any other worker reads it

    def save_epoch_weights(self) -> str:
        """Have rank 0 keep this epoch's weights; their file's SHA-256, at every worker."""
        saved = ""
        if self.workers.rank == 0:
            saved = self.checkpoints.save_weights(self.progress.epoch, own_weights_on_cpu(self.model))
        return str(self.workers.all_gather(saved)[0])

    def should_stop_early(self, progress: TrainingProgress) -> bool:
        """Whether the dev set has not been better for as many epochs as the recipe waits."""
        return self.settings.patience is not None and progress.stale >= self.settings.patience

    @torch.inference_mode()
    def evaluate(self) -> DevEvaluation:
        """Dev perplexity, and dev scores by search; every worker takes its share."""
        self.model.eval()
        lengths = {field: self.dev.lengths(field) for field in self.fields}
        plan = BatchPlan(lengths, tokens=8000, sentences=None, seed=0, epoch=0, accumulation=1, shuffle=False)
        sums = torch.zeros(2, dtype=torch.float64)
        rank, world_size, images = self.workers.rank, self.workers.world_size, self.model.config.images
        with BatchLoader(self.dev, plan, self.texts, rank, world_size, images=images) as loader:
            for _, batches in loader:
                for batch in batches:
                    if batch.rows:
                        sums[0] += self.negative_log_likelihood(batch)
        tokens = sum(plan.target_tokens(update) for update in range(plan.updates))
        self.workers.all_reduce(sums)
        perplexity = math.exp(min(float(sums[0]) / tokens, 100.0))
        bleu, rouge = self.dev_scores()
        decisive = rouge.score if rouge else bleu.score if self.settings.score == "bleu" else -perplexity
        return DevEvaluation(perplexity, bleu, rouge, decisive)

    def negative_log_likelihood(self, batch: Batch) -> Tensor:
        """The negative log-likelihood of a batch, on the CPU; in halves where it does not fit into memory."""
        try:
            with self.precision():
                return self.model.loss(batch.to(self.device)).nats.cpu()
        except (RuntimeError, MemoryError) as error:
            if batch.rows == 1 or not is_out_of_memory(error):
                raise
        empty_cache(self.device)
        one, two = halve(batch)
        return self.negative_log_likelihood(one) + self.negative_log_likelihood(two)

    def dev_scores(self) -> tuple[Score, Score | None]:
        """BLEU of the dev set's outputs, in the text's own form; and ROUGE-L, where that decides."""
        chosen = self.searched_rows()
        mine = chosen[self.workers.rank :: self.workers.world_size]
        own = list(self.translate(mine))
        shares = self.workers.all_gather(own)
        return self.scores_of(
            [shares[i % self.workers.world_size][i // self.workers.world_size] for i in range(len(chosen))]
        )

    def searched_rows(self) -> Sequence[int]:
        """The rows of the dev set that are searched: all, or as many as the recipe says, evenly spread."""
        rows, limit = range(len(self.job.dev.references[0])), self.settings.dev_sentences
        return rows if len(rows) <= limit else [int(i) for i in np.linspace(0, len(rows) - 1, limit)]

    def scores_of(self, hypotheses: Sequence[str]) -> tuple[Score, Score | None]:
        """The same scores of an output for each of the searched rows."""
        dev = self.job.dev
        references = [[reference[i] for i in self.searched_rows()] for reference in dev.references]
        outputs, answers = SystemOutputs.from_lines(hypotheses), ReferenceSet.from_lines(references)
        metric = Sacrebleu("bleu", bleu, Preprocessing("none" if "target" in dev.tokenised else "13a", dev.lowercase))
        rouge = RougeL("rouge-l").score(outputs, answers) if self.settings.score == "rouge-l" else None
        return metric.score(outputs, answers), rouge

    def baseline(self, score: DevEvaluation) -> Baseline:
        """The trivial baseline that scores best on the dev set by the dev score's metric (BLEU where that is the
        perplexity), beside the model's score by it."""
        chosen = self.searched_rows()
        outputs = {
            f"copying '{name}'" if len(self.texts) > 1 else "copying the source": [lines[i] for i in chosen]
            for name, lines in self.job.dev.sources.items()
        }
        if not self.job.recipe.target.operations_on:  # else targets are edit operations, not text
            frequent = most_frequent_output(self.data, self.prepared.tokenizers["target"])
            outputs["the most frequent output of the training data"] = [frequent] * len(chosen)
        scores = {name: self.scores_of(hypotheses) for name, hypotheses in outputs.items()}
        values = {name: rouge.score if rouge else bleu.score for name, (bleu, rouge) in scores.items()}
        best = max(values, key=lambda name: values[name])
        metric, own = ("ROUGE-L", score.rouge) if score.rouge else ("BLEU", score.bleu)
        return Baseline(best, metric, values[best], own.score)

    def translate(self, rows: Sequence[int]) -> Iterator[str]:
        """What the weights as they are make of rows of the dev set; of one that cannot be searched (too long) an empty
        line."""
        options = SearchOptions(beam=self.settings.dev_beam, length_penalty=self.job.recipe.search.length_penalty)
        bundle = Bundle(self.model, self.prepared.tokenizers, self.card(), self.job.run)
        requests = (self.job.dev.request(row, options, self.dev, bundle.card.model) for row in rows)
        for answer in SequenceGenerator(bundle, slots=64, width=options.beam).generate(requests):
            yield answer.candidates[0].text if isinstance(answer, GenerationResult) else ""

    def finish(self) -> Outcome:
        """Choose the weights: those of the best epoch, or the average of the best few where the dev set prefers it."""
        kept = self.progress.kept
        last = {name: weight.detach().clone() for name, weight in unique_weights(self.model).items()}
        self.wait_for_uploads()
        self.workers.all_gather(None)  # the epochs' weights are where every worker finds them
        score = self.load_average(kept[:1])
        chosen = kept[:1]
        if len(kept) > 1 and (averaged := self.load_average(kept)).value >= score.value:
            score, chosen = averaged, kept
        elif len(kept) > 1:
            self.load_average(kept[:1], evaluate=False)
        saved, self.progress.done = self.progress.done, True  # patience's end was saved with the last epoch
        outcome = Outcome(
            self.job.run,
            self.progress.epoch - 1,
            self.progress.updates,
            hash_weights(own_weights_on_cpu(self.model)),
            self.job.run / "bundle",
            score.bleu,
            score.perplexity,
            tuple(sorted(one.epoch for one in chosen)),
            baseline=self.baseline(score) if self.workers.rank == 0 else None,
        )
        if self.workers.rank == 0:
            scores = {"dev_bleu": score.bleu, "dev_perplexity": Score(score=score.perplexity, signature="per token")}
            scores |= {"dev_rouge_l": score.rouge} if score.rouge else {}
            examples = self.job.dev.examples(self.prepared.tokenizers)
            card = self.card().model_copy(update={"metrics": scores, "examples": examples})
            with save_errors(self.job.run / "bundle"):
                for left in self.job.run.glob(".bundle-*"):  # by a process that was killed while it wrote one
                    shutil.rmtree(left, ignore_errors=True)
                write_bundle(self.job.run / "bundle", self.model, self.prepared.tokenizers, card)
            if self.uploader:
                self.uploader.upload_bundle(self.job.run / "bundle")
        if not saved:
            self.set_weights(last)  # from which a resumed training of more epochs goes on
            self.save()
        self.wait_for_uploads()
        self.workers.all_gather(
            None
        )  # nobody leaves before all is written: who leaves may clear what nodes have in common
        self.notify("finished", outcome)
        return outcome

    def load_average(self, epochs: Sequence[BestEpoch], evaluate: bool = True) -> DevEvaluation:
        """Give the model the mean of these epochs' weights, and see what the dev set says of it."""

        def mean() -> tuple[Sequence[BestEpoch], dict[str, Tensor]]:
            weights = [self.checkpoints.load_weights(kept) for kept in epochs]
            return epochs, {name: torch.stack([each[name] for each in weights]).mean(0) for name in weights[0]}

        self.set_weights(broadcast_from_rank_0(self.workers, mean)[1])
        return self.evaluate() if evaluate else DevEvaluation(math.nan, Score(score=0.0, signature=""), None, math.nan)

    @torch.no_grad()
    def set_weights(self, weights: dict[str, Tensor]) -> None:
        """Give the model these weights."""
        for name, parameter in unique_weights(self.model).items():
            parameter.copy_(weights[name])

    def card(self) -> ModelCard:
        """The bundle's card, but for scores and checksums."""
        job, longest = self.job, self.settings.max_length
        libraries = ("torch", "tokenizers", "safetensors", "numpy", "sacrebleu")
        return ModelCard(
            task=job.task,
            languages=job.languages,
            model=self.model.config,
            search=job.recipe.search,
            limits=Limits(source_length=2 * longest, target_length=2 * longest),
            recipe={"name": job.recipe_name, **job.recipe.model_dump(mode="json", exclude_none=True)},
            data={
                "name": job.dataset,
                "licence": job.licence,
                "prepared": job.prepared.name,
                "dev_sentences": min(len(job.dev.references[0]), self.settings.dev_sentences),
            },
            git_commit=job.git_commit,
            versions={name: version(name) for name in libraries},
            created=datetime.now(UTC).isoformat(timespec="seconds"),
        )

    def save(self) -> None:
        """Write the state."""
        if self.workers.rank == 0:
            self.checkpoints.save(TrainingState(self.progress, collect_tensors(self.model, self.optimizer)))

    def wait_for_uploads(self) -> None:
        """Wait until what rank 0 has saved is on the storage too."""
        if self.uploader:
            self.uploader.wait(self.workers.stop_requested)

    def warn(self, message: str) -> None:
        self.notify("warned", message)
        self.workers.stop_requested()  # by which the news leave, while nothing else does

    def report(self, plan: EpochPlan, since: Totals, rate: float, norm: float, seconds: float) -> None:
        """Tell of the updates since the last report, and what the storage said."""
        if self.uploader:
            self.uploader.report_warnings()
        progress = self.progress
        left = (self.settings.epochs - progress.epoch) * plan.updates + plan.updates - progress.position
        self.notify(
            "step",
            StepReport(
                progress.updates,
                progress.updates + left,
                progress.epoch,
                self.objective.mean(since),
                math.exp(min(since.nats / since.tokens, 100.0)),
                rate,
                norm,
                since.tokens / seconds,
                left * seconds / since.updates,
                progress.split_batches,
            ),
        )

    def count_split(self, update: int, workers: int) -> None:
        """Count the batches that workers had to split, and tell of the first."""
        self.progress.split_batches += workers
        if self.warned_of_split:
            return
        self.warned_of_split = True
        who = "1 worker" if workers == 1 else f"{workers} workers"
        self.notify(
            "warned",
            f"{self.job.name}: epoch {self.progress.epoch}, update {update + 1}: a batch did not fit into the memory "
            f"of {who}, and was learned in halves. So will others be, and counted (train/split_batches). A smaller "
            "training.batch_tokens, or a larger training.accumulation in a new run, saves the time.",
        )

    def row_too_large_error(self, plan: EpochPlan, update: int, error: RowDoesNotFitError) -> TrainingError:
        """The error for a row that does not fit into memory alone, by its line of the corpus."""
        row = int(plan.rows(update, self.workers.rank, self.workers.world_size)[error.part][error.row])
        lengths = ", ".join(f"{field} {len(self.data.ids(field, row)) + 1}" for field in self.fields)
        return TrainingError(
            f"{self.job.name}: epoch {self.progress.epoch}, update {update + 1}",
            f"line {self.data.line(row) + 1} of the training data (tokens: {lengths}) does not fit into the memory of "
            f"{self.device}, not even alone ({error.reason})",
            "train anew with a smaller training.max_length, which leaves such lines out, or a smaller model",
        )

    def divergence_error(self, update: int, objective: float, norm: float) -> TrainingError:
        what = "loss" if not math.isfinite(objective) else "gradient"
        return TrainingError(
            f"{self.job.name}: epoch {self.progress.epoch}, update {update + 1}",
            f"the {what} is not finite (loss {objective}, gradient norm {norm})",
            "lower training.learning_rate or training.clip, or set training.precision=fp32; what was saved is kept",
        )

    def parameter_count(self) -> int:
        """Parameters of the model."""
        return sum(parameter.numel() for parameter in self.parameters)

    def notify(self, event: str, *what: object) -> None:
        """Call every observer."""
        for observer in self.observers:
            getattr(observer, event)(*what)


def load_network_weights(model: Model, files: Mapping[str, Path]) -> None:
    """Give the networks of image sources the weights that their recipe names. Raises DataError."""
    for source, path in files.items():
        network = model.images[source].network
        assert network is not None  # a recipe names weights only where there is one
        load_weights(network, path)


def own_weights_on_cpu(model: Model) -> dict[str, Tensor]:
    return {name: parameter.detach().cpu().contiguous() for name, parameter in unique_weights(model).items()}
