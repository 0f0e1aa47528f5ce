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

STORES = ("s3", "gs")
BUFFER = 1 << 20  # bytes asked of a store at a time


@dataclass(frozen=True)
class Remote:
    """A file in a store, by its URI; printed without the key that a URI may carry."""

    uri: str

    def __str__(self) -> str:
        parts = urlsplit(self.uri)
        return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"

    def beside(self, path: str) -> "Remote":
        """Another file of the same store, by its path there (which begins with the bucket)."""
        parts = urlsplit(self.uri)
        bucket, _, rest = path.partition("/")
        user = parts.netloc.rpartition("@")[0]
        return Remote(parts._replace(netloc=f"{user}@{bucket}" if user else bucket, path=f"/{rest}").geturl())


Place = Path | Remote


def is_uri(path: str) -> bool:
    return "://" in path


def named_by(path: str) -> list[Place] | None:
    """The files that a URI means, in the order of their names; None for what is a path of this machine.

    `*` and `[...]` in any part stand for what a store has there; `?` begins a URI's options. Raises DataError: a store
    of another kind, one that does not answer, no such file.
    """
    if not is_uri(path):
        return None
    if path.startswith("file://"):
        local = unquote(urlsplit(path).path)
        return list(matching(local)) or _none(path)
    store, inside = _store(path)
    here = Remote(path)
    with reading(here):
        if not glob.has_magic(inside):
            return [here] if store.get_file_info(inside).is_file else _none(str(here))
        from pyarrow import fs

        parts = inside.split("/")
        fixed = next(i for i, part in enumerate(parts) if glob.has_magic(part))
        within = fs.FileSelector("/".join(parts[:fixed]), recursive=fixed < len(parts) - 1, allow_not_found=True)
        found = sorted(info.path for info in store.get_file_info(within) if info.is_file)
        return [here.beside(name) for name in found if _fits(name.split("/"), parts)] or _none(str(here))


def _fits(parts: list[str], patterns: list[str]) -> bool:
    return len(parts) == len(patterns) and all(map(fnmatchcase, parts, patterns))


def _none(path: str) -> list[Place]:
    raise DataError(path, "there is no such file", "look whether the address is right")


def matching(path: str) -> tuple[Path, ...]:
    """The file or folder of that name; else the files that a pattern of `*`, `?` and `[...]` stands for, by name."""
    if Path(path).exists():
        return (Path(path),)
    root = Path(Path(path).anchor)
    return tuple(sorted(root.glob(str(Path(path).relative_to(root))))) if glob.has_magic(path) else ()


def facts(place: Place) -> tuple[int, int]:
    """A file's size in bytes, and when it was changed last, in nanoseconds (0 where the store does not say)."""
    if isinstance(place, Path):
        status = place.stat()
        return status.st_size, status.st_mtime_ns
    store, inside = _store(place.uri)
    with reading(place):
        info = store.get_file_info(inside)
        if not info.is_file:
            _none(str(place))
        return info.size, info.mtime_ns or 0


@contextmanager
def opened(place: Place) -> Iterator[io.BufferedReader]:
    """A file to read from, at any position."""
    if isinstance(place, Path):
        with place.open("rb") as file:
            yield file
        return
    store, inside = _store(place.uri)
    with store.open_input_file(inside) as native, io.BufferedReader(native, BUFFER) as buffered:
        yield buffered


@contextmanager
def reading(place: Place) -> Iterator[None]:
    """What a store answers, as a sentence."""
    try:
        yield
    except IsADirectoryError:
        raise is_a_folder(place) from None
    except (OSError, ValueError) as error:  # Arrow's own errors are among these
        raise DataError(str(place), f"cannot be read: {first_line(error)}") from None


def is_a_folder(place: Place) -> DataError:
    return DataError(str(place), "is a folder, not a file", "name its files, for example with a pattern")


def first_line(error: BaseException) -> str:
    """What an error says, without the system's number for it."""
    return re.sub(r"^\[Errno \d+\] ", "", (str(error).splitlines() or [type(error).__name__])[0])


@lru_cache(maxsize=64)
def _store(uri: str) -> tuple[Any, str]:
    """The store that a URI names, and the path in it. Raises DataError."""
    place = Remote(uri)
    if urlsplit(uri).scheme not in STORES:
        raise DataError(str(place), "is in no store that can be read", "a path, or file://, s3:// or gs://")
    try:
        from pyarrow import fs
    except ImportError:
        raise DataError(
            str(place), "stores are read by pyarrow, which is not installed", "pip install 'interlinear[train]'"
        ) from None
    with reading(place):
        return cast(tuple[Any, str], fs.FileSystem.from_uri(uri))


def fingerprint(place: Place) -> str:
    """SHA-256 (hex) of a file's content, computed once for each size and time of change."""
    key = _version(place)
    if key not in _hashes:
        with reading(place), opened(place) as file:
            _hashes[key] = hashlib.file_digest(file, "sha256").hexdigest()
    return _hashes[key]


def remember(place: Place, sha256: str) -> None:
    """The SHA-256 of a file, as it is now, is known from elsewhere."""
    _hashes[_version(place)] = sha256


_hashes: dict[tuple[Place, int, int], str] = {}


def _version(place: Place) -> tuple[Place, int, int]:
    where = place.resolve() if isinstance(place, Path) else place
    with reading(place):
        return where, *facts(where)
