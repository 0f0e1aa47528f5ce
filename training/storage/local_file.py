"""Files of this machine in transfers with a storage: their errors are not the storage's, and retrying does not help."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Literal

from interlinear.errors import StorageError


@contextmanager
def local_errors(path: Path, done: Literal["read", "written"]) -> Iterator[None]:
    """Turns an OSError into a StorageError that names the path on this machine."""
    try:
        yield
    except OSError as error:
        raise StorageError(
            str(path),
            f"it cannot be {done} ({error.strerror or error})",
            "see to the disk of this machine, then go on with --resume",
        ) from error


class LocalFile:
    """A binary file of this machine; its errors are raised as StorageError. A context manager."""

    def __init__(self, path: Path, mode: Literal["rb", "wb"]) -> None:
        """With `wb`, the file's folder is created."""
        self.path = path
        self.done: Literal["read", "written"] = "read" if mode == "rb" else "written"
        with local_errors(path, self.done):
            if mode == "wb":
                path.parent.mkdir(parents=True, exist_ok=True)
            self.file = path.open(mode, buffering=0)  # without a buffer, closing writes nothing, and so cannot fail

    def __enter__(self) -> "LocalFile":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.file.close()

    def read(self, size: int) -> bytes:
        with local_errors(self.path, self.done):
            return self.file.read(size) or b""

    def write(self, block: bytes) -> None:
        remaining = memoryview(block)
        with local_errors(self.path, self.done):
            while remaining:
                remaining = remaining[self.file.write(remaining) :]

    def fsync(self) -> None:
        with local_errors(self.path, self.done):
            os.fsync(self.file.fileno())
