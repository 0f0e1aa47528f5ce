"""Where a file lies: a path of this machine, or a URI of a store; opened, looked for and hashed in one way."""

import glob
import hashlib
import io
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import lru_cache
from pathlib import Path
from typing import Any, cast
from urllib.parse import unquote, urlsplit

from seq2seq.errors import DataError

SCHEMES = ("s3", "gs")
BUFFER = 1 << 20  # bytes asked of a store at a time


@dataclass(frozen=True)
class RemoteFile:
    """A file in a store, by its URI; printed without the key that a URI may carry."""

    uri: str

    def __str__(self) -> str:
        parts = urlsplit(self.uri)
        return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"

    def sibling(self, path: str) -> "RemoteFile":
        """Another file of the same store, by its path there (which begins with the bucket)."""
        parts = urlsplit(self.uri)
        bucket, _, rest = path.partition("/")
        user = parts.netloc.rpartition("@")[0]
        return RemoteFile(parts._replace(netloc=f"{user}@{bucket}" if user else bucket, path=f"/{rest}").geturl())


FileLocation = Path | RemoteFile


def is_uri(path: str) -> bool:
    return "://" in path


def expand_uri(path: str) -> list[FileLocation] | None:
    """The files that a URI means, in the order of their names; None for what is a path of this machine.

    `*` and `[...]` in any part stand for what a store has there; `?` begins a URI's options. Raises DataError: a store
    of another kind, one that does not answer, no such file.
    """
    if not is_uri(path):
        return None
    if path.startswith("file://"):
        local = unquote(urlsplit(path).path)
        return list(expand_path(local)) or _raise_not_found(path)
    store, inside = _filesystem(path)
    here = RemoteFile(path)
    with as_data_error(here):
        if not glob.has_magic(inside):
            return [here] if store.get_file_info(inside).is_file else _raise_not_found(str(here))
        from pyarrow import fs

        parts = inside.split("/")
        fixed = next(i for i, part in enumerate(parts) if glob.has_magic(part))
        selector = fs.FileSelector("/".join(parts[:fixed]), recursive=fixed < len(parts) - 1, allow_not_found=True)
        found = sorted(info.path for info in store.get_file_info(selector) if info.is_file)
        return [here.sibling(name) for name in found if _matches(name.split("/"), parts)] or _raise_not_found(str(here))


def _matches(parts: list[str], patterns: list[str]) -> bool:
    return len(parts) == len(patterns) and all(map(fnmatchcase, parts, patterns))


def _raise_not_found(path: str) -> list[FileLocation]:
    raise DataError(path, "there is no such file", "look whether the address is right")


def expand_path(path: str) -> tuple[Path, ...]:
    """The file or folder of that name; else the files that a pattern of `*`, `?` and `[...]` stands for, by name."""
    if Path(path).exists():
        return (Path(path),)
    root = Path(Path(path).anchor)
    return tuple(sorted(root.glob(str(Path(path).relative_to(root))))) if glob.has_magic(path) else ()


def file_stat(location: FileLocation) -> tuple[int, int]:
    """A file's size in bytes, and when it was changed last, in nanoseconds (0 where the store does not say)."""
    if isinstance(location, Path):
        status = location.stat()
        return status.st_size, status.st_mtime_ns
    store, inside = _filesystem(location.uri)
    with as_data_error(location):
        info = store.get_file_info(inside)
        if not info.is_file:
            _raise_not_found(str(location))
        return info.size, info.mtime_ns or 0


@contextmanager
def open_file(location: FileLocation) -> Iterator[io.BufferedReader]:
    """A file to read from, at any position."""
    if isinstance(location, Path):
        with location.open("rb") as file:
            yield file
        return
    store, inside = _filesystem(location.uri)
    with store.open_input_file(inside) as native, io.BufferedReader(native, BUFFER) as buffered:
        yield buffered


@contextmanager
def as_data_error(location: FileLocation) -> Iterator[None]:
    """What a store answers, as a sentence."""
    try:
        yield
    except IsADirectoryError:
        raise directory_error(location) from None
    except (OSError, ValueError) as error:  # Arrow's own errors are among these
        raise DataError(str(location), f"cannot be read: {os_error_message(error)}") from None


def directory_error(location: FileLocation) -> DataError:
    return DataError(str(location), "is a folder, not a file", "name its files, for example with a pattern")


def os_error_message(error: BaseException) -> str:
    """What an error says, without the system's number for it."""
    return re.sub(r"^\[Errno \d+\] ", "", (str(error).splitlines() or [type(error).__name__])[0])


@lru_cache(maxsize=64)
def _filesystem(uri: str) -> tuple[Any, str]:
    """The store that a URI names, and the path in it. Raises DataError."""
    location = RemoteFile(uri)
    if urlsplit(uri).scheme not in SCHEMES:
        raise DataError(str(location), "is in no store that can be read", "a path, or file://, s3:// or gs://")
    try:
        from pyarrow import fs
    except ImportError:
        raise DataError(
            str(location), "stores are read by pyarrow, which is not installed", "pip install 'interlinear[train]'"
        ) from None
    with as_data_error(location):
        return cast(tuple[Any, str], fs.FileSystem.from_uri(uri))


def fingerprint(location: FileLocation) -> str:
    """SHA-256 (hex) of a file's content, computed once for each size and time of change."""
    key = _cache_key(location)
    if key not in _hashes:
        with as_data_error(location), open_file(location) as file:
            _hashes[key] = hashlib.file_digest(file, "sha256").hexdigest()
    return _hashes[key]


def cache_fingerprint(location: FileLocation, sha256: str) -> None:
    """The SHA-256 of a file, as it is now, is known from elsewhere."""
    _hashes[_cache_key(location)] = sha256


_hashes: dict[tuple[FileLocation, int, int], str] = {}


def _cache_key(location: FileLocation) -> tuple[FileLocation, int, int]:
    where = location.resolve() if isinstance(location, Path) else location
    with as_data_error(location):
        return where, *file_stat(where)
