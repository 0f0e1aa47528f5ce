"""Folder in which a preparation works, locked by its process, and its renaming when the result is complete."""

import fcntl
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO
from uuid import uuid4

from interlinear.errors import DataError

LOCK = ".lock"


@contextmanager
def working_folder(final: Path, resumable: bool) -> Iterator[Path]:
    """A folder to work in, locked by this process. If `resumable`, it has a fixed name and is kept after an
    interruption; else it is temporary."""
    try:
        with _resumable_folder(final) if resumable else _temporary_folder(final) as folder:
            yield folder
    except OSError as error:
        raise DataError(
            str(final.parent),
            f"cannot be written: {error.strerror or error}",
            "make room, or prepare in another folder",
        ) from error


@contextmanager
def _resumable_folder(final: Path) -> Iterator[Path]:
    folder = final.with_name(f".{final.name}.parts")
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / LOCK).open("w") as lock:
        if not _try_lock(lock):
            raise DataError(
                str(final), "is being prepared by another process", "wait for it, or prepare in another folder"
            )
        yield folder


@contextmanager
def _temporary_folder(final: Path) -> Iterator[Path]:
    """A folder of this process, removed at the end."""
    while True:
        folder = final.with_name(f".{final.name}.{uuid4().hex[:8]}")
        folder.mkdir(parents=True)
        try:
            lock = (folder / LOCK).open("w")
        except FileNotFoundError:  # removed by another process before it was locked
            continue
        with lock:
            if not (_try_lock(lock) and (folder / LOCK).exists()):
                continue
            try:
                _remove_stale_folders(final, folder)
                yield folder
            finally:
                shutil.rmtree(folder, ignore_errors=True)
            return


def _try_lock(lock: IO[str]) -> bool:
    """Lock a file unless another process holds the lock. The system releases it however this process ends."""
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _remove_stale_folders(final: Path, own_folder: Path) -> None:
    """Remove the temporary folders of killed processes."""
    for stale in final.parent.iterdir():
        if stale.name.startswith(f".{final.name}.") and not stale.name.endswith(".parts") and stale != own_folder:
            with suppress(OSError):
                stale.rmdir()  # an empty folder, which was not locked yet or never
            with suppress(OSError), (stale / LOCK).open("r+") as lock:
                if _try_lock(lock):
                    shutil.rmtree(stale)


def publish(unfinished: Path, final: Path) -> None:
    """Rename the finished folder to its final name. If another process has finished first, its result is kept."""
    (unfinished / LOCK).unlink(missing_ok=True)
    try:
        unfinished.rename(final)
    except OSError:
        if not final.exists():
            raise
