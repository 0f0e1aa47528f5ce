"""Who uses a folder, and who may remove it: locks on the folder itself, which end with their processes."""

import fcntl
import os
import shutil
from contextlib import suppress
from pathlib import Path
from uuid import uuid4


class Lease:
    """Keeps a folder from being removed by `remove_unused` of any process, for as long as this object lives.

    When it is taken and when it ends, the folder is marked as used at that moment: its time of modification.
    """

    def __init__(self, folder: Path) -> None:
        """Raises OSError where there is no such folder, or no longer."""
        self.folder = folder
        self._descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            with suppress(OSError):  # a file system without locks, where nothing can be removed either
                fcntl.flock(self._descriptor, fcntl.LOCK_SH)
            if not os.path.samestat(os.fstat(self._descriptor), folder.stat()):
                raise FileNotFoundError(folder)
            self._mark()
        except OSError:
            self.release()
            raise

    def rename(self, folder: Path) -> "Lease":
        """The folder has another name now."""
        self.folder = folder
        return self

    def release(self) -> None:
        if self._descriptor >= 0:
            self._mark()
            os.close(self._descriptor)
            self._descriptor = -1

    def __del__(self) -> None:
        if hasattr(self, "_descriptor"):
            self.release()

    def _mark(self) -> None:
        with suppress(OSError):
            os.utime(self._descriptor)


def remove_unused(folder: Path) -> bool:
    """Remove a folder, all at once for whoever looks for it, unless somebody has a lease of it; whether it is gone."""
    try:
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        going = folder.with_name(f".removed-{uuid4().hex}")
        folder.rename(going)
    except OSError:  # it is used, or gone already
        return False
    finally:
        os.close(descriptor)
    shutil.rmtree(going, ignore_errors=True)
    return True


def folder_size(folder: Path) -> int:
    """Bytes that a folder takes: files that have another name elsewhere take none."""
    total = 0
    for path in folder.rglob("*"):
        with suppress(OSError):
            found = path.lstat()
            total += found.st_size if path.is_file() and found.st_nlink == 1 else 0
    return total
