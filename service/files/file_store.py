"""Uploaded and translated files on disk: in a folder of the service's own, bounded in bytes, and emptied at its end."""

import fcntl
import os
import secrets
import shutil
import tempfile
import threading
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO

from interlinear.errors import ServiceError

PREFIX = "interlinear-files-"
LOCK = "lock"  # a file in the folder that is locked while its service runs


class StoreFullError(Exception):
    """The files have reached their limit in bytes."""


class StoredFile:
    """A file of the store. Its path does not contain its user's name for it."""

    def __init__(self, store: "FileStore", path: Path) -> None:
        self.path = path
        self.store = store
        self.size = 0
        descriptor = os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)
        self.stream: BinaryIO = os.fdopen(descriptor, "wb")

    def write(self, data: bytes) -> None:
        """Append data. Raises StoreFullError, and OSError."""
        self.store.reserve(len(data))
        self.size += len(data)
        self.stream.write(data)

    def close(self) -> None:
        """Close the file, and count the bytes that another process wrote. Raises OSError."""
        self.stream.close()
        written = self.path.stat().st_size
        self.store.release(self.size - written)
        self.size = written

    def delete(self) -> None:
        """Delete the file; again has no effect."""
        with suppress(OSError):  # unwritten data is not needed: the disk may be full
            self.stream.close()
        self.path.unlink(missing_ok=True)
        self.store.release(self.size)
        self.size = 0


class FileStore:
    """Creates files in a folder that only this user can read. Methods may be called from any thread.

    Each service has its own folder, which is removed when it stops. A service that starts removes the folders of
    services that were killed.
    """

    def __init__(self, parent: Path | None, total_bytes: int) -> None:
        """`parent`: where the folder is made; None for the system's temporary folder. `total_bytes`: limit of all files
        together. Raises ServiceError."""
        self.parent = parent or Path(tempfile.gettempdir())
        try:
            self.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise self._not_kept(str(error.strerror)) from None
        if not os.access(self.parent, os.W_OK | os.X_OK):
            raise self._not_kept("it is not writable")
        self.total_bytes = total_bytes
        self.used = 0
        self._folder: Path | None = None
        self._lock_file: BinaryIO | None = None
        self._making = threading.Lock()  # of the folder and its files
        self._counting = threading.Lock()

    def open(self) -> None:
        """Make the folder. Raises ServiceError."""
        try:
            remove_abandoned(self.parent)
            self._make_folder()
        except OSError as error:
            raise self._not_kept(str(error.strerror)) from None

    def _make_folder(self) -> None:
        """Make the folder, and lock it. Raises OSError."""
        self.parent.mkdir(parents=True, exist_ok=True)
        self._folder = Path(tempfile.mkdtemp(prefix=PREFIX, dir=self.parent))  # with mode 0700
        if self._lock_file:
            self._lock_file.close()
        self._lock_file = (self._folder / LOCK).open("wb")
        fcntl.flock(self._lock_file, fcntl.LOCK_EX | fcntl.LOCK_NB)

    def close(self) -> None:
        """Remove the folder with all files."""
        with self._making:
            if self._folder:
                shutil.rmtree(self._folder, ignore_errors=True)
            if self._lock_file:
                self._lock_file.close()
            self._folder = self._lock_file = None

    def create(self) -> StoredFile:
        """A new empty file. Raises OSError."""
        with self._making:
            if self._folder is None:
                raise FileNotFoundError("the store of files is closed")
            if not self._folder.is_dir():  # systems remove old files from their temporary folder
                self._make_folder()
            return StoredFile(self, self._folder / secrets.token_hex(16))

    def _not_kept(self, reason: str) -> ServiceError:
        remedy = "set INTERLINEAR_SERVE_FILES_FOLDER, or INTERLINEAR_SERVE_FILES=false"
        return ServiceError(str(self.parent), f"documents cannot be kept there ({reason})", remedy)

    def reserve(self, size: int) -> None:
        """Count further bytes. Raises StoreFullError."""
        with self._counting:
            if self.used + size > self.total_bytes:
                raise StoreFullError
            self.used += size

    def release(self, size: int) -> None:
        """Count bytes no longer; a negative number counts them without a limit."""
        with self._counting:
            self.used -= size


def remove_abandoned(parent: Path) -> None:
    """Remove the folders of this user's services that no longer run: nobody holds their locks."""
    for folder in parent.glob(f"{PREFIX}*"):
        try:
            if folder.is_symlink() or folder.stat().st_uid != os.getuid():
                continue
            with (folder / LOCK).open("rb") as lock:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(folder, ignore_errors=True)
        except OSError:  # it is locked, or has just been made or removed
            continue
