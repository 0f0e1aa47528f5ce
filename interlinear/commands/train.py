"""The command `train`: trains a model."""

from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from interlinear.console import say, status
from interlinear.options import (
    DataName,
    DataRoot,
    Experiment,
    Gpu,
    LocalWorkers,
    NoCudaGraphs,
    NoTracking,
    ParentRun,
    PreparedFolder,
    RecipeName,
    Register,
    Resume,
    RunName,
    RunsFolder,
    Settings,
    StorageUri,
    Tracking,
    TrainingCluster,
    check_cuda_graphs,
    number_range,
    option_groups,
)
from interlinear.parallel_text import OwnText
from interlinear.progress import ProgressLine, report_interruption, report_outcome

if TYPE_CHECKING:
    from training.events import Observer


@option_groups
def train(
    recipe: RecipeName,
    data: DataName = None,
    own_text: OwnText = OwnText(),
    settings: Settings = None,
    workers: LocalWorkers = None,
    gpu: Gpu = False,
    no_cuda_graphs: NoCudaGraphs = False,
    address: TrainingCluster = None,
    run: RunName = None,
    resume: Resume = False,
    no_ray: Annotated[bool, typer.Option("--no-ray", help="Train in this process, without Ray.")] = False,
    register: Register = None,
    tracking: Tracking = None,
    experiment: Experiment = None,
    parent: ParentRun = None,
    no_tracking: NoTracking = False,
    data_root: DataRoot = None,
    prepared: PreparedFolder = Path("prepared"),
    storage: StorageUri = None,
    runs: RunsFolder = Path("runs"),
) -> int:
    """Train a recipe's model on a data set or your own text, through Ray Train, logged to MLflow.

    The last line printed is the SHA-256 of the final weights.
    """
    from seq2seq.devices import check_device
    from seq2seq.errors import UsageError
    from training.ray.capacity import check_workers, default_workers
    from training.runs.job import plan_training, prepare_job
    from training.runs.run_lock import run_lock

    min_workers, max_workers = number_range("--workers", workers or "1")
    check_cuda_graphs(no_cuda_graphs, gpu)
    if no_ray and (max_workers > 1 or address):
        raise UsageError("--no-ray", "several workers or an address need Ray", "leave it out, or train with one worker")
    if no_tracking and (register or tracking or experiment or parent):
        raise UsageError("--no-tracking", "the other options of MLflow have no effect with it", "leave it or them out")
    data = own_text.data_set(data, recipe, settings or ())
    shared_storage = None
    if storage:
        from training.storage.storage import Storage

        shared_storage = Storage(storage, say)
    # Invalid options are reported before the MLflow store, the run or a cluster is changed.
    plan = plan_training(recipe, data, settings or (), data_root, runs, run, resume, shared_storage)
    plan = replace(plan, cuda_graphs=not no_cuda_graphs)
    if not resume and plan.name != (requested_name := run or plan.default_name):
        say(
            f"there is a run '{requested_name}' already: this one is '{plan.name}'. "
            "To go on with the newest, give --resume."
        )
    if no_ray and gpu:
        check_device("cuda")
    if address:
        from training.ray.cluster import check_address

        check_address(address)
    elif not no_ray:
        check_workers(plan.recipe, min_workers, gpu)
    with ExitStack() as stack:
        stack.enter_context(run_lock(plan.run))
        observers: list[Observer] = [ProgressLine()]
        tracker = None
        if not no_tracking:
            with status("opening the MLflow store"):
                from training.tracking.run import Tracker

                tracker = stack.enter_context(Tracker(tracking, register, experiment, say, parent))
            observers.insert(0, tracker)
        if shared_storage:
            from training.runs.stored_runs import RecordsUploader

            observers.append(RecordsUploader(shared_storage))
        job = prepare_job(
            plan, data, data_root, prepared, tracking, shared_storage, tracker.open_run if tracker else None
        )
        if no_ray:
            from training.loop.process_group import SingleProcess
            from training.loop.trainer import train as train_here

            outcome = train_here(job, SingleProcess().install_signal_handlers(), observers, "cuda" if gpu else "cpu")
        else:
            if not (workers or gpu or address):
                min_workers, choice = default_workers(job)
                max_workers = min_workers
                say(f"training with {choice}; --workers sets the number")
            say("connecting to Ray ..." if address else "starting Ray ...")
            from training.ray.cluster import WorkerGroupConfig
            from training.ray.driver import train_on_ray

            outcome = train_on_ray(job, WorkerGroupConfig(min_workers, max_workers, gpu, address), observers)
    if outcome.signal:
        return report_interruption(outcome)
    report_outcome(outcome, tracker, register, data if own_text.has_test(data) else None)
    return 0
