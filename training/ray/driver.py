"""Runs the training loop on Ray Train workers; the driver is the process of the command.

The observers stay in the driver, so MLflow and the progress line need no address on a worker. A control actor carries
the workers' events to the driver a few times a second and returns the signal that the driver has received. When a
worker dies, Ray restarts the whole group, and the loop resumes from the newest checkpoint. Data and checkpoints go
through a storage (training/storage/storage.py), or lie on a disk that every node shares.
"""

import os
import pickle
import shutil
import signal
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, assert_never

from interlinear.errors import TrainingError
from training.events import EpochReport, Observer, Observers, Outcome, StartReport, StepReport, TrainingJob
from training.loop import process_group
from training.loop.process_group import COLLECTIVE_TIMEOUT
from training.ray import BACKEND_TIMEOUT
from training.ray.capacity import available_cpus, available_memory, check_workers, worker_bytes
from training.ray.cluster import WorkerGroupConfig, last_error_line, node_capacity, ray_cluster
from training.ray.control import POLL_SECONDS, ControlActor, WorkerCrashed, WorkerEvent, WorkerFailed, WorkerWarning
from training.ray.failure_monitor import FailureMonitor
from training.storage.staging import TOKEN, StagedInputs, stage_inputs, write_token
from training.storage.storage import Storage

# Ray is imported after training.ray.cluster, which sets the environment that Ray reads.
# isort: split
import ray
from ray.exceptions import RayError
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from training.ray.worker import run_worker

# Seconds between two checks whether more workers fit, or only fewer.
RESIZE_SECONDS = float(os.environ.get("INTERLINEAR_RESIZE_SECONDS") or 30)
SHUTDOWN_SECONDS = 20.0  # seconds that `trainer.fit()` may take after a stop
NCCL_RUNTIME_ENV = {"env_vars": {"TORCH_NCCL_BLOCKING_WAIT": "1"}}


def train_on_ray(job: TrainingJob, group: WorkerGroupConfig, observers: Sequence[Observer] = ()) -> Outcome:
    """Train as `training.loop.trainer.train` does, with Ray workers; the observers are called in this process.

    SIGINT and SIGTERM are passed to the workers, which save and end: the outcome then carries the signal. While Ray is
    still starting, they end the command as soon as Ray can be shut down. Must be called from the main thread. Raises
    UsageError for an invalid address and for more workers than this machine has room for, TrainingError when the
    cluster fails or cannot be reached, and any InterlinearError that a worker raised.
    """
    signals = process_group.SingleProcess().install_signal_handlers()
    if not group.address:
        group = _fit_to_machine(job, group)
    try:
        with ray_cluster(group):
            signals.install_signal_handlers()  # Ray has installed its own handlers
            return _Driver(job, observers).train(group, signals)
    except RayError as error:
        if signals.stop_requested():  # the signal reached the cluster's processes as well
            raise _exit_exception(signals.stop_requested()) from None
        raise TrainingError(
            job.name, f"the Ray cluster failed: {last_error_line(error)}", "go on with --resume"
        ) from error


