"""Runs a tuning: prepares and trains its trials, logs them to MLflow, and writes the best recipe."""

import shlex
import sys
from collections import Counter
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from interlinear.cli.console import FAILED, say, status
from interlinear.cli.progress import LiveLine
from interlinear.errors import TrainingError
from interlinear.installation import shell_command
from training.events import EpochReport, Outcome, StartReport, StepReport, TrainingJob
from training.ray.capacity import trials_at_once
from training.ray.cluster import WorkerGroupConfig, check_address
from training.ray.tune import run_trials
from training.runs.job import create_run_folder, git_commit
from training.runs.machine import describe_machine
from training.runs.run_lock import run_lock
from training.tuning.events import TuningObserver
from training.tuning.planning import TuningRequest, base_plan, fit_space, plan_tuning, prepare_trials, resume_tuning
from training.tuning.record import METRIC_NAMES, TUNING_FILE, Recorder, TuningRecord
from training.tuning.report import best_score, best_settings, overridden_settings, trial_table, write_best_recipe

if TYPE_CHECKING:
    from training.tracking.tuning import TrialTrackers


class TuningProgress(LiveLine):
    """Observer of a tuning that prints progress and the ends of trials. It follows the one that keeps the record."""

    def __init__(self, record: TuningRecord) -> None:
        super().__init__()
        self.record = record

    def summary(self) -> str:
        """How many trials are running and done, and the best so far."""
        states = Counter(trial.state for trial in self.record.trials)
        done = states["finished"] + states["stopped"] + states["failed"]
        text = f"{states['running']} running, {done} of {len(self.record.trials)} trials done"
        best = self.record.best_trial()
        return f"{text}, best {self.score_of(best.name)}" if best else text

    def score_of(self, name: str) -> str:
        """A trial's name and best dev score so far."""
        trial = self.record.trial(name)
        return f"{name}: dev {METRIC_NAMES[self.record.metric]} {best_score(self.record, trial)}"

    def started(self, trial: str, job: TrainingJob, start: StartReport) -> None:
        record = self.record.trial(trial)
        on = f", going on after update {start.updates_done:,}" if start.updates_done else ""
        self.line(f"{trial} started{on}: {' '.join(record.settings) or 'the recipe itself'}")
        self.show(self.summary())

    def step(self, trial: str, report: StepReport) -> None:
        self.show(self.summary())

    def epoch(self, trial: str, report: EpochReport) -> None:
        self.show(self.summary())

    def warned(self, trial: str, message: str) -> None:
        self.line(f"{trial}: {message}")

    def finished(self, trial: str, outcome: Outcome) -> None:
        self.line(f"{self.score_of(trial)}, finished after epoch {outcome.epochs}")

    def stopped(self, trial: str) -> None:
        self.line(f"{self.score_of(trial)}, stopped after epoch {len(self.record.trial(trial).curve)}")

    def failed(self, trial: str, problem: str) -> None:
        self.line(f"{trial} failed: {problem}")


def report_tuning(record: TuningRecord, best: Path, overridden: list[str]) -> int:
    """Print the table of trials and how to train with the best values; on stdout, the best recipe's path. Returns the
    exit code: a tuning with failed trials has failed."""
    print(trial_table(record), file=sys.stderr)
    chosen = shlex.join(set_options(best_settings(record)))
    say(f"best values, of {record.best}: {chosen or 'the recipe as it is'}")
    also = set_options(overridden)
    why = f" (the defaults of {record.data} would override what --set repeats)" if also else ""
    say(f"train with them by: {shell_command('train', best, '--data', record.data, *also)}{why}")
    failed = [trial.name for trial in record.trials if trial.state == "failed"]
    if failed:
        say(f"{', '.join(failed)} failed, as is said above; --resume tries again.")
    print(best)
    return FAILED if failed else 0


def set_options(settings: list[str]) -> list[str]:
    """Settings as options."""
    return [word for setting in settings for word in ("--set", setting)]


