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
from seq2seq.bundle import Bundle, Card, Limits, begin_from, hash_weights, own_weights, write_bundle
from seq2seq.devices import computes_bf16
from seq2seq.errors import TrainingError
from seq2seq.generate import Answer, Generation
from seq2seq.images.networks import load_network
from seq2seq.memory_allocator import release_freed_memory
from seq2seq.metrics.metric import Answers, Outputs, Reading
from seq2seq.metrics.rouge import RougeL
from seq2seq.metrics.score import Score
from seq2seq.metrics.translation import Sacrebleu, bleu
from seq2seq.model.model import Model, build
from seq2seq.search import SearchOptions
from training.data.baselines import Baseline, most_frequent_output
from training.data.prepare.prepared import Prepared
from training.events import EpochReport, Observer, Outcome, Started, StepReport, TrainingJob
from training.loop.batches import BatchLoader, BatchPlan, Plan
from training.loop.checkpoint import Checkpoints, KeptEpoch, Progress, TrainingState, restore, saving, tensors_of
from training.loop.checkpoint_upload import Copies
from training.loop.objective import Objective, Totals
from training.loop.optim import Schedule, optimizer
from training.loop.out_of_memory import (
    Piece,
    RowDoesNotFitError,
    free_memory,
    halves,
    is_out_of_memory,
    reason,
    split,
)
from training.loop.process_group import Alone, Workers, read_by_rank_0
from training.loop.resume import beginning, refuse_another
from training.loop.windows import plan_epoch

REPORT_SECONDS = 1.0
RELEASE_SECONDS = 20.0  # what was freed lies in pieces between what lives, and new shapes of batches seldom fit them


@dataclass(frozen=True)
class DevScore:
    """The dev set's verdict on one set of weights; `value` is what decides, higher is better."""

    perplexity: float
    bleu: Score
    rouge: Score | None  # ROUGE-L, where it decides
    value: float


def train(
    job: TrainingJob, workers: Workers | None = None, observers: Sequence[Observer] = (), device: str = "cpu"
) -> Outcome:
    """Train as the job's recipe says, from its newest checkpoint where it resumes; write the bundle.

    Every worker calls this with the same job; rank 0 writes, and each tells its own observers. An interruption saves
    the state and returns an outcome without a bundle. Raises TrainingError.
    """
    try:
        return Training(job, workers or Alone(), observers, torch.device(device)).run()
    except (RuntimeError, MemoryError) as error:
        if not is_out_of_memory(error):
            raise
        raise TrainingError(
            job.name,
            f"the memory of {device} does not suffice ({reason(error)})",
            "take a smaller model, training.batch_tokens or training.dev_beam; what was saved is kept",
        ) from error


