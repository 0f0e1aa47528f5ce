"""The same loop on a Ray cluster: workers by Ray Train, news from rank 0 to the driver, the wish to stop the other way.

The driver - where the command runs - keeps the observers, so that MLflow and the progress line need no address on a
worker. A mailbox, an actor of its own, carries to it what the workers tell, a few times a second, and answers with the
signal that the driver has received. A worker that dies takes its group with it; Ray starts the group again, and the
loop goes on from the newest checkpoint. Data and checkpoints pass through a storage (training/storage/storage.py), or lie on a
disk that every node has to see.
"""

import logging
import os
import pickle
import shutil
import signal
import socket
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from seq2seq.errors import TrainingError, UsageError
from training.events import Observer, Outcome, TrainingJob
from training.loop import process_group
from training.loop.process_group import COLLECTIVE_TIMEOUT
from training.ray.capacity import available_cpus, available_memory, check_workers, worker_bytes
from training.ray.control import POLL_SECONDS, ControlActor
from training.ray.failure_monitor import FailureMonitor, missing_resources
from training.storage.staging import TOKEN, StagedInputs, stage_inputs, write_token
from training.storage.storage import Storage

# A collective's own timeouts come after the workers' deadline, by which they say who is missing.
BACKEND_TIMEOUT = COLLECTIVE_TIMEOUT + 10

# Ray reads these when it is imported, in this process and in those that it starts. What the user has set stays.
SETTINGS = {
    "RAY_AUTH_MODE": "token",
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_CHDIR_TO_TRIAL_DIR": "0",
    "RAY_worker_niceness": "0",  # training is the work, not what is left over beside it
    "RAY_TRAIN_V2_ENABLED": "1",
    "RAY_TRAIN_HEALTH_CHECK_INTERVAL_S": "0.5",  # how soon a worker's death, and the end, are noticed
    "RAY_TRAIN_WORKER_HEALTH_CHECK_TIMEOUT_S": f"{BACKEND_TIMEOUT}",  # colleagues find a hung one first, and name it
    "RAY_TRAIN_COLLECTIVE_TIMEOUT_S": f"{BACKEND_TIMEOUT}",
}
for name, value in SETTINGS.items():
    os.environ.setdefault(name, value)

import ray  # noqa: E402
from ray.exceptions import RayError  # noqa: E402
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy  # noqa: E402

from training.ray.worker import run_worker  # noqa: E402

# Seconds between two looks whether there is room for more workers, or only for fewer.
RESIZE_SECONDS = float(os.environ.get("INTERLINEAR_RESIZE_SECONDS") or 30)
SHUTDOWN_SECONDS = 20.0  # seconds that `fit` has to end when it is told to
NCCL = {"env_vars": {"TORCH_NCCL_BLOCKING_WAIT": "1"}}
OBJECT_STORE = 80 << 20  # bytes; Ray's least. Nothing large passes through it.


@dataclass(frozen=True)
class WorkerGroupConfig:
    """Where to train: so many workers, each with a GPU or not, of the cluster at an address or of one of our own."""

    min_workers: int
    max_workers: int
    gpu: bool = False
    address: str | None = None

    @property
    def resource(self) -> str:
        """What a worker needs one of."""
        return "GPU" if self.gpu else "CPU"


def train_on_ray(job: TrainingJob, group: WorkerGroupConfig, observers: Sequence[Observer] = ()) -> Outcome:
    """Train as `training.loop.trainer.train` does, with Ray's workers; the observers are called in this process.

    SIGINT and SIGTERM reach the workers, which save and end: the outcome then carries the signal. While Ray is still
    starting they end the command as soon as Ray can be ended. Call it from the main thread. Raises CallError for an
    address that is none and for more workers than this machine has room for, TrainingError when the cluster fails or
    cannot be reached, and whatever InterlinearError a worker raised.
    """
    signals = process_group.SingleProcess().install_signal_handlers()
    if not group.address:
        group = _fit_to_machine(job, group)
    try:
        with ray_cluster(group):
            signals.install_signal_handlers()  # Ray has put handlers of its own in their place
            return _Driver(job, observers).train(group, signals)
    except RayError as error:
        if signals.stop_requested():  # it was sent to the cluster's processes as well
            raise _exit_exception(signals.stop_requested()) from None
        raise TrainingError(
            job.name, f"the Ray cluster failed: {last_error_line(error)}", "go on with --resume"
        ) from error


