"""Runs the trials of a tuning by Ray Tune with ASHA; the driver is the process of the command.

Each trial is an ordinary training in an actor (tune_trial.py). The observers stay in the driver, as in driver.py. A
resumed tuning uses its record and the trials' checkpoints, not Tune's state.
"""

import logging
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ray import tune
from ray.exceptions import RayError
from ray.tune.schedulers import ASHAScheduler, TrialScheduler

from interlinear.errors import TrainingError
from training.events import EpochReport, Outcome, StartReport, StepReport, TrainingJob
from training.loop.process_group import SingleProcess
from training.ray.cluster import WorkerGroupConfig, last_error_line, ray_cluster
from training.ray.control import WorkerCrashed, WorkerEvent, WorkerFailed, WorkerWarning
from training.ray.tune_trial import EPOCH, EVENTS, LAST, SCORE, STOP_FILE, TrialActor
from training.storage.staging import TOKEN, write_token
from training.tuning.events import TuningObserver, TuningObservers
from training.tuning.record import ENDED, TuningRecord


@dataclass(frozen=True)
class NamedTrial:
    """The attributes of a trial that ASHA reads. Tune's own trials have a new id in every process."""

    trial_id: str


class ResumableAsha(ASHAScheduler):
    """ASHA (Li et al. 2020, asynchronous successive halving) over epochs and the deciding dev score. It knows trials by
    name, and can be told earlier results: a resumed tuning makes its decisions from the recorded epochs of all trials,
    since Tune's own `Tuner.restore` would need a pickled state that is some seconds old after a kill.

    A trial's last epoch is never stopped: the trial then finishes.
    """

    def __init__(self, baseline: str, epochs: int, grace: int, reduction: float) -> None:
        """`baseline`: the trial that is never stopped, since others are compared with it; `epochs`: of the longest
        trial; `grace`: epochs before a trial may be stopped; `reduction`: about one of this number of trials at a rung
        continues."""
        self.baseline = baseline
        super().__init__(EPOCH, SCORE, "max", max_t=epochs, grace_period=grace, reduction_factor=reduction)

    def replay(self, record: TuningRecord, epochs: dict[str, int]) -> list[str]:
        """Give ASHA the recorded epochs of all trials, in the order of time.

        `epochs`: the number of epochs of each trial that has not ended. Returns the names of the trials that are now
        stopped: their last result was recorded, but the process was killed before its decision.
        """
        for trial in record.trials:
            self.on_trial_add(None, NamedTrial(trial.name))
        results = [(result, trial) for trial in record.trials for result in trial.curve]
        stopped = []
        for result, trial in sorted(results, key=lambda pair: pair[0].time):
            last = result.epoch >= epochs.get(trial.name, result.epoch)
            seen = {EPOCH: result.epoch, SCORE: record.goodness(result), LAST: last}
            action = self.on_trial_result(None, NamedTrial(trial.name), seen)
            if action == TrialScheduler.STOP and trial.state not in ENDED and result is trial.curve[-1]:
                stopped.append(trial.name)
        return stopped

    def on_trial_add(self, tune_controller: Any, trial: Any) -> None:
        super().on_trial_add(tune_controller, named(trial))

    def on_trial_result(self, tune_controller: Any, trial: Any, result: dict[str, Any]) -> str:
        action = super().on_trial_result(tune_controller, named(trial), result)
        never = result.get(LAST) or named(trial).trial_id == self.baseline
        return TrialScheduler.CONTINUE if never else action

    def on_trial_complete(self, tune_controller: Any, trial: Any, result: dict[str, Any]) -> None:
        """Nothing: the trial's results were all received when they came."""

    def on_trial_remove(self, tune_controller: Any, trial: Any) -> None:
        """Nothing: the trial stays known by its name."""


def named(trial: Any) -> Any:
    """Tune's trial by the name that its configuration has."""
    return trial if isinstance(trial, NamedTrial) else NamedTrial(trial.config["trial"])


RESTARTS = 3  # how many times a trial resumes from its checkpoint after its process was lost
FAILURE_FILE = "failure.txt"  # in a trial's folder: the traceback of an error that is a bug
RAY_FOLDER = "ray"  # of Tune's own files, in the tuning's folder


def run_trials(
    record: TuningRecord, jobs: Mapping[str, TrainingJob], group: WorkerGroupConfig, observers: Sequence[TuningObserver]
) -> int:
    """Run the trials of `jobs`, by name, each in one worker of the group, `max_workers` at most at once.

    SIGINT and SIGTERM are passed to the trials, which save and end; returns the signal, or 0. An error of an observer
    does the same, and is raised. Raises TrainingError where the cluster fails or cannot be reached.
    """
    signals = SingleProcess().install_signal_handlers()
    epochs = {name: job.recipe.training.epochs for name, job in jobs.items()}
    asha = ResumableAsha(record.trials[0].name, max(epochs.values()), record.grace, record.reduction)
    driver = TuneDriver(jobs, TuningObservers(observers), signals)
    for name in (stopped := asha.replay(record, epochs)):
        driver.observers.stopped(name)
    remaining = [name for name in jobs if name not in stopped]
    if not remaining:
        return 0
    try:
        with ray_cluster(group):
            signals.install_signal_handlers()  # Ray has installed its own handlers
            driver.fit(remaining, asha, group)
    except (RayError, tune.TuneError) as error:
        if signals.stop_requested():  # the signal reached the cluster's processes as well
            return signals.stop_requested()
        raise TrainingError(
            driver.folder.name, f"Ray Tune failed: {last_error_line(error)}", "go on with --resume"
        ) from error
    finally:
        driver.remove_files()
    if driver.error:
        raise driver.error
    return signals.stop_requested()


