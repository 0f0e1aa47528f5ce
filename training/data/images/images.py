"""A data set's pictures by the line that they belong to: their bytes, their pixels, or features of their regions."""

import hashlib
import tarfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path
from typing import NamedTuple

import numpy as np

from seq2seq.config import ImageGrid
from seq2seq.errors import DataError, ImageError
from seq2seq.images.decode import MAX_BYTES, SUFFIXES, decode_image
from training.data.dataset import ImageField, IndexEntry, load_index, missing_line_error, read_index
from training.data.images.image_features import Features, check_features_match, open_features
from training.data.uris import fingerprint

ImageReader = Callable[[int], np.ndarray | None]
"""Gives what belongs to a line, counted from 0; None where it has no picture."""


class ByteRange(NamedTuple):
    """Where a file lies in an archive."""

    offset: int
    size: int


@dataclass(frozen=True)
class ImageArchive:
    """Files of pictures: an uncompressed tar, in which each is found by its place, or a folder."""

    path: Path

    def byte_ranges(self, members: Sequence[str], index: Path) -> Mapping[str, ByteRange]:
        """Where the named files lie. Raises DataError where one is missing, or a name leads out of the folder."""
        there: Mapping[str, ByteRange]
        if self.path.is_dir():
            if odd := [name for name in members if Path(name).is_absolute() or ".." in Path(name).parts]:
                raise DataError(str(index), f"names '{odd[0]}', which is not in {self.path}", "remove its row")
            there = {
                name: ByteRange(0, file.stat().st_size) for name in members if (file := self.path / name).is_file()
            }
        else:
            there = self.contents
        if missing := [name for name in members if name not in there]:
            more = f", nor {len(missing) - 1:,} others that the index names" if len(missing) > 1 else ""
            raise DataError(str(self.path), f"has no '{missing[0]}'{more}", f"{index} must name what is in there")
        return there

    @property
    def contents(self) -> Mapping[str, ByteRange]:
        """Where every file of a tar lies. Raises DataError."""
        facts = self.path.stat()
        return read_tar_index(self.path, facts.st_size, facts.st_mtime_ns)

    def names(self) -> list[str]:
        """The files that are pictures by their names, sorted. Raises DataError."""
        if self.path.is_dir():
            names = [str(file.relative_to(self.path)) for file in self.path.rglob("*") if file.is_file()]
        else:
            names = list(self.contents)
        return sorted(name for name in names if name.lower().endswith(SUFFIXES))

    def read(self, member: str, byte_range: ByteRange) -> bytes:
        """A file, and at most so much of it that it is seen to be too large. Raises DataError."""
        path = self.path / member if self.path.is_dir() else self.path
        try:
            with path.open("rb") as file:
                file.seek(byte_range.offset)
                return file.read(min(byte_range.size, MAX_BYTES + 1))
        except OSError as error:
            raise DataError(str(path), f"cannot be read: {error.strerror or error}") from None

    def pixels(self, member: str, byte_range: ByteRange, size: int, line: str = "") -> np.ndarray:
        """A picture, uint8 (size, size, 3). Raises DataError with its name where it cannot be decoded."""
        try:
            return decode_image(self.read(member, byte_range), size, f"{self.path}, {member}{line}")
        except ImageError as error:
            raise DataError(error.where, error.problem, "repair it, or remove its row from the index") from None


class SplitImages:
    """The pictures of a split. Several threads may read from it; nothing is read before it is asked for."""

    def __init__(self, field: ImageField) -> None:
        """Raises DataError: the index is not one, or has no row of the split."""
        self.field = field
        self.archive = ImageArchive(field.images)
        self.entries: Mapping[int, IndexEntry] = read_index(field)

    def member_name(self, line: int) -> str | None:
        """The name of a line's picture in the archive or folder."""
        entry = self.entries.get(line)
        return None if entry is None else entry.member

    def check_lines(self, lines: int) -> None:
        """Whether every picture is of one of so many lines. Raises DataError."""
        if (last := max(self.entries)) >= lines:
            raise missing_line_error(self.field, last, lines)

    @cached_property
    def byte_ranges(self) -> Mapping[str, ByteRange]:
        """Where each picture lies. Raises DataError where one is missing, or a name leads out of the folder."""
        members = list(dict.fromkeys(entry.member for entry in self.entries.values()))
        return self.archive.byte_ranges(members, self.field.index)

    @cached_property
    def precomputed(self) -> Features:
        """The features that the data set has. Raises DataError: none, damaged, of another number of pictures."""
        path = self.field.features
        if path is None:
            raise DataError(
                f"the field '{self.field.name}'", "names no features of its pictures", "add `features:` to it"
            )
        features, rows = open_features(path), load_index(self.field.index).rows
        if len(features.values_NTF) != rows:
            raise DataError(
                str(path),
                f"has features of {len(features.values_NTF):,} pictures, and {self.field.index} has {rows:,} rows",
                "row i of both must belong together",
            )
        return features

    def read_bytes(self, line: int) -> bytes | None:
        """A line's picture as its file is, and at most so much of it that it is seen to be too large."""
        entry = self.entries.get(line)
        if entry is None:
            return None
        return self.archive.read(entry.member, self.byte_ranges[entry.member])

    def pixels(self, line: int, size: int) -> np.ndarray | None:
        """A line's picture, uint8 (size, size, 3). Raises DataError with its name where it cannot be decoded."""
        entry = self.entries.get(line)
        if entry is None:
            return None
        return self.archive.pixels(entry.member, self.byte_ranges[entry.member], size, f" (line {line + 1:,})")

    def features(self, line: int) -> np.ndarray | None:
        """The regions (T, F) of a line's picture, float32, as the data set gives them."""
        entry = self.entries.get(line)
        return None if entry is None else self.precomputed.row(entry.row)

    def reader_for(self, grid: ImageGrid, reader: str = "the model") -> ImageReader:
        """What a model with such a source is to be given for a line: pixels of its size, or features.

        Raises DataError where the features were made by another network than those that it was trained on.
        """
        if grid.network is not None:
            size = grid.network.size
            return lambda line: self.pixels(line, size)
        check_features_match(grid, self.precomputed.grid, self.precomputed.path, reader)
        return self.features

    def fingerprint(self, precomputed: bool) -> str:
        """SHA-256 (hex) over whose each picture is, and the archive (of a folder: names, sizes and times of change) or
        the given features."""
        digest = hashlib.sha256()
        for line, entry in sorted(self.entries.items()):
            digest.update(f"{line} {entry.row if precomputed else entry.member}\n".encode())
        if precomputed or not self.field.images.is_dir():
            path = self.precomputed.path if precomputed else self.field.images
            digest.update(fingerprint(path).encode())
        else:
            for name in self.byte_ranges:
                facts = (self.field.images / name).stat()
                digest.update(f"{name} {facts.st_size} {facts.st_mtime_ns}\n".encode())
        return digest.hexdigest()


@lru_cache(maxsize=16)
def read_tar_index(path: Path, size: int, modified: int) -> Mapping[str, ByteRange]:
    """Where each file of an uncompressed tar lies, by its headers alone. Raises DataError."""
    try:
        with tarfile.open(path, "r:") as archive:
            return {
                member.name.removeprefix("./"): ByteRange(member.offset_data, member.size)
                for member in archive
                if member.isreg() and not member.issparse()
            }
    except (tarfile.TarError, OSError, EOFError) as error:
        raise DataError(
            str(path),
            f"cannot be read as an archive ({error})",
            "give an uncompressed tar, so that each picture can be found in it, or a folder",
        ) from None
