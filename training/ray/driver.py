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

from seq2seq.errors import CallError, TrainingError
from training.events import Observer, Outcome, TrainingJob
from training.loop import process_group
from training.loop.process_group import PATIENCE
from training.ray.capacity import check_workers, free_memory, processors, worker_bytes
from training.ray.control import POST, Mailbox
from training.ray.failure_monitor import Lookout, lacking
from training.storage.staging import TOKEN, Delivery, deliver, leave
from training.storage.storage import Storage

# A collective's own timeouts come after the workers' deadline, by which they say who is missing.
TIMEOUT = PATIENCE + 10

# Ray reads these when it is imported, in this process and in those that it starts. What the user has set stays.
SETTINGS = {
    "RAY_AUTH_MODE": "token",
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_CHDIR_TO_TRIAL_DIR": "0",
    "RAY_worker_niceness": "0",  # training is the work, not what is left over beside it
    "RAY_TRAIN_V2_ENABLED": "1",
    "RAY_TRAIN_HEALTH_CHECK_INTERVAL_S": "0.5",  # how soon a worker's death, and the end, are noticed
    "RAY_TRAIN_WORKER_HEALTH_CHECK_TIMEOUT_S": f"{TIMEOUT}",  # colleagues find a hung one first, and name it
    "RAY_TRAIN_COLLECTIVE_TIMEOUT_S": f"{TIMEOUT}",
}
for name, value in SETTINGS.items():
    os.environ.setdefault(name, value)

import ray  # noqa: E402
from ray.exceptions import RayError  # noqa: E402
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy  # noqa: E402

from training.ray.worker import work  # noqa: E402

# Seconds between two looks whether there is room for more workers, or only for fewer.
RESIZE = float(os.environ.get("INTERLINEAR_RESIZE_SECONDS") or 30)
ENDING = 20.0  # seconds that `fit` has to end when it is told to
NCCL = {"env_vars": {"TORCH_NCCL_BLOCKING_WAIT": "1"}}
OBJECT_STORE = 80 << 20  # bytes; Ray's least. Nothing large passes through it.


@dataclass(frozen=True)
class Group:
    """Where to train: so many workers, each with a GPU or not, of the cluster at an address or of one of our own."""

    fewest: int
    most: int
    gpu: bool = False
    address: str | None = None

    @property
    def unit(self) -> str:
        """What a worker needs one of."""
        return "GPU" if self.gpu else "CPU"


def train_on_ray(job: TrainingJob, group: Group, observers: Sequence[Observer] = ()) -> Outcome:
    """Train as `training.loop.trainer.train` does, with Ray's workers; the observers are called in this process.

    SIGINT and SIGTERM reach the workers, which save and end: the outcome then carries the signal. While Ray is still
    starting they end the command as soon as Ray can be ended. Call it from the main thread. Raises CallError for an
    address that is none and for more workers than this machine has room for, TrainingError when the cluster fails or
    cannot be reached, and whatever InterlinearError a worker raised.
    """
    asked = process_group.Alone().listen()
    if not group.address:
        group = _fitting(job, group)
    try:
        with connected(group):
            asked.listen()  # Ray has put handlers of its own in their place
            return _Driver(job, observers).train(group, asked)
    except RayError as error:
        if asked.asked_to_stop():  # it was sent to the cluster's processes as well
            raise _ended_by(asked.asked_to_stop()) from None
        raise TrainingError(job.name, f"the Ray cluster failed: {last_line(error)}", "go on with --resume") from error


