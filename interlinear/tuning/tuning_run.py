"""Runs a tuning: prepares and trains its trials, logs them to MLflow, and writes the best recipe."""

from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from interlinear.console import say, status
from interlinear.tuning.tuning_output import TuningProgress, report_interruption, report_tuning
from seq2seq.errors import TrainingError

if TYPE_CHECKING:
    from training.events import TrainingJob
    from training.ray.cluster import WorkerGroupConfig
    from training.tracking.tuning import TrialTrackers
    from training.tuning.events import TuningObserver
    from training.tuning.planning import TuningRequest
    from training.tuning.record import TuningRecord


@dataclass(frozen=True)
class TuningConfig:
    """Where trials run, and where they are logged. `at_once`: concurrent trials, by default as many as fit; `per_gpu`:
    trials that share a GPU."""

    at_once: int | None = None
    gpu: bool = False
    address: str | None = None
    tracked: bool = True
    experiment: str | None = None
    per_gpu: int = 1


def run_tuning(request: "TuningRequest", config: TuningConfig, resume: bool) -> int:
    """Run or resume a tuning to its end, or until it is interrupted; returns the exit code.

    Invalid options and values raise an InterlinearError before a folder, the MLflow store or a cluster is changed.
    """
    from training.runs.job import create_run_folder, git_commit
    from training.runs.machine import describe_machine
    from training.runs.run_lock import run_lock
    from training.tuning.planning import fit_space, plan_tuning, prepare_trials, resume_tuning

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
    record: "TuningRecord",
    folder: Path,
    jobs: "dict[str, TrainingJob]",
    group: "WorkerGroupConfig",
    trackers: "TrialTrackers | None",
) -> int:
    """Train the trials that have not ended; returns the signal that interrupted them, or 0."""
    say("connecting to Ray ..." if group.address else "starting Ray ...")
    from training.ray.tune import run_trials
    from training.tuning.recorder import Recorder

    # The record follows MLflow: a trial that is recorded as finished has its model there.
    progress = TuningProgress(record)
    observers: list[TuningObserver] = [*([trackers] if trackers else []), Recorder(record, folder), progress]
    try:
        return run_trials(record, jobs, group, observers)
    finally:
        progress.clear()


def finish(record: "TuningRecord", request: "TuningRequest", trackers: "TrialTrackers | None") -> int:
    """Write the best recipe and print the result; returns the exit code. Raises TrainingError where there is none."""
    from training.tuning.record import TUNING_FILE
    from training.tuning.report import overridden_settings, write_best_recipe

    folder = request.folder
    record.write(folder)
    if record.best is None:
        raise TrainingError(str(folder), "no trial has trained an epoch", "see above why, then go on with --resume")
    best = write_best_recipe(record, folder)
    if trackers:
        trackers.log_result(record, [best, folder / TUNING_FILE])
    return report_tuning(record, best, overridden_settings(record, best, request.data_root))


def worker_group(request: "TuningRequest", config: TuningConfig) -> "WorkerGroupConfig":
    """The workers of the trials. Raises UsageError for more than this machine has room for, or an invalid address."""
    from training.ray.capacity import trials_at_once
    from training.tuning.planning import base_plan

    if config.address:
        from training.ray.cluster import check_address

        check_address(config.address)
        most = config.at_once or request.trials
    else:
        most = trials_at_once(base_plan(request).recipe, config.at_once, config.gpu, config.per_gpu)
    from training.ray.cluster import WorkerGroupConfig

    return WorkerGroupConfig(config.at_once or 1, most, config.gpu, config.address, config.per_gpu)


def open_trackers(request: "TuningRequest", config: TuningConfig, jobs: "dict[str, TrainingJob]") -> "TrialTrackers":
    """The MLflow runs of a tuning and its trials."""
    with status("opening the MLflow store"):
        from training.tracking.tuning import TrialTrackers

        job = next(iter(jobs.values()))
        tags = {"recipe": job.recipe_name, "dataset": job.dataset, "seed": str(request.seed)}
        return TrialTrackers(request.folder, jobs, config.experiment or job.dataset, tags, request.tracking, say)
