"""Local paths and URIs of object stores: expansion of patterns, opening, and checksums."""

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

from interlinear.errors import DataError
from interlinear.installation import how_to_install

SCHEMES = ("s3", "gs")
BUFFER = 1 << 20  # bytes requested from a store at a time


@dataclass(frozen=True)
class RemoteFile:
    """A file in an object store, by its URI. Its string form omits credentials that the URI may contain."""

    uri: str

    def __str__(self) -> str:
        parts = urlsplit(self.uri)
        return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"

    def sibling(self, path: str) -> "RemoteFile":
        """Another file in the same store; `path` begins with the bucket."""
        parts = urlsplit(self.uri)
        bucket, _, rest = path.partition("/")
        user = parts.netloc.rpartition("@")[0]
        return RemoteFile(parts._replace(netloc=f"{user}@{bucket}" if user else bucket, path=f"/{rest}").geturl())


FileLocation = Path | RemoteFile


def is_uri(path: str) -> bool:
    return "://" in path


def expand_uri(path: str) -> list[FileLocation] | None:
    """The files that a URI stands for, sorted by name; None for a local path.

    `*` and `[...]` are patterns in any part of the path; `?` begins a URI's options. Raises DataError: an unsupported
    store, a store that does not respond, no such file.
    """
    if not is_uri(path):
        return None
    if path.startswith("file://"):
        local = unquote(urlsplit(path).path)
        return list(expand_path(local)) or _raise_not_found(path)
    store, path_in_store = _filesystem(path)
    location = RemoteFile(path)
    with as_data_error(location):
        if not glob.has_magic(path_in_store):
            return [location] if store.get_file_info(path_in_store).is_file else _raise_not_found(str(location))
        from pyarrow import fs

        parts = path_in_store.split("/")
        fixed = next(i for i, part in enumerate(parts) if glob.has_magic(part))
        selector = fs.FileSelector("/".join(parts[:fixed]), recursive=fixed < len(parts) - 1, allow_not_found=True)
        paths = sorted(info.path for info in store.get_file_info(selector) if info.is_file)
        matches: list[FileLocation] = [location.sibling(name) for name in paths if _matches(name.split("/"), parts)]
        return matches or _raise_not_found(str(location))


def _matches(parts: list[str], patterns: list[str]) -> bool:
    return len(parts) == len(patterns) and all(map(fnmatchcase, parts, patterns))


def _raise_not_found(path: str) -> list[FileLocation]:
    raise DataError(path, "there is no such file", "check the address")


def expand_path(path: str) -> tuple[Path, ...]:
    """The file or folder with this name; if there is none, the files that match the pattern (`*`, `?`, `[...]`),
    sorted by name."""
    if Path(path).exists():
        return (Path(path),)
    root = Path(Path(path).anchor)
    return tuple(sorted(root.glob(str(Path(path).relative_to(root))))) if glob.has_magic(path) else ()


def file_stat(location: FileLocation) -> tuple[int, int]:
    """A file's size in bytes and its modification time in nanoseconds (0 if the store does not report it)."""
    if isinstance(location, Path):
        status = location.stat()
        return status.st_size, status.st_mtime_ns
    store, path_in_store = _filesystem(location.uri)
    with as_data_error(location):
        info = store.get_file_info(path_in_store)
        if not info.is_file:
            _raise_not_found(str(location))
        return info.size, info.mtime_ns or 0


@contextmanager
def open_file(location: FileLocation) -> Iterator[io.BufferedReader]:
    """Open a file for reading; it is seekable."""
    if isinstance(location, Path):
        with location.open("rb") as file:
            yield file
        return
    store, path_in_store = _filesystem(location.uri)
    with store.open_input_file(path_in_store) as native, io.BufferedReader(native, BUFFER) as buffered:
        yield buffered


@contextmanager
def as_data_error(location: FileLocation) -> Iterator[None]:
    """Convert errors of a file or store to DataError."""
    try:
        yield
    except IsADirectoryError:
        raise directory_error(location) from None
    except (OSError, ValueError) as error:  # Arrow's own errors are among these
        raise DataError(str(location), f"cannot be read: {os_error_message(error)}") from None


def directory_error(location: FileLocation | str) -> DataError:
    """The error for a folder in place of a file."""
    return DataError(str(location), "is a folder, not a file", "name its files, for example with a pattern")


def os_error_message(error: BaseException) -> str:
    """The first line of an error's message, without the errno."""
    return re.sub(r"^\[Errno \d+\] ", "", (str(error).splitlines() or [type(error).__name__])[0])


@lru_cache(maxsize=64)
def _filesystem(uri: str) -> tuple[Any, str]:
    """The pyarrow filesystem of a URI, and the path in it. Raises DataError."""
    location = RemoteFile(uri)
    if urlsplit(uri).scheme not in SCHEMES:
        raise DataError(str(location), "is in no store that can be read", "a path, or file://, s3:// or gs://")
    try:
        from pyarrow import fs
    except ImportError:
        raise DataError(
            str(location), "stores are read by pyarrow, which is not installed", how_to_install("train")
        ) from None
    with as_data_error(location):
        return cast(tuple[Any, str], fs.FileSystem.from_uri(uri))


def fingerprint(location: FileLocation) -> str:
    """SHA-256 (hex) of a file's content, cached by its size and modification time."""
    key = _cache_key(location)
    if key not in _hashes:
        with as_data_error(location), open_file(location) as file:
            _hashes[key] = hashlib.file_digest(file, "sha256").hexdigest()
    return _hashes[key]


def cache_fingerprint(location: FileLocation, sha256: str) -> None:
    """Add a known SHA-256 of a file, in its current version, to the cache of `fingerprint`."""
    _hashes[_cache_key(location)] = sha256


_hashes: dict[tuple[FileLocation, int, int], str] = {}


def _cache_key(location: FileLocation) -> tuple[FileLocation, int, int]:
    resolved = location.resolve() if isinstance(location, Path) else location
    with as_data_error(location):
        return resolved, *file_stat(resolved)
