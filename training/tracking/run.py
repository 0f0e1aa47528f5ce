"""A training's record in MLflow: one run, opened and written where the command runs.

Under Ray too: the workers' news come to the driver anyway (cluster.py), so that no worker needs the store's address or
its password, and a store in SQLite has one writer. What MLflow cannot take while the training runs is kept and offered
again (sending.py), and at the end a store that is away is waited for, for a while; only at the start does it end the
command at once.
"""

import json
import sys
import tempfile
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Any

from mlflow.entities import Dataset, DatasetInput, InputTag, Param, Run
from pydantic import ValidationError

from registry.address import user
from registry.curves import (
    BY_EPOCH,
    DEV_BLEU,
    DEV_PERPLEXITY,
    DEV_ROUGE,
    EPOCH_SECONDS,
    PARENT,
    RUN_RECORD,
    TRAIN_LOSS,
    TRAINING_SECONDS,
    Curves,
    RunRecord,
    curve_title,
    find_training_run,
    ordered_values,
    read_curves,
)
from registry.mlflow_metadata import model_tags
from registry.names import check_name
from registry.store import LoggedBundle, MlflowStore
from seq2seq.bundle import Bundle, load, read_card
from seq2seq.errors import FigureError, RegistryError
from seq2seq.figures.curves import Curve, Panel, learning_curves
from seq2seq.figures.grid import Languages
from seq2seq.figures.matrices import attention_matrix, gate_strip
from seq2seq.generate import GenerationResult, SequenceGenerator
from seq2seq.model.model import Model
from training.data.arrays import write_atomically
from training.data.prepare.prepared import PreparedData
from training.events import EpochReport, Outcome, StartReport, StepReport, TrainingJob, TrainingPlan
from training.tracking.metric_queue import MetricQueue, ScoredModel, SystemMetrics, retry_while_away, run_tags

RETRY_SECONDS = 300.0  # seconds that a store may be away when the training has ended
FIGURE_WORDS = range(5, 13)  # a dev sentence of so many words is drawn
FIGURE_CURVES = (DEV_BLEU, DEV_PERPLEXITY)