def _fitting(job: TrainingJob, group: Group) -> Group:
    """The group with no more workers than this machine has room for. Raises CallError where the fewest are too many."""
    check_workers(job.recipe, group.fewest, group.gpu)
    room = min(processors(), free_memory() // worker_bytes(job.recipe))
    return replace(group, most=max(group.fewest, min(group.most, room)))


class _Driver:
    """Hands the job to the workers, and tells the observers here what comes of it."""

    def __init__(self, job: TrainingJob, observers: Sequence[Observer]) -> None:
        self.job, self.observers = job, observers
        self.storage = Storage(job.stored.uri, self.warn) if job.stored else None

    def train(self, group: Group, asked: process_group.Alone) -> Outcome:
        delivery = deliver(self.job, self.storage) if self.storage else leave(self.job)
        mailbox = _mailbox()
        lookout = _lookout(self.job, group)
        fit = _Fit(self.job, group, mailbox, delivery, self.storage)
        fit.start()
        try:
            return self.follow(fit, mailbox, lookout, asked)
        finally:
            fit.end()
            (self.job.run / TOKEN).unlink(missing_ok=True)

    def follow(self, fit: "_Fit", mailbox: Any, lookout: Lookout, asked: process_group.Alone) -> Outcome:
        """Hear what comes, until it ends."""
        heard, failures = False, 0
        while True:
            fit.join(POST)
            ended = not fit.is_alive()
            post = ray.get(mailbox.collect.remote(asked.asked_to_stop()))
            for letter in post.letters:
                heard = True
                for event, values in pickle.loads(letter):
                    if event == "started":
                        lookout.started(values[1].done, post)
                    self.hear(event, values)
            if ended:
                return self.at_home(fit.outcome())
            if asked.asked_to_stop() and (lookout.waiting or not heard):
                raise _ended_by(asked.asked_to_stop())
            if post.failures > failures:
                failures = post.failures
                _record(self.job, post.details)
            if news := lookout.look(post):
                self.warn(news)

    def hear(self, event: str, values: tuple[Any, ...]) -> None:
        """Pass on what a worker tells, with the paths that the job has here. Raises what it failed by."""
        if event == "failed":
            raise values[0]
        if event == "crashed":
            raised, trace = values
            where = _record(self.job, trace)
            raise TrainingError(self.job.name, f"a worker failed: {raised}", f"its traceback is in {where}")
        if event == "started":
            values = (self.job, values[1])
        if event == "finished":
            if self.storage:
                self.storage.get(f"runs/{self.job.name}/bundle", self.job.run / "bundle")
            values = (self.at_home(values[0]),)
        for observer in self.observers:
            getattr(observer, event)(*values)

    def at_home(self, outcome: Outcome) -> Outcome:
        return replace(outcome, run=self.job.run, bundle=outcome.bundle and self.job.run / "bundle")

    def warn(self, message: str) -> None:
        self.hear("warned", (message,))


def _lookout(job: TrainingJob, group: Group) -> Lookout:
    host, _, port = ray.get_runtime_context().gcs_address.rpartition(":")
    head = (host, int(port)) if group.address else None
    return Lookout(job.name, group.fewest, group.unit, partial(_room, group), head)


def _mailbox() -> Any:
    """An actor on this node: it ends with the driver, and with no other node."""
    here = NodeAffinitySchedulingStrategy(ray.get_runtime_context().get_node_id(), soft=False)
    actor: Any = ray.remote(Mailbox)
    return actor.options(num_cpus=0, scheduling_strategy=here).remote()


class _Fit(threading.Thread):
    """Ray Train's `fit`, beside the main thread, which keeps the signals and looks into the mailbox."""

    def __init__(
        self, job: TrainingJob, group: Group, mailbox: Any, delivery: Delivery, storage: Storage | None
    ) -> None:
        super().__init__(daemon=True)
        self.job, self.group, self.mailbox = job, group, mailbox
        self.delivery, self.storage = delivery, storage
        self.wanted = True
        self.returned: Any = None
        self.error: BaseException | None = None

    def run(self) -> None:
        try:
            trainer = self.trainer()
            if self.wanted:
                self.returned = trainer.fit().return_value
        except (Exception, SystemExit) as error:  # the latter is how Ray takes its own end
            self.error = error

    def end(self) -> None:
        """Have it end, wherever it is. Beside `ray.shutdown` it would break this process, or start another cluster."""
        self.wanted = False
        deadline = time.monotonic() + ENDING
        with suppress(RayError):  # of a cluster that is gone: then `fit` ends as well
            while self.is_alive() and time.monotonic() < deadline:
                if controller := ray.get(self.mailbox.leader.remote(), timeout=ENDING):
                    ray.kill(controller)
                    break
                self.join(POST)
        self.join(max(POST, deadline - time.monotonic()))

    def trainer(self) -> Any:
        from ray.train import FailureConfig, RunConfig, ScalingConfig
        from ray.train.torch import TorchConfig, TorchTrainer

        from training.ray.controller import Watch

        job, group = self.job, self.group
        number: Any = group.most if group.fewest == group.most else (group.fewest, group.most)
        folder = job.run.resolve()
        # Ray's own records; those of an earlier process go.
        if self.storage:
            records = self.storage.uri_of(f"runs/{job.name}")
            self.storage.remove(f"runs/{job.name}/ray")
        else:
            records = str(folder)
            shutil.rmtree(folder / "ray", ignore_errors=True)
        return TorchTrainer(
            work,
            train_loop_config={
                "job": replace(job, run=folder, prepared=job.prepared.resolve()),
                "delivery": self.delivery,
                "mailbox": self.mailbox,
                "threads": os.environ.get("OMP_NUM_THREADS"),
                "patience": PATIENCE,
            },
            # Counts are summed on the CPU, gradients where they are.
            torch_config=TorchConfig(
                backend="cpu:gloo,cuda:nccl" if group.gpu else "gloo",
                timeout_s=TIMEOUT,  # type: ignore[arg-type]
            ),
            scaling_config=ScalingConfig(
                num_workers=number,
                use_gpu=group.gpu,
                elastic_resize_monitor_interval_s=RESIZE,  # type: ignore[call-arg]
            ),
            run_config=RunConfig(
                name="ray",
                storage_path=records,
                failure_config=FailureConfig(max_failures=-1),  # the driver's lookout says when it is enough
                callbacks=[Watch(self.mailbox)],  # type: ignore[list-item]
                # What NCCL fails by is raised where the workers wait for it: its watchdog would end the process.
                worker_runtime_env=NCCL if group.gpu else None,  # type: ignore[call-arg]
            ),
        )

    def outcome(self) -> Outcome:
        """How it ended. Raises TrainingError for what Ray gave up."""
        if isinstance(self.returned, Outcome):
            return self.returned
        where = _record(self.job, str(self.error))
        raise TrainingError(
            self.job.name,
            f"Ray Train ended with: {last_line(self.error)}",
            f"all of it is in {where}; go on with --resume",
        ) from self.error


@contextmanager
def connected(group: Group) -> Iterator[None]:
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
                    num_cpus=processors(),
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
            raise TrainingError(where, f"no cluster: {last_line(error)}", remedy) from error
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
        raise CallError(address, "is not a Ray cluster's address", "auto, HOST:PORT or ray://HOST:PORT")
    try:
        socket.create_connection((host, int(port)), timeout=5).close()
    except (OSError, OverflowError) as error:
        raise TrainingError(address, f"no Ray cluster answers ({error})", "start it with ray start --head") from error


def _check_resources(group: Group, where: str) -> None:
    """Ray waits for what no node has: for ever, unless the cluster is one that grows by itself."""
    most = ray._private.state.state.get_max_resources_from_cluster_config() or {}
    if most.get(group.unit, 0) < group.fewest and (missing := lacking(group.fewest, group.unit, _room(group))):
        raise TrainingError(where, missing, "ask for fewer, or start more nodes")


def _room(group: Group) -> dict[str, int]:
    """The workers that each node has room for, where nothing else runs there."""
    nodes = ray.nodes()  # type: ignore[no-untyped-call]
    return {one["NodeManagerAddress"]: int(one["Resources"].get(group.unit, 0)) for one in nodes if one["Alive"]}


def _ended_by(number: int) -> BaseException:
    return KeyboardInterrupt() if number == signal.SIGINT else SystemExit(128 + number)


def _record(job: TrainingJob, failure: str) -> Path:
    path = job.run / "failure.txt"
    path.write_text(f"{failure}\n", encoding="utf-8")
    return path


def last_line(error: BaseException | None) -> str:
    lines = str(error).strip().splitlines() if error else []
    return lines[-1].strip() if lines else type(error).__name__
