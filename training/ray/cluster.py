"""Connection to a Ray cluster, or to a local one that it starts; checks the address and the resources."""

import logging
import os
import secrets
import shutil
import socket
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import ray
from ray.job_config import JobConfig

from interlinear.errors import InterlinearError, TrainingError, UsageError
from training.ray.capacity import available_cpus
from training.ray.failure_monitor import missing_resources

OBJECT_STORE = 80 << 20  # bytes; Ray's minimum. Nothing large passes through it.


@dataclass(frozen=True)
class WorkerGroupConfig:
    """The number of workers, with a GPU each or not, on the cluster at an address or on a local one.

    `per_gpu`: trials of a tuning that share a GPU.
    """

    min_workers: int
    max_workers: int
    gpu: bool = False
    address: str | None = None
    per_gpu: int = 1

    @property
    def resource(self) -> str:
        """The resource of which every worker needs one, or every `per_gpu` workers."""
        return "GPU" if self.gpu else "CPU"

    @property
    def worker_resources(self) -> dict[str, float]:
        """A worker's resources, as Ray names them. Ray counts in ten-thousandths; rounded up, the last would not
        fit."""
        return {"cpu": 1, "gpu": 10_000 // self.per_gpu / 10_000} if self.gpu else {"cpu": 1}


class SafePathConfig(JobConfig):
    """A job whose workers find modules as they are installed. Ray would put the driver's working folder first on their
    path, where a `training.py` of the user hides ours.

    Ray leaves it out by itself for a job with a `working_dir`, but then workers run there: relative paths of the
    environment, such as MLFLOW_TRACKING_URI, mean other files, and a submitted job may have only one.
    """

    def _serialize(self) -> str:
        self._py_driver_sys_path = []
        return super()._serialize()


@contextmanager
def ray_cluster(group: WorkerGroupConfig) -> Iterator[None]:
    """A connection to the cluster at the address, or a local cluster that ends with this process."""
    if not group.address:
        for name in ("RAY_TRAIN_ENABLE_PREEMPTION_WATCHER", "RAY_TRAIN_METRICS_ENABLED"):
            os.environ.setdefault(name, "0")
    where = group.address or "Ray"
    # socket paths have a length limit
    temporary = None if group.address else tempfile.mkdtemp(prefix="ray-", dir="/tmp")
    try:
        try:
            if group.address:
                check_address(group.address)
                ray.init(
                    address=group.address,
                    job_config=SafePathConfig(),
                    log_to_driver=False,
                    logging_level=logging.ERROR,
                )
            else:
                have_token()
                ray.init(
                    address="local",  # ignore other clusters that Ray may find on this machine
                    job_config=SafePathConfig(),
                    num_cpus=available_cpus(),
                    include_dashboard=False,
                    object_store_memory=OBJECT_STORE,
                    log_to_driver=False,
                    logging_level=logging.ERROR,
                    _temp_dir=temporary,
                )
        except InterlinearError:
            raise
        except Exception as error:  # Ray raises plain exceptions too, where its processes do not start in time
            remedy = "train with --no-ray, or check the installation of Ray"
            if group.address:
                remedy = "see that the token (RAY_AUTH_TOKEN_PATH) and the versions of Ray and Python are the cluster's"
            raise TrainingError(where, f"no cluster: {last_error_line(error)}", remedy) from error
        # Ray would print messages about dead workers to stdout, which is for results.
        ray._private.worker._worker_logs_enabled = False
        _check_resources(group, where)
        yield
    finally:
        ray.shutdown()
        if temporary:
            shutil.rmtree(temporary, ignore_errors=True)


def have_token() -> None:
    """Give this process and its cluster a token of their own where Ray could not keep one in the home folder, as in a
    container that may write nowhere else than in /tmp."""
    if any(os.environ.get(name) for name in ("RAY_AUTH_TOKEN", "RAY_AUTH_TOKEN_PATH")):
        return
    try:
        folder = Path.home() / ".ray"
        folder.mkdir(parents=True, exist_ok=True)
        kept = (folder / "auth_token").is_file() or os.access(folder, os.W_OK)
    except (OSError, RuntimeError):  # there is no home folder, or none that has a path
        kept = False
    if not kept:
        os.environ["RAY_AUTH_TOKEN"] = secrets.token_hex()


def check_address(address: str) -> None:
    """Raises UsageError for an invalid cluster address, TrainingError where nothing answers."""
    # Ray would try to reach a missing cluster for three minutes, and then end the process.
    if address == "auto":
        return
    if address.startswith("ray://"):
        raise UsageError(
            address,
            "is for Ray's client, and this runs on a node of the cluster only",
            "call it there, with --address auto",
        )
    host, colon, port = address.rpartition(":")
    if not colon or not host or not port.isdigit():
        raise UsageError(address, "is not a Ray cluster's address", "auto or HOST:PORT")
    try:
        socket.create_connection((host, int(port)), timeout=5).close()
    except (OSError, OverflowError) as error:
        raise TrainingError(address, f"no Ray cluster answers ({error})", "start it with ray start --head") from error


def _check_resources(group: WorkerGroupConfig, where: str) -> None:
    """Raises TrainingError where the nodes lack the resources, unless the cluster can grow: Ray would wait forever."""
    limits = ray._private.state.state.get_max_resources_from_cluster_config() or {}
    if limits.get(group.resource, 0) * group.per_gpu < group.min_workers and (
        missing := missing_resources(group.min_workers, group.resource, node_capacity(group), group.per_gpu)
    ):
        raise TrainingError(where, missing, "ask for fewer, or start more nodes")


def node_capacity(group: WorkerGroupConfig) -> dict[str, int]:
    """The number of each node's GPUs, or CPUs."""
    nodes = ray.nodes()  # type: ignore[no-untyped-call]
    return {
        node["NodeManagerAddress"]: int(node["Resources"].get(group.resource, 0)) for node in nodes if node["Alive"]
    }


def last_error_line(error: BaseException | None) -> str:
    lines = str(error).strip().splitlines() if error else []
    return lines[-1].strip() if lines else type(error).__name__
