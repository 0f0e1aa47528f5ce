"""Records a training in one MLflow run, opened and written by the process of the command.

That is the driver under Ray, which receives the workers' events anyway (training/ray/driver.py): no worker needs the
store's address or password, and a SQLite store has a single writer. Metrics that MLflow cannot accept during the
training are kept and sent again (metric_queue.py), and at the end an unavailable store is waited for, for a limited
time. Only at the start is an unavailable store an error.
"""

import json
import os
import sys
import tempfile
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Any

from mlflow.entities import Dataset, DatasetInput, InputTag, Param, Run
from mlflow.utils.mlflow_tags import MLFLOW_RUN_NOTE
from pydantic import ValidationError

from interlinear.bundle import Bundle, load, read_card
from interlinear.errors import FigureError, RegistryError
from interlinear.models.model import Model
from interlinear.registry.address import user
from interlinear.registry.curves import (
    BY_EPOCH,
    DEV_BLEU,
    DEV_GATE,
    DEV_PERPLEXITY,
    DEV_ROUGE,
    EPOCH_SECONDS,
    PARENT,
    RUN_RECORD,
    TRAIN_GUIDE,
    TRAIN_LOSS,
    TRAINING_SECONDS,
    Curves,
    RunRecord,
    find_training_run,
    read_curves,
)
from interlinear.registry.names import check_name
from interlinear.registry.store import LoggedBundle, MlflowStore
from interlinear.registry.store.mlflow_metadata import model_tags
from training.data.arrays import write_atomically
from training.data.prepare.prepared import PreparedData
from training.events import EpochReport, Outcome, StartReport, StepReport, TrainingJob, TrainingPlan
from training.tracking.figures import attention_figures, learning_curve_figure
from training.tracking.metric_queue import MetricQueue, ScoredModel, SystemMetrics, retry_while_away, run_tags
from training.tuning.record import EpochResult

EXPERIMENT, PARENT_RUN = "MLFLOW_EXPERIMENT_NAME", "INTERLINEAR_PARENT_RUN"  # environment variables
END_TAGS = {"error", "stopped"}  # tags with the reason why a training ended
RETRY_SECONDS = 300.0  # seconds to wait for an unavailable store when the training has ended


