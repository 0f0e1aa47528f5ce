"""Leases on folders: file locks that keep a folder from being removed and end with their processes."""

import fcntl
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from uuid import uuid4


class Lease:
    """Keeps a folder from being removed by `remove_unused` in any process, as long as this object lives.

    Taking and releasing a lease sets the folder's modification time, which records its last use.
    """

    def __init__(self, folder: Path) -> None:
        """Raises OSError where the folder does not exist or has been removed."""
        self.folder = folder
        self._descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            with suppress(OSError):  # a file system without locks: remove_unused removes nothing there
                fcntl.flock(self._descriptor, fcntl.LOCK_SH)
            if not os.path.samestat(os.fstat(self._descriptor), folder.stat()):
                raise FileNotFoundError(folder)
            self._touch()
        except OSError:
            self.release()
            raise

    def rename(self, folder: Path) -> "Lease":
        """Record the folder's new name."""
        self.folder = folder
        return self

    def release(self) -> None:
        if self._descriptor >= 0:
            self._touch()
            os.close(self._descriptor)
            self._descriptor = -1

    def __del__(self) -> None:
        if hasattr(self, "_descriptor"):
            self.release()

    def _touch(self) -> None:
        with suppress(OSError):
            os.utime(self._descriptor)


@contextmanager
def exclusive_lock(path: Path) -> Iterator[None]:
    """Holds the lock of a file, for which other processes and threads wait; none on a file system without locks."""
    with path.open("ab") as file:
        with suppress(OSError):
            fcntl.flock(file, fcntl.LOCK_EX)
        yield


def remove_unused(folder: Path) -> bool:
    """Remove a folder, unless a lease of it exists; returns whether it is gone.

    It is renamed first, so that it disappears at once.
    """
    try:
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        removed = folder.with_name(f".removed-{uuid4().hex}")
        folder.rename(removed)
    except OSError:  # in use, or gone already
        return False
    finally:
        os.close(descriptor)
    shutil.rmtree(removed, ignore_errors=True)
    return True


def folder_size(folder: Path) -> int:
    """Bytes that a folder takes; hard-linked files do not count."""
    total = 0
    for path in folder.rglob("*"):
        with suppress(OSError):
            status = path.lstat()
            total += status.st_size if path.is_file() and status.st_nlink == 1 else 0
    return total