class TuneDriver:
    """Passes the trials' events to the observers, and asks the trials to stop."""

    def __init__(self, jobs: Mapping[str, TrainingJob], observers: TuningObservers, signals: SingleProcess) -> None:
        self.jobs, self.observers, self.signals = jobs, observers, signals
        self.folder: Path = next(iter(jobs.values())).run.parent
        self.running: set[str] = set()
        self.ended: set[str] = set()
        self.error: Exception | None = None

    def __getstate__(self) -> dict[str, Any]:
        """Nothing: Tune stores its callbacks in files that are never read."""
        return {}

    def fit(self, names: Sequence[str], asha: ResumableAsha, group: WorkerGroupConfig) -> None:
        """Run Tune until all trials have ended."""
        logging.getLogger("ray.tune").setLevel(logging.CRITICAL)
        self.remove_files()
        staged = {name: write_token(self.jobs[name]) for name in names}
        jobs = {name: self.jobs[name] for name in names}
        device = "cuda" if group.gpu else "cpu"
        actor = tune.with_parameters(TrialActor, jobs=jobs, staged=staged, device=device)
        tuner = tune.Tuner(
            tune.with_resources(actor, group.worker_resources),
            param_space={"trial": tune.grid_search(list(names))},
            tune_config=tune.TuneConfig(scheduler=asha, max_concurrent_trials=group.max_workers),
            run_config=tune.RunConfig(
                name=RAY_FOLDER,
                storage_path=str(self.folder),
                stop=StopRequests(self),
                callbacks=[TrialEvents(self)],
                verbose=0,
                failure_config=tune.FailureConfig(max_failures=RESTARTS),
                checkpoint_config=tune.CheckpointConfig(checkpoint_at_end=False),
            ),
        )
        tuner.fit()

    def dispatch(self, trial: str, events: Sequence[WorkerEvent]) -> None:
        """Pass a trial's events to the observers. An observer's error stops the tuning."""
        try:
            for event in events:
                self.dispatch_event(trial, event)
        except Exception as error:
            self.error = self.error or error

    def dispatch_event(self, trial: str, event: WorkerEvent) -> None:
        observers = self.observers
        match event:
            case StartReport():
                self.running.add(trial)
                (self.jobs[trial].run / FAILURE_FILE).unlink(missing_ok=True)
                observers.started(trial, self.jobs[trial], event)
            case StepReport():
                observers.step(trial, event)
            case EpochReport():
                observers.epoch(trial, event)
            case WorkerWarning(message):
                observers.warned(trial, message)
            case Outcome():
                self.end(trial)
                if not event.signal:
                    observers.finished(trial, event)
            case WorkerFailed(error):
                self.end(trial)
                observers.failed(trial, str(error))
            case WorkerCrashed(error, trace):
                self.end(trial)
                path = self.jobs[trial].run / FAILURE_FILE
                path.write_text(f"{trace}\n", encoding="utf-8")
                observers.failed(trial, f"{error}; its traceback is in {path}")

    def end(self, trial: str) -> None:
        self.running.discard(trial)
        self.ended.add(trial)

    def completed(self, trial: str) -> None:
        """Tune has ended a trial: ASHA has stopped it, unless it ended by itself."""
        if trial not in self.ended:
            self.end(trial)
            self.observe(lambda: self.observers.stopped(trial))

    def lost(self, trial: str) -> None:
        """A trial's process was lost too often."""
        if trial not in self.ended:
            self.end(trial)
            problem = f"its process was lost {RESTARTS + 1} times, the last time for want of memory or of its node"
            self.observe(lambda: self.observers.failed(trial, problem))

    def observe(self, notify: Callable[[], None]) -> None:
        try:
            notify()
        except Exception as error:
            self.error = self.error or error

    def stop_all(self) -> bool:
        """Whether Tune shall end now: all trials have saved, after a signal or an error of an observer."""
        if not (self.signals.stop_requested() or self.error):
            return False
        (self.folder / STOP_FILE).touch()
        return not self.running

    def remove_files(self) -> None:
        """Remove the files that only a running tuning needs, also files of a killed process."""
        (self.folder / STOP_FILE).unlink(missing_ok=True)
        shutil.rmtree(self.folder / RAY_FOLDER, ignore_errors=True)
        for job in self.jobs.values():
            (job.run / TOKEN).unlink(missing_ok=True)


class TrialEvents(tune.Callback):
    """Tune's callback: receives results and the ends of trials."""

    def __init__(self, driver: TuneDriver) -> None:
        self.driver = driver

    def on_trial_result(self, iteration: int, trials: Any, trial: Any, result: dict[str, Any], **info: Any) -> None:
        self.driver.dispatch(trial.config["trial"], result.pop(EVENTS, ()))

    def on_trial_complete(self, iteration: int, trials: Any, trial: Any, **info: Any) -> None:
        self.driver.completed(trial.config["trial"])

    def on_trial_error(self, iteration: int, trials: Any, trial: Any, **info: Any) -> None:
        self.driver.lost(trial.config["trial"])


class StopRequests(tune.Stopper):
    """Tune's stopper: ends the tuning when every trial has saved."""

    def __init__(self, driver: TuneDriver) -> None:
        self.driver = driver

    def __call__(self, trial_id: str, result: dict[str, Any]) -> bool:
        return False

    def stop_all(self) -> bool:
        return self.driver.stop_all()