def report_interruption(record: TuningRecord, signal: int) -> int:
    """Print how to continue an interrupted tuning; returns the exit code."""
    arguments = [word for word in sys.argv[1:] if word != "--resume"]
    done = sum(trial.state in ("finished", "stopped") for trial in record.trials)
    say(
        f"interrupted; {done} of {len(record.trials)} trials are done, and the others are saved. "
        f"Go on with: {shell_command(*arguments, '--resume')}"
    )
    return 128 + signal


@dataclass(frozen=True)
class TuningConfig:
    """Where trials run, and where they are logged. `at_once`: concurrent trials, by default as many as fit; `per_gpu`:
    trials that share a GPU."""

    at_once: int | None = None
    gpu: bool = False
    address: str | None = None
    tracked: bool = True
    per_gpu: int = 1


def run_tuning(request: TuningRequest, config: TuningConfig, resume: bool) -> int:
    """Run or resume a tuning to its end, or until it is interrupted; returns the exit code.

    Invalid options and values raise an InterlinearError before a folder, the MLflow store or a cluster is changed.
    """
    record = resume_tuning(request) if resume else plan_tuning(request)
    group = worker_group(request, config)
    with ExitStack() as stack:
        stack.enter_context(run_lock(request.folder, "tuning"))
        if not resume:
            fit_space(record, request)
        with create_run_folder(request.folder):
            record.machine = record.machine or describe_machine()
            record.git_commit = record.git_commit or git_commit()
            record.write(request.folder)
            jobs = prepare_trials(record, request)
            trackers = stack.enter_context(open_trackers(request, config, jobs)) if jobs and config.tracked else None
        if jobs and (signal := run_jobs(record, request.folder, jobs, group, trackers)):
            return report_interruption(record, signal)
        return finish(record, request, trackers)


def run_jobs(
    record: TuningRecord,
    folder: Path,
    jobs: dict[str, TrainingJob],
    group: WorkerGroupConfig,
    trackers: "TrialTrackers | None",
) -> int:
    """Train the trials that have not ended; returns the signal that interrupted them, or 0."""
    say("connecting to Ray ..." if group.address else "starting Ray ...")

    # The record follows MLflow: a trial that is recorded as finished has its model there.
    progress = TuningProgress(record)
    observers: list[TuningObserver] = [*([trackers] if trackers else []), Recorder(record, folder), progress]
    try:
        return run_trials(record, jobs, group, observers)
    finally:
        progress.clear()


def finish(record: TuningRecord, request: TuningRequest, trackers: "TrialTrackers | None") -> int:
    """Write the best recipe and print the result; returns the exit code. Raises TrainingError where there is none."""
    folder = request.folder
    record.write(folder)
    if record.best is None:
        raise TrainingError(str(folder), "no trial has trained an epoch", "see above why, then go on with --resume")
    best = write_best_recipe(record, folder)
    if trackers:
        trackers.log_result(record, [best, folder / TUNING_FILE])
    return report_tuning(record, best, overridden_settings(record, best, request.data_root))


def worker_group(request: TuningRequest, config: TuningConfig) -> WorkerGroupConfig:
    """The workers of the trials. Raises UsageError for more than this machine has room for, or an invalid address."""
    if config.address:
        check_address(config.address)
        most = config.at_once or request.trials
    else:
        most = trials_at_once(base_plan(request).recipe, config.at_once, config.gpu, config.per_gpu)

    return WorkerGroupConfig(config.at_once or 1, most, config.gpu, config.address, config.per_gpu)


def open_trackers(request: TuningRequest, config: TuningConfig, jobs: dict[str, TrainingJob]) -> "TrialTrackers":
    """The MLflow runs of a tuning and its trials."""
    with status("opening the MLflow store"):
        from training.tracking.tuning import TrialTrackers

        job = next(iter(jobs.values()))
        tags = {"recipe": job.recipe_name, "dataset": job.dataset, "seed": str(request.seed)}
        return TrialTrackers(request.folder, jobs, job.dataset, tags, request.tracking, say)
