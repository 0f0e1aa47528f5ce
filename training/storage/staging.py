"""What a job needs of its driver's disk, at every node: from a storage, once a node, or on a disk that all share.

Prepared data is known by its fingerprint: the checksum of its prepared.json, which tells what it was made of, the size
of every file and what was left out. Every worker compares it with the driver's.
"""

import hashlib
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath
from uuid import uuid4

from filelock import FileLock

from registry.cache_folder import cache_folder
from seq2seq.bundle.checksums import checksum
from seq2seq.errors import DataError, TrainingError
from training.data.prepare.prepared import PreparedData
from training.events import TrainingJob
from training.storage.storage import Storage

TOKEN = ".driver"  # what the driver leaves in the run's folder, for the workers to find


@dataclass(frozen=True)
class StagedInputs:
    """A job's data by the names that they have on the storage; or, without one, what is to be found in place."""

    fingerprint: str
    token: str = ""
    prepared: str = ""
    init_from: str = ""
    network_weights: tuple[tuple[str, str], ...] = ()


def fingerprint(prepared: Path) -> str:
    """The fingerprint of prepared data; empty where there is none."""
    try:
        return checksum(prepared / "prepared.json")
    except OSError:
        return ""


def write_token(job: TrainingJob) -> StagedInputs:
    """Without a storage: leave a token in the run's folder."""
    token = uuid4().hex
    (job.run / TOKEN).write_text(token, encoding="ascii")
    return StagedInputs(fingerprint(job.prepared), token)


def check_shared_disk(job: TrainingJob, staged: StagedInputs, node: str) -> None:
    """See that this node sees what the driver left, and the same data. Raises TrainingError, which names the node."""
    try:
        found = (job.run / TOKEN).read_text(encoding="ascii")
    except (OSError, UnicodeDecodeError):
        found = ""
    if found != staged.token:
        raise TrainingError(
            f"node {node}",
            f"it does not see the run's folder {job.run}, where the driver writes",
            "give --storage URI, a place that every node reaches, or have --runs and --prepared on a shared disk",
        )
    check_prepared_data(job, staged, node)


def check_prepared_data(job: TrainingJob, staged: StagedInputs, node: str) -> None:
    """Raises TrainingError where this node sees other data than the driver."""
    if (found := fingerprint(job.prepared)) != staged.fingerprint:
        what = f"sees other data than the driver ({found[:12]} instead of {staged.fingerprint[:12]})"
        raise TrainingError(
            f"node {node}",
            f"it {what if found else 'sees no prepared data'} in {job.prepared}",
            "give --storage URI, or have --prepared on a disk that all nodes share",
        )


def stage_inputs(job: TrainingJob, storage: Storage) -> StagedInputs:
    """Put what the job needs, unless it is there."""
    mark = fingerprint(job.prepared)
    prepared = f"prepared/{mark[:16]}/{job.prepared.name}"
    _put_once(storage, prepared, job.prepared)
    init_from = ""
    if job.init_from:
        init_from = f"given/{checksum(job.init_from / 'model.json')[:16]}"
        _put_once(storage, init_from, job.init_from)
    networks = []
    for source, path in job.network_weights.items():
        name = f"given/{checksum(path)[:16]}"
        if storage.manifest(name) is None:
            storage.put(name, {path.name: path})
        networks.append((source, f"{name}/{path.name}"))
    return StagedInputs(mark, "", prepared, init_from, tuple(networks))


def fetch_inputs(job: TrainingJob, staged: StagedInputs, node: str, warn: Callable[[str], None]) -> TrainingJob:
    """The job as it stands on this node: its data in the cache, fetched by one worker while the others wait, and a
    run's folder of its own. Raises StorageError, or TrainingError for other data than the driver's."""
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


def _put_once(storage: Storage, name: str, folder: Path) -> None:
    if storage.manifest(name) is None:
        storage.put(name, folder)


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


def _is_whole(prepared: Path, mark: str) -> bool:
    if fingerprint(prepared) != mark:
        return False
    try:
        PreparedData.load(prepared).check()
    except DataError:
        return False
    return True