def _fit_to_machine(job: TrainingJob, group: WorkerGroupConfig) -> WorkerGroupConfig:
    """The group with no more workers than fit on this machine. Raises UsageError where `min_workers` do not fit."""
    check_workers(job.recipe, group.min_workers, group.gpu)
    max_workers_here = min(available_cpus(), available_memory() // worker_bytes(job.recipe))
    return replace(group, max_workers=max(group.min_workers, min(group.max_workers, max_workers_here)))


class _Driver:
    """Starts the workers, and passes their events to the observers in this process."""

    def __init__(self, job: TrainingJob, observers: Sequence[Observer]) -> None:
        self.job, self.observers = job, Observers(observers)
        self.storage = Storage(job.run_storage.uri, self.observers.warned) if job.run_storage else None

    def train(self, group: WorkerGroupConfig, signals: process_group.SingleProcess) -> Outcome:
        staged = stage_inputs(self.job, self.storage) if self.storage else write_token(self.job)
        control = _start_control_actor()
        monitor = _failure_monitor(self.job, group)
        trainer_thread = _TrainerThread(self.job, group, control, staged, self.storage)
        trainer_thread.start()
        try:
            return self.poll_events(trainer_thread, control, monitor, signals)
        finally:
            trainer_thread.stop()
            (self.job.run / TOKEN).unlink(missing_ok=True)

    def poll_events(
        self,
        trainer_thread: "_TrainerThread",
        control: Any,
        monitor: FailureMonitor,
        signals: process_group.SingleProcess,
    ) -> Outcome:
        """Poll the control actor and dispatch events until the training ends."""
        received, failures = False, 0
        while True:
            trainer_thread.join(POLL_SECONDS)
            ended = not trainer_thread.is_alive()
            status = ray.get(control.poll.remote(signals.stop_requested()))
            for batch in status.event_batches:
                received = True
                events: list[WorkerEvent] = pickle.loads(batch)
                for event in events:
                    if isinstance(event, StartReport):
                        monitor.started(event.updates_done, status)
                    self.dispatch(event)
            if ended:
                return self.with_local_paths(trainer_thread.outcome())
            if signals.stop_requested() and (monitor.waiting or not received):
                raise _exit_exception(signals.stop_requested())
            if status.failures > failures:
                failures = status.failures
                _write_failure(self.job, status.details)
            if warning := monitor.check(status):
                self.observers.warned(warning)

    def dispatch(self, event: WorkerEvent) -> None:
        """Pass a worker's event to the observers, with this machine's paths. Raises the error of a failed worker."""
        match event:
            case StartReport():
                self.observers.started(self.job, event)
            case StepReport():
                self.observers.step(event)
            case EpochReport():
                self.observers.epoch(event)
            case WorkerWarning(message):
                self.observers.warned(message)
            case Outcome():
                if self.storage:
                    self.storage.get(f"runs/{self.job.name}/bundle", self.job.run / "bundle")
                self.observers.finished(self.with_local_paths(event))
            case WorkerFailed(error):
                raise error
            case WorkerCrashed(raised, trace):
                where = _write_failure(self.job, trace)
                raise TrainingError(self.job.name, f"a worker failed: {raised}", f"its traceback is in {where}")
            case _:
                assert_never(event)

    def with_local_paths(self, outcome: Outcome) -> Outcome:
        return replace(outcome, run=self.job.run, bundle=outcome.bundle and self.job.run / "bundle")


def _failure_monitor(job: TrainingJob, group: WorkerGroupConfig) -> FailureMonitor:
    host, _, port = ray.get_runtime_context().gcs_address.rpartition(":")
    head = (host, int(port)) if group.address else None
    return FailureMonitor(job.name, group.min_workers, group.resource, partial(node_capacity, group), head)


def _start_control_actor() -> Any:
    """Start the control actor on this node, so that it ends with the driver and survives the loss of other nodes."""
    this_node = NodeAffinitySchedulingStrategy(ray.get_runtime_context().get_node_id(), soft=False)
    actor: Any = ray.remote(ControlActor)
    return actor.options(num_cpus=0, scheduling_strategy=this_node).remote()


class _TrainerThread(threading.Thread):
    """Runs Ray Train's `fit`, while the main thread handles signals and polls the control actor."""

    def __init__(
        self, job: TrainingJob, group: WorkerGroupConfig, control: Any, staged: StagedInputs, storage: Storage | None
    ) -> None:
        super().__init__(daemon=True)
        self.job, self.group, self.control = job, group, control
        self.staged, self.storage = staged, storage
        self.active = True
        self.result: Any = None
        self.error: BaseException | None = None

    def run(self) -> None:
        try:
            trainer = self.trainer()
            if self.active:
                self.result = trainer.fit().return_value
        except (Exception, SystemExit) as error:  # SystemExit is how Ray ends `fit` itself
            self.error = error

    def stop(self) -> None:
        """Stop `fit` at any stage. Running beside `ray.shutdown`, it would crash this process or start a
        cluster."""
        self.active = False
        deadline = time.monotonic() + SHUTDOWN_SECONDS
        with suppress(RayError):  # the cluster is gone, and `fit` ends by itself
            while self.is_alive() and time.monotonic() < deadline:
                if controller := ray.get(self.control.get_controller.remote(), timeout=SHUTDOWN_SECONDS):
                    ray.kill(controller)
                    break
                self.join(POLL_SECONDS)
        self.join(max(POLL_SECONDS, deadline - time.monotonic()))

    def trainer(self) -> Any:
        from ray.train import FailureConfig, RunConfig, ScalingConfig
        from ray.train.torch import TorchConfig, TorchTrainer

        from training.ray.controller import ControllerMonitor

        job, group = self.job, self.group
        workers: Any = (
            group.max_workers if group.min_workers == group.max_workers else (group.min_workers, group.max_workers)
        )
        folder = job.run.resolve()
        # Ray's records; delete the records of an earlier process.
        if self.storage:
            records = self.storage.uri_of(f"runs/{job.name}")
            self.storage.remove(f"runs/{job.name}/ray")
        else:
            records = str(folder)
            shutil.rmtree(folder / "ray", ignore_errors=True)
        return TorchTrainer(
            run_worker,
            train_loop_config={
                "job": replace(job, run=folder, prepared=job.prepared.resolve()),
                "staged": self.staged,
                "control": self.control,
                "threads": os.environ.get("OMP_NUM_THREADS"),
                "timeout": COLLECTIVE_TIMEOUT,
            },
            # Counts are summed on the CPU, gradients on their device.
            torch_config=TorchConfig(
                backend="cpu:gloo,cuda:nccl" if group.gpu else "gloo",
                timeout_s=BACKEND_TIMEOUT,  # type: ignore[arg-type]
            ),
            scaling_config=ScalingConfig(
                num_workers=workers,
                use_gpu=group.gpu,
                elastic_resize_monitor_interval_s=RESIZE_SECONDS,  # type: ignore[call-arg]
            ),
            run_config=RunConfig(
                name="ray",
                storage_path=records,
                failure_config=FailureConfig(max_failures=-1),  # the driver's failure monitor decides when to give up
                callbacks=[ControllerMonitor(self.control)],  # type: ignore[list-item]
                # Raise NCCL errors in the waiting worker: NCCL's watchdog would end the process.
                worker_runtime_env=NCCL_RUNTIME_ENV if group.gpu else None,  # type: ignore[call-arg]
            ),
        )

    def outcome(self) -> Outcome:
        """The training's outcome. Raises TrainingError where Ray gave up."""
        if isinstance(self.result, Outcome):
            return self.result
        where = _write_failure(self.job, str(self.error))
        raise TrainingError(
            self.job.name,
            f"Ray Train ended with: {last_error_line(self.error)}",
            f"all of it is in {where}; go on with --resume",
        ) from self.error


def _exit_exception(number: int) -> BaseException:
    return KeyboardInterrupt() if number == signal.SIGINT else SystemExit(128 + number)


def _write_failure(job: TrainingJob, failure: str) -> Path:
    path = job.run / "failure.txt"
    path.write_text(f"{failure}\n", encoding="utf-8")
    return path
