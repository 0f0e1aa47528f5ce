"""Records a tuning in MLflow: a run for the tuning, and in it a run for each trial, as `train` records them."""

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from types import TracebackType

from pydantic import ValidationError

from interlinear.errors import RegistryError
from interlinear.registry.curves import RUN_RECORD, RunRecord, create_group
from interlinear.registry.store import MlflowStore
from training.data.arrays import write_atomically
from training.events import EpochReport, Outcome, StartReport, StepReport, TrainingJob
from training.tracking.run import EXPERIMENT, Tracker
from training.tuning.record import METRIC_NAMES, TuningRecord, read_epochs

STOPPED = "by ASHA, between two epochs"


class TrialTrackers:
    """Observer of a tuning that logs every trial to a run of its own, and the result to their parent run.

    A context manager: a tuning that has not finished when it exits was interrupted.
    """

    def __init__(
        self,
        folder: Path,
        jobs: Mapping[str, TrainingJob],
        dataset: str,
        tags: Mapping[str, str],
        tracking: str | None,
        say: Callable[[str], None],
    ) -> None:
        """`folder`: the tuning's, which has the name of the parent run. Raises RegistryError, within seconds, when the
        store cannot be reached."""
        experiment = os.environ.get(EXPERIMENT) or dataset
        self.store = MlflowStore(tracking, create=True)
        self.folder, self.jobs, self.experiment, self.tracking, self.say = folder, jobs, experiment, tracking, say
        self.trackers: dict[str, Tracker] = {}
        self.status = "KILLED"
        self.parent = self._previous_parent() or create_group(self.store, experiment, folder.name, tags)
        record = RunRecord(tracking=self.store.display_uri, run_id=self.parent)
        write_atomically(folder / RUN_RECORD, f"{record.model_dump_json()}\n".encode())
        with self.store.errors():
            self.store.client.update_run(self.parent, status="RUNNING")

    def _previous_parent(self) -> str | None:
        """The run in which this tuning began; None where this store does not have it."""
        try:
            record = RunRecord.model_validate_json((self.folder / RUN_RECORD).read_bytes())
            if record.tracking != self.store.display_uri:
                return None
            with self.store.errors():
                run = self.store.client.get_run(record.run_id)
        except (OSError, ValidationError, RegistryError):
            return None
        return record.run_id if run.info.lifecycle_stage == "active" else None

    def __enter__(self) -> "TrialTrackers":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for trial in list(self.trackers):
            self.close(trial)
        try:
            with self.store.errors():
                self.store.client.set_terminated(self.parent, "FAILED" if isinstance(error, Exception) else self.status)
        except RegistryError as unavailable:
            self.say(f"the tuning's run stays open in MLflow: {unavailable}")

    def log_result(self, record: TuningRecord, files: list[Path]) -> None:
        """Log the best score and files to the parent run. Raises RegistryError."""
        best = record.best_trial()
        assert best is not None
        epoch = record.best_epoch(best)
        assert epoch is not None
        with self.store.errors():
            name = f"best/dev_{METRIC_NAMES[record.metric].lower()}"
            self.store.client.log_metric(self.parent, name, record.score(epoch))
            self.store.client.set_tag(self.parent, "best_trial", best.name)
            for file in files:
                self.store.client.log_artifact(self.parent, str(file))
        self.status = "FINISHED"

    def tracker(self, trial: str) -> Tracker:
        """The open tracker of a trial."""
        if trial not in self.trackers:
            self.trackers[trial] = Tracker(self.tracking, None, self.experiment, self.say, self.parent)
        return self.trackers[trial]

    def close(self, trial: str) -> None:
        """Send a trial's remaining metrics, and end its run."""
        self.trackers.pop(trial).__exit__(None, None, None)

    def started(self, trial: str, job: TrainingJob, start: StartReport) -> None:
        tracker = self.tracker(trial)
        tracker.started(job, start)
        tracker.log_unlogged(one for one in read_epochs(job.run) if one.update <= start.updates_done)

    def step(self, trial: str, report: StepReport) -> None:
        self.tracker(trial).step(report)

    def epoch(self, trial: str, report: EpochReport) -> None:
        self.tracker(trial).epoch(report)

    def warned(self, trial: str, message: str) -> None:
        self.tracker(trial).warned(message)

    def finished(self, trial: str, outcome: Outcome) -> None:
        self.tracker(trial).finished(outcome)
        self.close(trial)

    def stopped(self, trial: str) -> None:
        tracker = self.tracker(trial)
        if not tracker.run_id:  # decided before the trial started in this process
            tracker.open_run(self.jobs[trial])
        tracker.stopped(STOPPED)
        self.close(trial)

    def failed(self, trial: str, problem: str) -> None:
        tracker = self.tracker(trial)
        if not tracker.run_id:
            tracker.open_run(self.jobs[trial])
        tracker.failed(problem)
        self.close(trial)