class Tracker:
    """An observer that logs to MLflow. A context manager: what has not finished when it ends was killed, or failed."""

    def __init__(
        self,
        tracking: str | None = None,
        register: str | None = None,
        experiment: str | None = None,
        say: Callable[[str], None] | None = None,
        parent: str | None = None,
    ) -> None:
        """`register` is the name that the model gets; `experiment` is by default the data set's name; `say` prints;
        `parent` is the run that this one is nested in, by default that of the model which it starts from.

        Raises RegistryError, within seconds, when the store cannot be reached, and CallError for an impossible name.
        """
        if register is not None:
            check_name(register)
        self.store = MlflowStore(tracking, create=True)
        self.register, self.experiment, self.parent = register, experiment, parent
        self.say = say or partial(print, file=sys.stderr)
        self.job: TrainingJob | None = None
        self.tags: dict[str, str] = {}
        self.run_id = ""
        self.resumed = False  # whether an earlier process has trained in this run
        self.system_metrics: Any = None
        self.version: str | None = None
        self.is_champion = False
        self.same_as: str | None = None  # an earlier version of that name with the same weights
        self.status = "KILLED"
        self.curves: Curves = {}

    def __enter__(self) -> "Tracker":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if not self.run_id:
            return
        if isinstance(error, Exception):
            self.status = "FAILED"
            self.tags["error"] = str(error)
        if self.job:
            self.system_metrics.finish()
            patience = RETRY_SECONDS if self.status == "FINISHED" else 0.0  # who is interrupted is not kept waiting
            self.metrics_queue.close(self.tags, patience)
        elif self.resumed:
            return  # nothing was done in it: it is what it was
        try:
            with self.store.errors():
                if not self.job:
                    self.store.client.log_batch(self.run_id, tags=run_tags(self.tags))
                self.store.client.set_terminated(self.run_id, self.status)
        except RegistryError as away:
            self.say(f"the run stays open in MLflow: {away}")

    def open_run(self, plan: TrainingPlan) -> None:
        """Open the run, or find the one that this training began in, and say where it is: before its data is ready.

        One in which a training has begun stays as it is until that goes on.
        """
        found = self._previous_run(plan) if plan.resume else None
        self.resumed = found is not None and has_inputs(found)
        run = found or self._create_run(plan)
        self.run_id = str(run.info.run_id)
        record = RunRecord(tracking=self.store.display_uri, run_id=self.run_id)
        write_atomically(
            plan.run / RUN_RECORD, f"{record.model_dump_json()}\n".encode()
        )  # who goes on after a kill finds it so
        self.say(f"{plan.name} is recorded at {self.store.run_url(run.info.experiment_id, self.run_id)}")
        if not self.resumed:
            with self.store.errors():
                self.store.client.update_run(self.run_id, status="RUNNING")
                self.store.client.log_text(self.run_id, plan.recipe.as_yaml(), "recipe.yaml")

    def started(self, job: TrainingJob, start: StartReport) -> None:
        """The training begins in its run, or goes on in it. (Workers that start again have begun already.)"""
        if self.job:
            return
        if not self.run_id:
            self.open_run(job)
        if self.resumed:
            self.curves = read_curves(self.store, self.run_id)
            with self.store.errors():
                self.store.client.update_run(self.run_id, status="RUNNING")
        else:
            self._log_inputs(job, start)
        self.job = job
        self.metrics_queue = MetricQueue(self.store, self.run_id, self.say, job.run)
        for point in self.metrics_queue.queued:  # of a process that was killed
            if point.key.startswith(BY_EPOCH):
                self.curves.setdefault(point.key, {})[point.step] = point.value
        self.system_metrics = SystemMetrics(self.metrics_queue, resumed=self.resumed)
        self.metrics_queue.start()
        self.system_metrics.start()

    def step(self, report: StepReport) -> None:
        self.metrics_queue.add(
            report.update,
            {
                "train/loss": report.loss,
                "train/perplexity": report.perplexity,
                "train/gradient_norm": report.gradient_norm,
                "learning_rate": report.learning_rate,
                "tokens_per_second": report.tokens_per_second,
                "epoch": report.epoch,
                "train/split_batches": report.split_batches,
            },
        )

    def epoch(self, report: EpochReport) -> None:
        values = {
            TRAIN_LOSS: report.train_loss,
            DEV_PERPLEXITY: report.dev_perplexity,
            DEV_BLEU: report.dev_bleu.score,
            EPOCH_SECONDS: report.epoch_seconds,
            TRAINING_SECONDS: report.seconds,
        }
        values |= {DEV_ROUGE: report.dev_rouge.score} if report.dev_rouge else {}
        self.metrics_queue.add(report.update, values)
        for key, value in values.items():
            self.curves.setdefault(key, {})[report.update] = value

    def warned(self, message: str) -> None:
        self.tags["warning"] = message

    def finished(self, outcome: Outcome) -> None:
        """Log the scores, pictures and the model, and register it. Raises RegistryError where that fails."""
        assert self.job and outcome.bundle and outcome.dev_bleu and outcome.dev_perplexity
        scores = {"best/dev_bleu": outcome.dev_bleu.score, "best/dev_perplexity": outcome.dev_perplexity}
        job, bundle = self.job, outcome.bundle
        card = read_card(bundle)
        self.tags |= model_tags(card)
        fingerprints = PreparedData.load(job.prepared).record.fingerprints
        lineage = {f"{split}_sha256": fingerprints[split] for split in ("train", "dev")}
        below = outcome.baseline is not None and outcome.baseline.is_better
        if below:
            self.tags["warning"] = lineage["below_baseline"] = str(outcome.baseline)
        logged = None

        def log() -> LoggedBundle:
            self._log_figures(load(bundle), job)
            logged = self.store.log_model(bundle, self.run_id, lineage)
            if self.register:
                self.version = self.store.register(logged, self.register, champion=not below)
                self.is_champion = not below or self.store.alias_target(self.register, self.version) == self.version
                self.same_as = self.store.find_version_by_weights(self.register, card.weights_sha256, self.version)
            return logged

        try:
            logged = retry_while_away(log, RETRY_SECONDS, self.say)
        except RegistryError as error:
            raise RegistryError(
                error.where,
                f"the training is done, its bundle is {outcome.bundle}, but MLflow did not take it: {error.problem}",
                "when the store is back, the same command with --resume logs it",
            ) from error
        finally:
            of = ScoredModel(logged.model_id, job.dataset, digest(fingerprints["dev"])) if logged else None
            self.metrics_queue.add(outcome.updates, scores, of)
        self.status = "FINISHED"

    def _previous_run(self, plan: TrainingPlan) -> Run | None:
        """The run that this training began in; None where there is no such run in this store."""
        try:
            record = RunRecord.model_validate_json((plan.run / RUN_RECORD).read_bytes())
        except (OSError, ValidationError):
            return None
        if record.tracking != self.store.display_uri:
            return None
        try:
            with self.store.errors():
                run = self.store.client.get_run(record.run_id)
            gone = "" if run.info.lifecycle_stage == "active" else "it was deleted"
        except RegistryError as error:
            gone = error.problem
        if gone:
            self.say(f"MLflow: a new run, since the one that this training began in cannot be opened ({gone}).")
            return None
        return run

    def _create_run(self, plan: TrainingPlan) -> Run:
        tags = _tags(plan) | ({PARENT: self.parent} if self.parent else {})
        with self.store.errors():
            experiment = self.store.experiment(self.experiment or plan.dataset)
            if plan.resume and (cut_off := self._interrupted_run(experiment, plan)):
                return cut_off
            return self.store.client.create_run(experiment, tags=tags, run_name=plan.name)

    def _interrupted_run(self, experiment: str, plan: TrainingPlan) -> Run | None:
        """The run of an earlier process that was killed before it could note its id: of this name and folder, open, and
        not described yet."""
        named = f"attributes.run_name = '{plan.name}' and attributes.status = 'RUNNING'"
        for run in self.store.client.search_runs([experiment], named):
            if run.data.tags.get("run_folder") == str(plan.run) and not has_inputs(run):
                return run
        return None

    def _log_inputs(self, job: TrainingJob, start: StartReport) -> None:
        """From what is trained, how, on what. The data comes last: a run that has it has all of this."""
        params = flatten(job.recipe.model_dump(mode="json", exclude_none=True))
        params |= {"recipe": job.recipe_name, "parameters": str(start.parameters), "pairs": str(start.pairs)}
        parent = self.parent or self._parent_run(job)
        with self.store.errors():
            if parent:
                self.store.client.set_tag(self.run_id, PARENT, parent)
            there = self.store.client.get_run(self.run_id).data.params  # of a process that was killed here
            new = [Param(key, value[:6000]) for key, value in params.items() if key not in there]
            self.store.client.log_batch(self.run_id, params=new)
            self.store.client.log_text(self.run_id, job.recipe.as_yaml(), "recipe.yaml")  # as it fits the data
            self.store.client.log_inputs(self.run_id, datasets=_inputs(job))

    def _parent_run(self, job: TrainingJob) -> str | None:
        """The run that trained what this one starts from; None where this store does not know it."""
        if job.init_from is None or job.recipe.training.init_from is None:
            return None
        try:
            return find_training_run(self.store, job.recipe.training.init_from, job.init_from)
        except RegistryError:
            return None

    def _log_figures(self, bundle: Bundle[Model], job: TrainingJob) -> None:
        """How it learnt, and what the model looks at in a dev sentence; what cannot be drawn is said, and left out."""
        with tempfile.TemporaryDirectory() as folder, self.store.errors():
            for draw in (self._learning_curves, self._attention_figures):
                try:
                    for picture in draw(Path(folder), bundle, job):
                        self.store.client.log_artifact(self.run_id, str(picture), "figures")
                except FigureError as error:
                    self.say(f"a picture is left out: {error}")

    def _learning_curves(self, folder: Path, bundle: Bundle[Model], job: TrainingJob) -> Iterator[Path]:
        """Nothing where this record has no epoch, as that of a training which was resumed behind its last."""
        drawn = [(key, points) for key in FIGURE_CURVES if (points := self.curves.get(key))]
        panels = [Panel(curve_title(key), (Curve(job.name, (ordered_values(points),)),)) for key, points in drawn]
        if panels:
            yield learning_curves(panels, folder / "learning_curve.png")

    def _attention_figures(self, folder: Path, bundle: Bundle[Model], job: TrainingJob) -> Iterator[Path]:
        """Each kind of weights, and contextual gates; nothing where the model can translate no dev sentence."""
        dev, card = job.dev, bundle.card
        (first, *_) = dev.sources.values()
        row = next((row for row, text in enumerate(first) if len(text.split()) in FIGURE_WORDS), 0)
        split = PreparedData.load(job.prepared).split("dev")
        request = dev.request(row, card.search, split, card.model, explain=True)
        (answer,) = SequenceGenerator(bundle, width=request.options.beam).generate([request])
        if not isinstance(answer, GenerationResult) or not answer.explanation or not answer.explanation.target:
            return
        for kind in answer.explanation.matrices:
            yield attention_matrix(answer.explanation, folder / f"{kind}.png", kind, Languages.of(card))
        if answer.explanation.gate is not None:
            yield gate_strip(answer.explanation, folder / "gate.png", card.languages.get("target"))


