"""The command `train`: trains a model."""

import os
from contextlib import ExitStack
from dataclasses import replace
from typing import Annotated

import typer

from interlinear.cli.console import say, status
from interlinear.cli.options import (
    PREPARED,
    RUNS,
    DataRoot,
    PreparedFolder,
    RunsFolder,
    TrainingCluster,
    number_range,
)
from interlinear.cli.progress import ProgressLine, report_interruption, report_outcome
from interlinear.cli.training_options import TrainingOptions


def train(
    options: TrainingOptions,
    address: TrainingCluster = None,
    no_ray: Annotated[bool, typer.Option("--no-ray", help="Train in this process, without Ray.")] = False,
    data_root: DataRoot = None,
    prepared: PreparedFolder = PREPARED,
    runs: RunsFolder = RUNS,
) -> int:
    """Train a recipe's model on a data set or your own text, through Ray Train, logged to MLflow.

    Prints the SHA-256 of the final weights; on stderr, the commands that serve, evaluate and promote the model.
    """
    from interlinear.devices import check_device
    from interlinear.errors import UsageError
    from training.events import Observer
    from training.ray.capacity import check_workers, default_workers
    from training.runs.job import locked_run, plan_training, prepare_job

    min_workers, max_workers = number_range("--workers", options.workers or "1")
    if no_ray and (max_workers > 1 or address):
        raise UsageError("--no-ray", "several workers or an address need Ray", "leave it out, or train with one worker")
    options.log.check()
    data, log = options.data_set(), options.log
    shared_storage = None
    if options.storage:
        from training.storage.storage import Storage

        shared_storage = Storage(options.storage, say)
    # Invalid options are reported before the MLflow store, the run or a cluster is changed.
    plan = plan_training(
        options.recipe, data, options.settings or (), data_root, runs, options.run, options.resume, shared_storage
    )
    plan = replace(plan, cuda_graphs=os.environ.get("INTERLINEAR_CUDA_GRAPHS") != "0")
    if no_ray and options.gpu:
        check_device("cuda")
    if address:
        from training.ray.cluster import check_address

        check_address(address)
    elif not no_ray:
        check_workers(plan.recipe, min_workers, options.gpu)
    with ExitStack() as stack:
        requested_name = options.run or plan.default_name
        plan = stack.enter_context(locked_run(plan, requested_name, shared_storage))
        if not options.resume and plan.name != requested_name:
            say(
                f"there is a run '{requested_name}' already: this one is '{plan.name}'. "
                "To go on with the newest, give --resume."
            )
        observers: list[Observer] = [ProgressLine()]
        tracker = None
        if log.logged:
            with status("opening the MLflow store"):
                from training.tracking.run import Tracker

                tracker = stack.enter_context(Tracker(log.store, log.register, say=say))
            observers.insert(0, tracker)
        if shared_storage:
            from training.runs.stored_runs import RecordsUploader

            observers.append(RecordsUploader(shared_storage))
        job = prepare_job(
            plan, data, data_root, prepared, log.store, shared_storage, tracker.open_run if tracker else None
        )
        if no_ray:
            from training.loop.process_group import SingleProcess
            from training.loop.trainer import train as train_here

            device = "cuda" if options.gpu else "cpu"
            outcome = train_here(job, SingleProcess().install_signal_handlers(), observers, device)
        else:
            if not (options.workers or options.gpu or address):
                min_workers, choice = default_workers(job)
                max_workers = min_workers
                say(f"training with {choice}; --workers sets the number")
            say("connecting to Ray ..." if address else "starting Ray ...")
            from training.ray.cluster import WorkerGroupConfig
            from training.ray.driver import train_on_ray

            outcome = train_on_ray(job, WorkerGroupConfig(min_workers, max_workers, options.gpu, address), observers)
    if outcome.signal:
        return report_interruption(outcome)
    report_outcome(outcome, tracker, log, data, data_root)
    return 0
