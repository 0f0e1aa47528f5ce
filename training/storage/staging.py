"""Staging: provides a job's inputs on every node, by a storage (fetched once per node) or by a disk that all nodes
share.

Prepared data is identified by its fingerprint: the checksum of its prepared.json, which records its origin, the size of
every file and the rows that were left out. Every worker compares it with the driver's.
"""

import hashlib
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath
from uuid import uuid4

from filelock import FileLock

from interlinear.errors import DataError, TrainingError
from interlinear.files import checksum
from interlinear.registry.cache_folder import cache_folder
from training.data.prepare.prepared import PreparedData
from training.events import TrainingJob
from training.storage.storage import Storage

TOKEN = ".driver"  # file that the driver writes into the run's folder and the workers look for


@dataclass(frozen=True)
class StagedInputs:
    """A job's inputs by their names on the storage; without a storage, the fingerprint and token to find in place."""

    fingerprint: str
    token: str = ""
    prepared: str = ""
    init_from: str = ""
    network_weights: tuple[tuple[str, str], ...] = ()


def prepared_fingerprint(prepared: Path) -> str:
    """The fingerprint of prepared data; empty where there is none."""
    try:
        return checksum(prepared / "prepared.json")
    except OSError:
        return ""


def write_token(job: TrainingJob) -> StagedInputs:
    """Without a storage: write a token into the run's folder."""
    token = uuid4().hex
    (job.run / TOKEN).write_text(token, encoding="ascii")
    return StagedInputs(prepared_fingerprint(job.prepared), token)


def check_shared_disk(job: TrainingJob, staged: StagedInputs, node: str) -> None:
    """Check that this node sees the driver's token and data. Raises TrainingError, which names the node."""
    try:
        token = (job.run / TOKEN).read_text(encoding="ascii")
    except (OSError, UnicodeDecodeError):
        token = ""
    if token != staged.token:
        raise TrainingError(
            f"node {node}",
            f"it does not see the run's folder {job.run}, where the driver writes",
            "have --runs and --prepared on a disk that all nodes share; `train` may have --storage URI instead",
        )
    check_prepared_data(job, staged, node)


def check_prepared_data(job: TrainingJob, staged: StagedInputs, node: str) -> None:
    """Raises TrainingError where this node sees other data than the driver."""
    if (own_fingerprint := prepared_fingerprint(job.prepared)) != staged.fingerprint:
        problem = f"sees other data than the driver ({own_fingerprint[:12]} instead of {staged.fingerprint[:12]})"
        raise TrainingError(
            f"node {node}",
            f"it {problem if own_fingerprint else 'sees no prepared data'} in {job.prepared}",
            "have --prepared on a disk that all nodes share; `train` may have --storage URI instead",
        )


def stage_inputs(job: TrainingJob, storage: Storage) -> StagedInputs:
    """Upload the job's inputs, except inputs that are on the storage already."""
    data_fingerprint = prepared_fingerprint(job.prepared)
    prepared = f"prepared/{data_fingerprint[:16]}/{job.prepared.name}"
    storage.put_once(prepared, job.prepared)
    init_from = ""
    if job.init_from:
        init_from = f"given/{checksum(job.init_from / 'model.json')[:16]}"
        storage.put_once(init_from, job.init_from)
    networks = []
    for source, path in job.network_weights.items():
        name = f"given/{checksum(path)[:16]}"
        storage.put_once(name, {path.name: path})
        networks.append((source, f"{name}/{path.name}"))
    return StagedInputs(data_fingerprint, "", prepared, init_from, tuple(networks))


def fetch_inputs(job: TrainingJob, staged: StagedInputs, node: str, warn: Callable[[str], None]) -> TrainingJob:
    """The job with this node's paths: its inputs in the cache, fetched by one worker while the others wait, and a run
    folder of its own. Raises StorageError, or TrainingError for other data than the driver's."""
    assert job.run_storage is not None
    storage = Storage(job.run_storage.uri, warn)
    run = hashlib.sha256(storage.uri_of(job.name).encode()).hexdigest()[:16]
    local_job = replace(
        job,
        run=cache_folder("runs") / run / job.name,
        prepared=_fetch(storage, staged.prepared, lambda folder: _is_whole(folder, staged.fingerprint)),
        init_from=_fetch(storage, staged.init_from, Path.is_dir) if staged.init_from else None,
        network_weights={
            source: _fetch(storage, str(PurePosixPath(name).parent), _is_named_by_checksum) / PurePosixPath(name).name
            for source, name in staged.network_weights
        },
    )
    local_job.run.mkdir(parents=True, exist_ok=True)
    check_prepared_data(local_job, staged, node)
    return local_job


def _fetch(storage: Storage, name: str, is_good: Callable[[Path], bool]) -> Path:
    folder = cache_folder("fetched") / name
    folder.parent.mkdir(parents=True, exist_ok=True)
    with FileLock(folder.with_name(f".{folder.name}.lock")):
        if not is_good(folder):
            storage.get(name, folder)
    return folder


def _is_named_by_checksum(folder: Path) -> bool:
    """Whether a fetched folder has one file, whose checksum is the folder's name."""
    try:
        (path,) = folder.iterdir()
        return checksum(path)[:16] == folder.name
    except (OSError, ValueError):
        return False


def _is_whole(prepared: Path, expected: str) -> bool:
    if prepared_fingerprint(prepared) != expected:
        return False
    try:
        PreparedData.load(prepared).check()
    except DataError:
        return False
    return True