class Tracker:
    """Observer that logs to MLflow. A context manager: a training that has not finished when it exits was killed or
    failed."""

    def __init__(
        self,
        tracking: str | None = None,
        register: str | None = None,
        experiment: str | None = None,
        say: Callable[[str], None] | None = None,
        parent: str | None = None,
    ) -> None:
        """`register`: the name for the registered model; `experiment`: by default the value of the environment variable
        MLFLOW_EXPERIMENT_NAME, or the data set's name; `say`: prints a message; `parent`: the run in which this one is
        nested, by default the value of INTERLINEAR_PARENT_RUN, or the run of the model that it starts from.

        Raises RegistryError, within seconds, when the store cannot be reached, and UsageError for an invalid name.
        """
        if register is not None:
            check_name(register)
        self.store = MlflowStore(tracking, create=True)
        self.register, self.experiment = register, experiment or os.environ.get(EXPERIMENT)
        self.parent = parent or os.environ.get(PARENT_RUN)
        self.say = say or partial(print, file=sys.stderr)
        self.job: TrainingJob | None = None
        self.tags: dict[str, str] = {}
        self.run_id = ""
        self.resumed = False  # whether an earlier process has trained in this run
        self.system_metrics: Any = None
        self.version: str | None = None
        self.champion: str | None = None  # the version of that name that is the champion
        self.same_as: str | None = None  # an earlier version of that name with the same weights
        self.status = "KILLED"
        self.ended_elsewhere = False  # a trial's end is told by its tuning
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
            patience = RETRY_SECONDS if self.status == "FINISHED" else 0.0  # an interrupted user does not wait
            self.metrics_queue.close(self.tags, patience)
        elif self.resumed and not self.ended_elsewhere:
            return  # nothing was trained, so the run keeps its status
        try:
            with self.store.errors():
                if not self.job:
                    self.store.client.log_batch(self.run_id, tags=run_tags(self.tags))
                self.store.client.set_terminated(self.run_id, self.status)
        except RegistryError as unavailable:
            self.say(f"the run stays open in MLflow: {unavailable}")

    def open_run(self, plan: TrainingPlan) -> None:
        """Open the run, or find the one in which this training began, and print its address, before the data is
        prepared.

        A run in which a training has begun keeps its status until the training resumes.
        """
        previous = self._previous_run(plan) if plan.resume else None
        self.resumed = previous is not None and has_inputs(previous)
        run = previous or self._create_run(plan)
        self.run_id = str(run.info.run_id)
        record = RunRecord(tracking=self.store.display_uri, run_id=self.run_id)
        # a resumed training finds the run by this record
        write_atomically(plan.run / RUN_RECORD, f"{record.model_dump_json()}\n".encode())
        self.say(f"{plan.name} is recorded at {self.store.run_url(run.info.experiment_id, self.run_id)}")
        if not self.resumed:
            self._mark_running()
            with self.store.errors():
                self.store.client.log_text(self.run_id, plan.recipe.as_yaml(), "recipe.yaml")

    def started(self, job: TrainingJob, start: StartReport) -> None:
        """The training starts or resumes in its run. A restarted worker group calls this again, without effect."""
        if self.job:
            return
        if not self.run_id:
            self.open_run(job)
        if self.resumed:
            self.curves = read_curves(self.store, self.run_id)
            self._mark_running()
        else:
            self._log_inputs(job, start)
        self.job = job
        self.metrics_queue = MetricQueue(self.store, self.run_id, self.say, job.run)
        for point in self.metrics_queue.queued:  # points of a process that was killed
            if point.key.startswith(BY_EPOCH):
                self.curves.setdefault(point.key, {})[point.step] = point.value
        self.system_metrics = SystemMetrics(self.metrics_queue, resumed=self.resumed)
        self.metrics_queue.start()
        self.system_metrics.start()

    def _mark_running(self) -> None:
        """Set the run's status, and remove the reason why an earlier attempt ended."""
        with self.store.errors():
            for tag in END_TAGS & self.store.client.get_run(self.run_id).data.tags.keys():
                self.store.client.delete_tag(self.run_id, tag)
            self.store.client.update_run(self.run_id, status="RUNNING")

    def step(self, report: StepReport) -> None:
        values = {
            "train/loss": report.loss,
            "train/perplexity": report.perplexity,
            "train/gradient_norm": report.gradient_norm,
            "learning_rate": report.learning_rate,
            "tokens_per_second": report.tokens_per_second,
            "epoch": report.epoch,
            "train/split_batches": report.split_batches,
        }
        values |= {} if report.guide is None else {"train/guide": report.guide}
        self.metrics_queue.add(report.update, values)

    def epoch(self, report: EpochReport) -> None:
        values = {
            TRAIN_LOSS: report.train_loss,
            DEV_PERPLEXITY: report.dev_perplexity,
            DEV_BLEU: report.dev_bleu.score,
            EPOCH_SECONDS: report.epoch_seconds,
            TRAINING_SECONDS: report.seconds,
        }
        values |= {DEV_ROUGE: report.dev_rouge.score} if report.dev_rouge else {}
        values |= {} if report.train_guide is None else {TRAIN_GUIDE: report.train_guide}
        values |= {} if report.dev_gate is None else {DEV_GATE: report.dev_gate}
        self._log_epoch(report.update, values)

    def _log_epoch(self, update: int, values: dict[str, float]) -> None:
        self.metrics_queue.add(update, values)
        for key, value in values.items():
            self.curves.setdefault(key, {})[update] = value

    def log_unlogged(self, epochs: Iterable[EpochResult]) -> None:
        """Log the epochs that an earlier process has trained, and was killed before it could log them."""
        for one in epochs:
            if one.update not in self.curves.get(DEV_BLEU, {}):
                values = {
                    TRAIN_LOSS: one.train_loss,
                    DEV_PERPLEXITY: one.dev_perplexity,
                    DEV_BLEU: one.dev_bleu,
                    TRAINING_SECONDS: one.seconds,
                }
                self._log_epoch(one.update, values | ({} if one.dev_rouge is None else {DEV_ROUGE: one.dev_rouge}))

    def warned(self, message: str) -> None:
        self.tags["warning"] = message

    def finished(self, outcome: Outcome) -> None:
        """Log the scores, figures and the model, and register it. Raises RegistryError where that fails."""
        assert self.job and outcome.bundle and outcome.dev_bleu and outcome.dev_perplexity
        scores = {"best/dev_bleu": outcome.dev_bleu.score, "best/dev_perplexity": outcome.dev_perplexity}
        job, bundle = self.job, outcome.bundle
        card = read_card(bundle)
        self.tags |= model_tags(card)
        fingerprints = PreparedData.load(job.prepared).record.fingerprints
        lineage = {f"{split}_sha256": fingerprints[split] for split in ("train", "dev")}
        below_baseline = outcome.baseline is not None and outcome.baseline.is_better
        if below_baseline:
            self.tags["warning"] = lineage["below_baseline"] = str(outcome.baseline)
        logged = None

        def log() -> LoggedBundle:
            self._log_figures(load(bundle), job)
            logged = self.store.log_model(bundle, self.run_id, lineage)
            if self.register:
                self.version = self.store.register(logged, self.register, champion=not below_baseline)
                self.champion = self.store.alias_target(self.register, self.version)
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
            scored_model = ScoredModel(logged.model_id, job.dataset, digest(fingerprints["dev"])) if logged else None
            self.metrics_queue.add(outcome.updates, scores, scored_model)
        self.status = "FINISHED"

    def stopped(self, reason: str) -> None:
        """A tuning has stopped the training for good: the run is finished, and its tag `stopped` has the reason."""
        self.tags["stopped"] = reason
        self.status, self.ended_elsewhere = "FINISHED", True

    def failed(self, problem: str) -> None:
        """The training has failed in another process."""
        self.tags["error"] = problem
        self.status, self.ended_elsewhere = "FAILED", True

    def _previous_run(self, plan: TrainingPlan) -> Run | None:
        """The run in which this training began; None where this store has no such run."""
        try:
            record = RunRecord.model_validate_json((plan.run / RUN_RECORD).read_bytes())
        except (OSError, ValidationError):
            return None
        if record.tracking != self.store.display_uri:
            return None
        try:
            with self.store.errors():
                run = self.store.client.get_run(record.run_id)
            problem = "" if run.info.lifecycle_stage == "active" else "it was deleted"
        except RegistryError as error:
            problem = error.problem
        if problem:
            self.say(f"MLflow: a new run, since the one that this training began in cannot be opened ({problem}).")
            return None
        return run

    def _create_run(self, plan: TrainingPlan) -> Run:
        tags = _tags(plan) | ({PARENT: self.parent} if self.parent else {})
        with self.store.errors():
            experiment = self.store.experiment(self.experiment or plan.dataset)
            if plan.resume and (interrupted := self._interrupted_run(experiment, plan)):
                return interrupted
            return self.store.client.create_run(experiment, tags=tags, run_name=plan.name)

    def _interrupted_run(self, experiment: str, plan: TrainingPlan) -> Run | None:
        """The run of an earlier process that was killed before it could record its id: with this name and folder, open,
        and without inputs."""
        condition = f"attributes.run_name = '{plan.name}' and attributes.status = 'RUNNING'"
        for run in self.store.client.search_runs([experiment], condition):
            if run.data.tags.get("run_folder") == str(plan.run) and not has_inputs(run):
                return run
        return None

    def _log_inputs(self, job: TrainingJob, start: StartReport) -> None:
        """Log the parent run, parameters and data. The data comes last: a run that has it has all of them."""
        params = flatten(job.recipe.model_dump(mode="json", exclude_none=True))
        params |= {"recipe": job.recipe_name, "parameters": str(start.parameters), "pairs": str(start.pairs)}
        parent = self.parent or self._parent_run(job)
        with self.store.errors():
            if parent:
                self.store.client.set_tag(self.run_id, PARENT, parent)
            logged = self.store.client.get_run(self.run_id).data.params  # logged by a process that was killed here
            new = [Param(key, value[:6000]) for key, value in params.items() if key not in logged]
            self.store.client.log_batch(self.run_id, params=new)
            # with the settings fitted to the data
            self.store.client.log_text(self.run_id, job.recipe.as_yaml(), "recipe.yaml")
            self.store.client.log_inputs(self.run_id, datasets=_inputs(job))

    def _parent_run(self, job: TrainingJob) -> str | None:
        """The run that trained the model which this one starts from; None where this store does not have it."""
        if job.init_from is None or job.recipe.training.init_from is None:
            return None
        try:
            return find_training_run(self.store, job.recipe.training.init_from, job.init_from)
        except RegistryError:
            return None

    def _log_figures(self, bundle: Bundle[Model], job: TrainingJob) -> None:
        """Log learning curves and attention figures. A figure that cannot be drawn is reported and left out."""
        with tempfile.TemporaryDirectory() as folder, self.store.errors():
            for figures in (
                learning_curve_figure(self.curves, job.name, Path(folder)),
                attention_figures(bundle, job, Path(folder)),
            ):
                try:
                    for figure in figures:
                        self.store.client.log_artifact(self.run_id, str(figure), "figures")
                except FigureError as error:
                    self.say(f"a picture is left out: {error}")


def has_inputs(run: Run) -> bool:
    """Whether a run has its data logged, and so whether its training has begun."""
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
        MLFLOW_RUN_NOTE: "\n\n".join(
            filter(None, [plan.recipe.about, f"Trained on `{plan.dataset}`. Licence: {plan.licence}"])
        ),
    }
    if plan.git_commit:
        tags |= {"git_commit": plan.git_commit, "mlflow.source.git.commit": plan.git_commit}
    tags["mlflow.user"] = user()
    return tags


def digest(fingerprint: str) -> str:
    """A fingerprint shortened for MLflow, which accepts at most 36 characters."""
    return fingerprint[:32]


def _inputs(job: TrainingJob) -> list[DatasetInput]:
    """The splits of the prepared data, with their fingerprints."""
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
