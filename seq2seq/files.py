"""Files and folders that appear under their name when they are complete and on disk, or not at all."""

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def temporary_file(path: Path) -> Iterator[Path]:
    """A file beside `path` that takes its place when it is complete and on disk, or is removed."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        yield temporary
        finish_file(temporary)
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


@contextmanager
def temporary_folder(folder: Path) -> Iterator[Path]:
    """A folder beside `folder` that gets its name when its files are complete and on disk, or is removed.

    `folder` is new; the folders above it are made. Raises OSError if it has files.
    """
    folder.parent.mkdir(parents=True, exist_ok=True)
    temporary = Path(tempfile.mkdtemp(prefix=f".{folder.name}-", dir=folder.parent))
    try:
        yield temporary
        for path in temporary.iterdir():
            finish_file(path)
        temporary.chmod(0o755)
        temporary.rename(folder)
        fsync(folder.parent)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def finish_file(path: Path) -> None:
    """Flush a file to disk, readable for all users: safetensors writes files that only their owner can read."""
    path.chmod(0o644)
    fsync(path)


def fsync(path: Path) -> None:
    """Flush a file, or a folder's entries, to disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