def _fit_to_machine(job: TrainingJob, group: WorkerGroupConfig) -> WorkerGroupConfig:
    """The group with no more workers than this machine has room for. Raises CallError where the fewest are too many."""
    check_workers(job.recipe, group.min_workers, group.gpu)
    max_workers_here = min(available_cpus(), available_memory() // worker_bytes(job.recipe))
    return replace(group, max_workers=max(group.min_workers, min(group.max_workers, max_workers_here)))


class _Driver:
    """Hands the job to the workers, and tells the observers here what comes of it."""

    def __init__(self, job: TrainingJob, observers: Sequence[Observer]) -> None:
        self.job, self.observers = job, observers
        self.storage = Storage(job.run_storage.uri, self.warn) if job.run_storage else None

    def train(self, group: WorkerGroupConfig, signals: process_group.SingleProcess) -> Outcome:
        staged = stage_inputs(self.job, self.storage) if self.storage else write_token(self.job)
        control = _start_control_actor()
        monitor = _failure_monitor(self.job, group)
        fit = _TrainerThread(self.job, group, control, staged, self.storage)
        fit.start()
        try:
            return self.poll_events(fit, control, monitor, signals)
        finally:
            fit.stop()
            (self.job.run / TOKEN).unlink(missing_ok=True)

    def poll_events(
        self, fit: "_TrainerThread", control: Any, monitor: FailureMonitor, signals: process_group.SingleProcess
    ) -> Outcome:
        """Hear what comes, until it ends."""
        received, failures = False, 0
        while True:
            fit.join(POLL_SECONDS)
            ended = not fit.is_alive()
            status = ray.get(control.poll.remote(signals.stop_requested()))
            for batch in status.event_batches:
                received = True
                for event, values in pickle.loads(batch):
                    if event == "started":
                        monitor.started(values[1].updates_done, status)
                    self.dispatch(event, values)
            if ended:
                return self.with_local_paths(fit.outcome())
            if signals.stop_requested() and (monitor.waiting or not received):
                raise _exit_exception(signals.stop_requested())
            if status.failures > failures:
                failures = status.failures
                _write_failure(self.job, status.details)
            if warning := monitor.check(status):
                self.warn(warning)

    def dispatch(self, event: str, values: tuple[Any, ...]) -> None:
        """Pass on what a worker tells, with the paths that the job has here. Raises what it failed by."""
        if event == "failed":
            raise values[0]
        if event == "crashed":
            raised, trace = values
            where = _write_failure(self.job, trace)
            raise TrainingError(self.job.name, f"a worker failed: {raised}", f"its traceback is in {where}")
        if event == "started":
            values = (self.job, values[1])
        if event == "finished":
            if self.storage:
                self.storage.get(f"runs/{self.job.name}/bundle", self.job.run / "bundle")
            values = (self.with_local_paths(values[0]),)
        for observer in self.observers:
            getattr(observer, event)(*values)

    def with_local_paths(self, outcome: Outcome) -> Outcome:
        return replace(outcome, run=self.job.run, bundle=outcome.bundle and self.job.run / "bundle")

    def warn(self, message: str) -> None:
        self.dispatch("warned", (message,))


def _failure_monitor(job: TrainingJob, group: WorkerGroupConfig) -> FailureMonitor:
    host, _, port = ray.get_runtime_context().gcs_address.rpartition(":")
    head = (host, int(port)) if group.address else None
    return FailureMonitor(job.name, group.min_workers, group.resource, partial(_node_capacity, group), head)


def _start_control_actor() -> Any:
    """An actor on this node: it ends with the driver, and with no other node."""
    here = NodeAffinitySchedulingStrategy(ray.get_runtime_context().get_node_id(), soft=False)
    actor: Any = ray.remote(ControlActor)
    return actor.options(num_cpus=0, scheduling_strategy=here).remote()


class _TrainerThread(threading.Thread):
    """Ray Train's `fit`, beside the main thread, which keeps the signals and looks into the mailbox."""

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
        except (Exception, SystemExit) as error:  # the latter is how Ray takes its own end
            self.error = error

    def stop(self) -> None:
        """Have it end, wherever it is. Beside `ray.shutdown` it would break this process, or start another cluster."""
        self.active = False
        deadline = time.monotonic() + SHUTDOWN_SECONDS
        with suppress(RayError):  # of a cluster that is gone: then `fit` ends as well
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
        number: Any = (
            group.max_workers if group.min_workers == group.max_workers else (group.min_workers, group.max_workers)
        )
        folder = job.run.resolve()
        # Ray's own records; those of an earlier process go.
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
            # Counts are summed on the CPU, gradients where they are.
            torch_config=TorchConfig(
                backend="cpu:gloo,cuda:nccl" if group.gpu else "gloo",
                timeout_s=BACKEND_TIMEOUT,  # type: ignore[arg-type]
            ),
            scaling_config=ScalingConfig(
                num_workers=number,
                use_gpu=group.gpu,
                elastic_resize_monitor_interval_s=RESIZE_SECONDS,  # type: ignore[call-arg]
            ),
            run_config=RunConfig(
                name="ray",
                storage_path=records,
                failure_config=FailureConfig(max_failures=-1),  # the driver's lookout says when it is enough
                callbacks=[ControllerMonitor(self.control)],  # type: ignore[list-item]
                # What NCCL fails by is raised where the workers wait for it: its watchdog would end the process.
                worker_runtime_env=NCCL if group.gpu else None,  # type: ignore[call-arg]
            ),
        )

    def outcome(self) -> Outcome:
        """How it ended. Raises TrainingError for what Ray gave up."""
        if isinstance(self.result, Outcome):
            return self.result
        where = _write_failure(self.job, str(self.error))
        raise TrainingError(
            self.job.name,
            f"Ray Train ended with: {last_error_line(self.error)}",
            f"all of it is in {where}; go on with --resume",
        ) from self.error


