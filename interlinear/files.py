"""Files and folders that appear under their name when they are complete and on disk, or not at all."""

import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any


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


CHECKSUM_KEY = "content_sha256"  # the key of an object's own checksum


def checksum(path: Path) -> str:
    """SHA-256 of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def content_checksum(content: Mapping[str, Any]) -> str:
    """SHA-256 of a JSON object without its own checksum, independent of white space and the order of keys."""
    others = {key: value for key, value in content.items() if key != CHECKSUM_KEY}
    return hashlib.sha256(json.dumps(others, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


def read_checked_json(path: Path, required: bool = True) -> dict[str, Any]:
    """Read a JSON object from a file and verify its own checksum.

    required: whether the object must have one; a model card that was edited by hand has none. Raises OSError;
    ValueError for invalid JSON or another type; ChecksumError for a wrong or missing checksum.
    """
    return parse_checked_json(path.read_bytes(), required)


def parse_checked_json(data: bytes, required: bool = True) -> dict[str, Any]:
    """`read_checked_json` for the content of a file."""
    try:
        content = json.loads(data.decode())
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    if not isinstance(content, dict):
        raise ValueError("it is no JSON object")
    own_checksum = content.get(CHECKSUM_KEY)
    if (own_checksum or required) and own_checksum != content_checksum(content):
        raise ChecksumError("its content is not what its own checksum says")
    return content


class ChecksumError(ValueError):
    """A JSON object does not match its own checksum."""