def has_inputs(run: Run) -> bool:
    """Whether a run says what is trained on what, and so whether its training has begun."""
    return bool(run.inputs and run.inputs.dataset_inputs)


def flatten(settings: dict[str, Any], prefix: str = "") -> dict[str, str]:
    """Settings by dotted keys."""
    flat: dict[str, str] = {}
    for key, value in settings.items():
        flat |= flatten(value, f"{prefix}{key}.") if isinstance(value, dict) else {f"{prefix}{key}": str(value)}
    return flat


def _tags(plan: TrainingPlan) -> dict[str, str]:
    tags = {
        "task": plan.task,
        "languages": "-".join(dict.fromkeys(plan.languages.values())),
        "recipe": plan.recipe_name,
        "dataset": plan.dataset,
        "run_folder": str(plan.run),
        "mlflow.source.name": "interlinear train",
        "mlflow.source.type": "LOCAL",
    }
    if plan.git_commit:
        tags |= {"git_commit": plan.git_commit, "mlflow.source.git.commit": plan.git_commit}
    tags["mlflow.user"] = user()
    return tags


def digest(fingerprint: str) -> str:
    """A fingerprint for MLflow, which takes no more than 36 characters."""
    return fingerprint[:32]


def _inputs(job: TrainingJob) -> list[DatasetInput]:
    """The splits that were read, with their fingerprints."""
    record = PreparedData.load(job.prepared).record
    inputs = []
    for split, content in record.splits.items():
        fingerprint = record.fingerprints[split]
        dataset = Dataset(
            name=job.dataset,
            digest=digest(fingerprint),
            source_type="local",
            source=json.dumps({"uri": str(job.prepared)}),
            profile=json.dumps({"sha256": fingerprint, "rows": content.rows, "tokens": content.tokens}),
        )
        inputs.append(DatasetInput(dataset, [InputTag("mlflow.data.context", split)]))
    return inputs