@contextmanager
def ray_cluster(group: WorkerGroupConfig) -> Iterator[None]:
    """A connection to the cluster at the address, or a cluster of this process's own, which ends with it."""
    if not group.address:
        for name in ("RAY_TRAIN_ENABLE_PREEMPTION_WATCHER", "RAY_TRAIN_METRICS_ENABLED"):
            os.environ.setdefault(name, "0")
    where = group.address or "Ray"
    scratch = None if group.address else tempfile.mkdtemp(prefix="ray-", dir="/tmp")  # sockets want a short path
    try:
        try:
            if group.address:
                check_address(group.address)
                ray.init(address=group.address, log_to_driver=False, logging_level=logging.ERROR)
            else:
                ray.init(
                    address="local",  # and no other cluster of this machine that Ray may find
                    num_cpus=available_cpus(),
                    include_dashboard=False,
                    object_store_memory=OBJECT_STORE,
                    log_to_driver=False,
                    logging_level=logging.ERROR,
                    _temp_dir=scratch,
                )
        except (RayError, ConnectionError, RuntimeError, ValueError) as error:
            remedy = "train with --no-ray, or look at Ray"
            if group.address:
                remedy = "see that the token (RAY_AUTH_TOKEN_PATH) and the versions of Ray and Python are the cluster's"
            raise TrainingError(where, f"no cluster: {last_error_line(error)}", remedy) from error
        # Ray would print what it thinks of a dead worker to stdout, which is for results.
        ray._private.worker._worker_logs_enabled = False
        _check_resources(group, where)
        yield
    finally:
        ray.shutdown()
        if scratch:
            shutil.rmtree(scratch, ignore_errors=True)


def check_address(address: str) -> None:
    """Raises CallError for what is no cluster's address, TrainingError where nothing answers."""
    # Ray looks for a cluster that is not there for three minutes, and then ends the process.
    if address == "auto":
        return
    host, colon, port = address.removeprefix("ray://").rpartition(":")
    if not colon or not host or not port.isdigit():
        raise UsageError(address, "is not a Ray cluster's address", "auto, HOST:PORT or ray://HOST:PORT")
    try:
        socket.create_connection((host, int(port)), timeout=5).close()
    except (OSError, OverflowError) as error:
        raise TrainingError(address, f"no Ray cluster answers ({error})", "start it with ray start --head") from error


def _check_resources(group: WorkerGroupConfig, where: str) -> None:
    """Ray waits for what no node has: for ever, unless the cluster is one that grows by itself."""
    limits = ray._private.state.state.get_max_resources_from_cluster_config() or {}
    if limits.get(group.resource, 0) < group.min_workers and (
        missing := missing_resources(group.min_workers, group.resource, _node_capacity(group))
    ):
        raise TrainingError(where, missing, "ask for fewer, or start more nodes")


def _node_capacity(group: WorkerGroupConfig) -> dict[str, int]:
    """The workers that each node has room for, where nothing else runs there."""
    nodes = ray.nodes()  # type: ignore[no-untyped-call]
    return {one["NodeManagerAddress"]: int(one["Resources"].get(group.resource, 0)) for one in nodes if one["Alive"]}


def _exit_exception(number: int) -> BaseException:
    return KeyboardInterrupt() if number == signal.SIGINT else SystemExit(128 + number)


def _write_failure(job: TrainingJob, failure: str) -> Path:
    path = job.run / "failure.txt"
    path.write_text(f"{failure}\n", encoding="utf-8")
    return path


def last_error_line(error: BaseException | None) -> str:
    lines = str(error).strip().splitlines() if error else []
    return lines[-1].strip() if lines else type(error).__name__