class Training:
    """One worker's part of a training."""

    def __init__(self, job: TrainingJob, workers: Workers, observers: Sequence[Observer], device: torch.device) -> None:
        self.job, self.workers, self.device = job, workers, device
        self.observers = observers
        self.settings = job.recipe.training
        self.objective = Objective(self.settings)
        self.prepared = Prepared.load(job.prepared)
        self.data = self.prepared.split("train")
        self.dev = self.prepared.split("dev")
        self.texts = list(job.recipe.texts)
        self.fields = [*self.texts, "target"]
        tokenizers = self.prepared.tokenizers
        torch.manual_seed(self.settings.seed)
        config = job.recipe.model_for({name: tokenizers[name].size for name in self.fields}, self.prepared.grids)
        self.model = build(config)
        self.model.to(device)
        self.optimizer = optimizer(self.settings, [p for p in self.model.parameters() if p.requires_grad])
        self.parameters = [p for group in self.optimizer.param_groups for p in group["params"]]
        self.bf16 = self.settings.precision == "bf16" and computes_bf16(device)
        self.told_of_split = False
        self.shared: Tensor | None = None  # all gradients side by side, where several workers sum them
        keep, stored = self.settings.keep_last, job.stored
        self.copies = Copies(stored, job.name, job.run / "checkpoints", keep, self.warn) if stored else None
        self.checkpoints = Checkpoints(job.run, keep, self.copies)
        self.progress = beginning(job.recipe, job.prepared)

    def run(self) -> Outcome:
        try:
            return self.train()
        finally:
            if self.copies:
                self.copies.close()

    def train(self) -> Outcome:
        self.begin()
        updates = self.plan(self.progress.epoch).updates
        self.tell("started", self.job, Started(self.count(), self.data.rows, updates, self.progress.updates))
        if self.settings.precision == "bf16" and not self.bf16:
            self.tell("warned", "this processor cannot compute in bf16: training.precision is fp32 here")
        started = time.monotonic() - self.progress.seconds
        while not self.progress.done and self.progress.epoch <= self.settings.epochs:
            if stopped := self.epoch(self.plan(self.progress.epoch), started):
                self.save()
                self.settle()
                return Outcome(self.job.run, self.progress.epoch - 1, self.progress.updates, signal=stopped)
            self.judge()
        return self.finish()

    def begin(self) -> None:
        """The weights to go on from: those of the newest checkpoint, or of another model, or as they were drawn.

        Rank 0 reads and draws them, and all others have its own: whoever else cannot read a file, reads an older one,
        or draws other numbers on another processor, trains the same model. Raises TrainingError at every worker.
        """
        if self.copies:
            self.copies.bring(self.workers, self.job.resume)
        self.progress, tensors = read_by_rank_0(self.workers, self.read)
        if self.workers.rank != 0:
            restore(tensors, self.model, self.optimizer)

    def read(self) -> tuple[Progress, dict[str, Tensor]]:
        """Put into model and optimizer what they begin with; how far that had come, and all of it by name."""
        if not (self.job.resume and self.resume()):
            load_networks(self.model, self.job.networks)
            if self.job.init_from:
                self.tell("warned", begin_from(self.model, self.job.init_from))
        return self.progress, tensors_of(self.model, self.optimizer)

    def resume(self) -> bool:
        """Go on from the newest whole checkpoint, if there is one; it must be this recipe's and this data's."""
        state = self.checkpoints.newest(lambda message: self.tell("warned", message))
        if state is None:
            return False
        refuse_another(self.job.run, before := state.progress, self.progress)
        # One that had ended goes on where more epochs are asked for, or more patience.
        done = before.done and (before.epoch > self.settings.epochs or self.out_of_patience(before))
        now = {"recipe": self.progress.recipe, "fingerprint": self.progress.fingerprint, "done": done}
        self.progress = before.model_copy(update=now)
        restore(state.tensors, self.model, self.optimizer)
        return True

    def plan(self, epoch: int) -> Plan:
        """Which pairs make up each update of an epoch: the same at every worker."""
        return plan_epoch(
            self.data,
            self.fields,
            tokens=self.settings.batch_tokens,
            sentences=self.settings.batch_sentences,
            seed=self.settings.seed,
            epoch=epoch,
            accumulation=self.settings.accumulation,
            most=self.settings.epoch_updates,
        )

    def epoch(self, plan: Plan, started: float) -> int:
        """The updates of an epoch that are still to do. Returns the signal that interrupted it, or 0."""
        progress, workers = self.progress, self.workers
        self.model.train()
        schedule = self.schedule
        reported = saved = released = time.monotonic()
        since = Totals()
        pinned = self.device.type == "cuda"
        loader = BatchLoader(
            self.data, plan, self.texts, workers.rank, workers.world, progress.position, pin=pinned,
            images=self.model.config.images,
        )  # fmt: skip
        with loader:
            for update, batches in loader:
                tokens, sentences = plan.target_tokens(update), plan.sentences(update)
                rate = schedule.rate(progress.updates)
                try:
                    norm, sums = self.update(batches, self.objective.share(tokens, sentences), rate)
                except RowDoesNotFitError as error:
                    raise self.too_large(plan, update, error) from None
                stop, objective, nats, split_at = sums.tolist()
                if not math.isfinite(objective) or not math.isfinite(norm):
                    raise self.diverged(update, objective, norm)
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
                    return int(max(workers.gather(workers.asked_to_stop())))
                if workers.asked_to_save() or now - saved >= 60 * self.settings.save_minutes:
                    self.save()
                    saved = time.monotonic()
                if not (self.copies and self.copies.busy):
                    workers.have_saved()
        return 0

    def update(self, batches: Sequence[Batch], share: int, rate: float) -> tuple[float, Tensor]:
        """One step of the optimizer over this worker's part of a batch, whose loss is divided by `share`.

        Returns the gradient's norm and four sums over all workers: wishes to stop, the objective, nats, and the workers
        that had to split their part. Raises RowDoesNotFitError.
        """
        for group in self.optimizer.param_groups:
            group["lr"] = rate
        sums = torch.tensor([float(self.workers.asked_to_stop() > 0), 0.0, 0.0, 0.0], device=self.device)
        pieces = [Piece(batch, part) for part, batch in enumerate(batches) if batch.rows]
        whole = len(pieces)
        while (failed := self.learn(pieces, share, sums)) is not None:
            free_memory(self.device)
            pieces = split(pieces, failed)
        sums[3] += len(pieces) > whole
        for parameter in self.parameters:
            if parameter.grad is None:  # it took no part in the batch: no picture was there, or there were no rows
                parameter.grad = torch.zeros_like(parameter)
        if self.workers.world > 1:
            self.share(sums)
        norm = torch.nn.utils.clip_grad_norm_(self.parameters, self.settings.clip or math.inf)
        if torch.isfinite(norm):
            self.optimizer.step()
        return float(norm), sums

    def learn(self, pieces: Sequence[Piece], share: int, sums: Tensor) -> int | None:
        """Compute the gradients of an update's pieces from the start; sum objective and nats.

        Returns the number of the first piece for which memory did not suffice, if there is one. Its backward may have
        added some of its gradients: to try again is to begin with the first piece, and with the same random numbers.
        """
        self.seed()
        self.optimizer.zero_grad(set_to_none=True)
        sums[1:3] = 0
        for number, piece in enumerate(pieces):
            try:
                with self.precision():
                    loss = self.objective.loss(self.model, piece.batch.to(self.device))
                (loss.objective / share).backward()  # type: ignore[no-untyped-call]
                sums[1] += loss.objective.detach()
                sums[2] += loss.nats
            except (RuntimeError, MemoryError) as error:
                if not is_out_of_memory(error):
                    raise
                if piece.batch.rows == 1:
                    raise RowDoesNotFitError(piece.part, piece.first, reason(error)) from None
                return number
        return None

    def share(self, sums: Tensor) -> None:
        """Sum gradients and counts over the workers: once, in one flat buffer.

        The weights of a recurrent net are shared over time, so no gradient is ready before nearly all are: there is
        nothing to overlap.
        """
        gradients = [p.grad for p in self.parameters if p.grad is not None]
        if self.shared is None:
            self.shared = self.workers.buffer(self.count() + len(sums), self.device)
        torch.cat([gradient.flatten() for gradient in gradients] + [sums], out=self.shared)
        self.workers.sum_(self.shared)
        *parts, total = torch.split(self.shared, [p.numel() for p in self.parameters] + [len(sums)])
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
    def schedule(self) -> Schedule:
        return Schedule(self.settings, self.progress.halvings, self.progress.waited)

    def judge(self) -> None:
        """After an epoch: the dev scores, the schedule, the best epochs, early stopping, a checkpoint."""
        progress, settings = self.progress, self.settings
        release_freed_memory()
        score = self.score()
        better = progress.best is None or score.value > progress.best
        schedule = self.schedule.after(progress.epoch, better)
        report = EpochReport(
            progress.epoch,
            progress.updates,
            self.objective.mean(progress),
            score.perplexity,
            score.bleu,
            self.schedule.rate(progress.updates),
            progress.seconds,
            progress.seconds - progress.began,
            better,
            score.rouge,
        )
        judged = KeptEpoch(epoch=progress.epoch, score=score.value)
        ranked = sorted([*progress.kept, judged], key=lambda kept: -kept.score)[: settings.average]
        if judged in ranked:
            judged.sha256 = self.keep_weights()
        self.progress = progress.model_copy(
            update={
                "kept": ranked,
                "best": score.value if better else progress.best,
                "stale": 0 if better else progress.stale + 1,
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
        self.tell("epoch", report)
        self.progress.done = self.out_of_patience(self.progress)
        self.save()
        self.workers.gather(None)  # what rank 0 has written is there when any other worker reads it

    def keep_weights(self) -> str:
        """Have rank 0 keep this epoch's weights; their file's SHA-256, at every worker."""
        saved = ""
        if self.workers.rank == 0:
            saved = self.checkpoints.save_weights(self.progress.epoch, own_weights_on_cpu(self.model))
        return str(self.workers.gather(saved)[0])

    def out_of_patience(self, progress: Progress) -> bool:
        """Whether the dev set has not been better for as many epochs as the recipe waits."""
        return self.settings.patience is not None and progress.stale >= self.settings.patience

    @torch.inference_mode()
    def score(self) -> DevScore:
        """Dev perplexity, and dev scores by search; every worker takes its share."""
        self.model.eval()
        lengths = {field: self.dev.lengths(field) for field in self.fields}
        plan = BatchPlan(lengths, tokens=8000, sentences=None, seed=0, epoch=0, accumulation=1, shuffle=False)
        sums = torch.zeros(2, dtype=torch.float64)
        rank, world, images = self.workers.rank, self.workers.world, self.model.config.images
        with BatchLoader(self.dev, plan, self.texts, rank, world, images=images) as loader:
            for _, batches in loader:
                for batch in batches:
                    if batch.rows:
                        sums[0] += self.nats(batch)
        tokens = sum(plan.target_tokens(update) for update in range(plan.updates))
        self.workers.sum_(sums)
        perplexity = math.exp(min(float(sums[0]) / tokens, 100.0))
        bleu, rouge = self.dev_scores()
        decisive = rouge.score if rouge else bleu.score if self.settings.score == "bleu" else -perplexity
        return DevScore(perplexity, bleu, rouge, decisive)

    def nats(self, batch: Batch) -> Tensor:
        """The negative log-likelihood of a batch, on the CPU; in halves where it does not fit into memory."""
        try:
            with self.precision():
                return self.model.loss(batch.to(self.device)).nats.cpu()
        except (RuntimeError, MemoryError) as error:
            if batch.rows == 1 or not is_out_of_memory(error):
                raise
        free_memory(self.device)
        one, two = halves(batch)
        return self.nats(one) + self.nats(two)

    def dev_scores(self) -> tuple[Score, Score | None]:
        """BLEU of the dev set's outputs, in the text's own form; and ROUGE-L, where that decides."""
        chosen = self.searched_rows()
        mine = chosen[self.workers.rank :: self.workers.world]
        own = list(self.translate(mine))
        shares = self.workers.gather(own)
        return self.scores_of([shares[i % self.workers.world][i // self.workers.world] for i in range(len(chosen))])

    def searched_rows(self) -> Sequence[int]:
        """The rows of the dev set that are searched: all, or as many as the recipe says, evenly spread."""
        rows, limit = range(len(self.job.dev.references[0])), self.settings.dev_sentences
        return rows if len(rows) <= limit else [int(i) for i in np.linspace(0, len(rows) - 1, limit)]

    def scores_of(self, hypotheses: Sequence[str]) -> tuple[Score, Score | None]:
        """The same scores of an output for each of the searched rows."""
        dev = self.job.dev
        references = [[reference[i] for i in self.searched_rows()] for reference in dev.references]
        outputs, answers = Outputs.of(hypotheses), Answers.of(references)
        metric = Sacrebleu("bleu", bleu, Reading("none" if "target" in dev.tokenised else "13a", dev.lowercase))
        rouge = RougeL("rouge-l").score(outputs, answers) if self.settings.score == "rouge-l" else None
        return metric.score(outputs, answers), rouge

    def baseline(self, score: DevScore) -> Baseline:
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
        for answer in Generation(bundle, slots=64, width=options.beam).answers(requests):
            yield answer.candidates[0].text if isinstance(answer, Answer) else ""

    def finish(self) -> Outcome:
        """Choose the weights: those of the best epoch, or the average of the best few where the dev set prefers it."""
        kept = self.progress.kept
        last = {name: weight.detach().clone() for name, weight in own_weights(self.model).items()}
        self.settle()
        self.workers.gather(None)  # the epochs' weights are where every worker finds them
        score = self.use(kept[:1])
        chosen = kept[:1]
        if len(kept) > 1 and (averaged := self.use(kept)).value >= score.value:
            score, chosen = averaged, kept
        elif len(kept) > 1:
            self.use(kept[:1], judge=False)
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
            with saving(self.job.run / "bundle"):
                for left in self.job.run.glob(".bundle-*"):  # by a process that was killed while it wrote one
                    shutil.rmtree(left, ignore_errors=True)
                write_bundle(self.job.run / "bundle", self.model, self.prepared.tokenizers, card)
            if self.copies:
                self.copies.put_bundle(self.job.run / "bundle")
        if not saved:
            self.give(last)  # from which a resumed training of more epochs goes on
            self.save()
        self.settle()
        self.workers.gather(None)  # nobody leaves before all is written: who leaves may clear what nodes have in common
        self.tell("finished", outcome)
        return outcome

    def use(self, epochs: Sequence[KeptEpoch], judge: bool = True) -> DevScore:
        """Give the model the mean of these epochs' weights, and see what the dev set says of it."""

        def mean() -> tuple[Sequence[KeptEpoch], dict[str, Tensor]]:
            weights = [self.checkpoints.load_weights(kept) for kept in epochs]
            return epochs, {name: torch.stack([each[name] for each in weights]).mean(0) for name in weights[0]}

        self.give(read_by_rank_0(self.workers, mean)[1])
        return self.score() if judge else DevScore(math.nan, Score(score=0.0, signature=""), None, math.nan)

    @torch.no_grad()
    def give(self, weights: dict[str, Tensor]) -> None:
        """Give the model these weights."""
        for name, parameter in own_weights(self.model).items():
            parameter.copy_(weights[name])

    def card(self) -> Card:
        """The bundle's card, but for scores and checksums."""
        job, longest = self.job, self.settings.max_length
        libraries = ("torch", "tokenizers", "safetensors", "numpy", "sacrebleu")
        return Card(
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
            self.checkpoints.save(TrainingState(self.progress, tensors_of(self.model, self.optimizer)))

    def settle(self) -> None:
        """Wait until what rank 0 has saved is on the storage too."""
        if self.copies:
            self.copies.finish(self.workers.asked_to_stop)

    def warn(self, message: str) -> None:
        self.tell("warned", message)
        self.workers.asked_to_stop()  # by which the news leave, while nothing else does

    def report(self, plan: Plan, since: Totals, rate: float, norm: float, seconds: float) -> None:
        """Tell of the updates since the last report, and what the storage said."""
        if self.copies:
            self.copies.tell()
        progress = self.progress
        left = (self.settings.epochs - progress.epoch) * plan.updates + plan.updates - progress.position
        self.tell(
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
        if self.told_of_split:
            return
        self.told_of_split = True
        who = "1 worker" if workers == 1 else f"{workers} workers"
        self.tell(
            "warned",
            f"{self.job.name}: epoch {self.progress.epoch}, update {update + 1}: a batch did not fit into the memory "
            f"of {who}, and was learned in halves. So will others be, and counted (train/split_batches). A smaller "
            "training.batch_tokens, or a larger training.accumulation in a new run, saves the time.",
        )

    def too_large(self, plan: Plan, update: int, error: RowDoesNotFitError) -> TrainingError:
        """The error for a row that does not fit into memory alone, by its line of the corpus."""
        row = int(plan.rows(update, self.workers.rank, self.workers.world)[error.part][error.row])
        lengths = ", ".join(f"{field} {len(self.data.ids(field, row)) + 1}" for field in self.fields)
        return TrainingError(
            f"{self.job.name}: epoch {self.progress.epoch}, update {update + 1}",
            f"line {self.data.line(row) + 1} of the training data (tokens: {lengths}) does not fit into the memory of "
            f"{self.device}, not even alone ({error.reason})",
            "train anew with a smaller training.max_length, which leaves such lines out, or a smaller model",
        )

    def diverged(self, update: int, objective: float, norm: float) -> TrainingError:
        what = "loss" if not math.isfinite(objective) else "gradient"
        return TrainingError(
            f"{self.job.name}: epoch {self.progress.epoch}, update {update + 1}",
            f"the {what} is not finite (loss {objective}, gradient norm {norm})",
            "lower training.learning_rate or training.clip, or set training.precision=fp32; what was saved is kept",
        )

    def count(self) -> int:
        """Parameters of the model."""
        return sum(parameter.numel() for parameter in self.parameters)

    def tell(self, event: str, *what: object) -> None:
        """Call every observer."""
        for observer in self.observers:
            getattr(observer, event)(*what)


def load_networks(model: Model, files: Mapping[str, Path]) -> None:
    """Give the networks of image sources the weights that their recipe names. Raises DataError."""
    for source, path in files.items():
        network = model.images[source].network
        assert network is not None  # a recipe names weights only where there is one
        load_network(network, path)


def own_weights_on_cpu(model: Model) -> dict[str, Tensor]:
    return {name: parameter.detach().cpu().contiguous() for name, parameter in own_weights(model).items()}
