"""Lock for a folder that one process writes, such as a run's; released when that process ends, also by a crash."""

import fcntl
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from interlinear.errors import TrainingError


@contextmanager
def run_lock(folder: Path, work: str = "training this run") -> Iterator[None]:
    """Hold the lock of a run, or of another folder that `work` writes: a file beside it. Where another process holds
    it, raises TrainingError with that process's id and host, and changes nothing."""
    path = folder.with_name(f".{folder.name}.lock")
    path.parent.mkdir(parents=True, exist_ok=True)
    with _locked(path, folder, work):
        yield
        path.unlink(missing_ok=True)


@contextmanager
def _locked(path: Path, folder: Path, work: str) -> Iterator[None]:
    while True:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                holder = os.read(descriptor, 200).decode(errors="replace").strip() or "another process"
                raise TrainingError(
                    str(folder), f"{holder} is {work}", "wait until it has ended, or stop it first"
                ) from None
            if not _is_at(descriptor, path):  # its last holder removed the file between opening and locking
                continue
            os.truncate(descriptor, 0)
            os.write(descriptor, f"process {os.getpid()} on {socket.gethostname()}\n".encode())
            yield
            return
        finally:
            os.close(descriptor)


def _is_at(descriptor: int, path: Path) -> bool:
    """Whether the path still refers to this open file."""
    try:
        return os.path.samestat(os.fstat(descriptor), path.stat())
    except FileNotFoundError:
        return False
