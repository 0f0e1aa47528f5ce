"""The images of a data set by line: file contents, decoded pixels, or region features."""

import hashlib
import tarfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path
from typing import NamedTuple

import numpy as np
from pydantic import ValidationError

from interlinear.config import ImageGrid
from interlinear.errors import DataError, ImageError
from interlinear.images.decode import MAX_BYTES, SUFFIXES, decode_image
from training.data.dataset import ImageField, IndexEntry, load_index, missing_line_error, read_index
from training.data.images.drawing import SceneImage
from training.data.images.image_features import Features, check_features_match, open_features
from training.data.text_lines import read_file
from training.data.uris import fingerprint
from training.yaml_files import first_problem

ImageReader = Callable[[int], np.ndarray | None]
"""Returns the model's input for a line, counted from 0; None if the line has no image."""


class ByteRange(NamedTuple):
    """The position of a file in an archive: offset and size in bytes."""

    offset: int
    size: int


@dataclass(frozen=True)
class ImageArchive:
    """Image files in a folder, or in an uncompressed tar, from which each is read by its offset."""

    path: Path

    def byte_ranges(self, members: Sequence[str], index: Path) -> Mapping[str, ByteRange]:
        """The positions of the named files. Raises DataError if one is missing, or if a name is outside the folder."""
        available: Mapping[str, ByteRange]
        if self.path.is_dir():
            if outside := [name for name in members if Path(name).is_absolute() or ".." in Path(name).parts]:
                raise DataError(str(index), f"names '{outside[0]}', which is not in {self.path}", "remove its row")
            available = {
                name: ByteRange(0, file.stat().st_size) for name in members if (file := self.path / name).is_file()
            }
        else:
            available = self.contents
        if missing := [name for name in members if name not in available]:
            more = f", nor {len(missing) - 1:,} others that the index names" if len(missing) > 1 else ""
            raise DataError(str(self.path), f"has no '{missing[0]}'{more}", f"{index} must name what is in there")
        return available

    @property
    def contents(self) -> Mapping[str, ByteRange]:
        """The positions of all files in a tar. Raises DataError."""
        status = self.path.stat()
        return read_tar_index(self.path, status.st_size, status.st_mtime_ns)

    def names(self) -> list[str]:
        """The names of all image files, sorted. Raises DataError."""
        if self.path.is_dir():
            names = [str(file.relative_to(self.path)) for file in self.path.rglob("*") if file.is_file()]
        else:
            names = list(self.contents)
        return sorted(name for name in names if name.lower().endswith(SUFFIXES))

    def read(self, member: str, byte_range: ByteRange) -> bytes:
        """The content of a file, at most MAX_BYTES + 1 bytes, enough to detect a file that is too large. Raises
        DataError."""
        path = self.path / member if self.path.is_dir() else self.path
        try:
            with path.open("rb") as file:
                file.seek(byte_range.offset)
                return file.read(min(byte_range.size, MAX_BYTES + 1))
        except OSError as error:
            raise DataError(str(path), f"cannot be read: {error.strerror or error}") from None

    def pixels(self, member: str, byte_range: ByteRange, size: int, line: str = "") -> np.ndarray:
        """Decode an image: uint8 (size, size, 3). Raises DataError with its name if that is not possible."""
        try:
            return decode_image(self.read(member, byte_range), size, f"{self.path}, {member}{line}")
        except ImageError as error:
            raise DataError(error.where, error.problem, "repair it, or remove its row from the index") from None


class DrawnImages(ImageArchive):
    """Images drawn from the descriptions of scenes in the fourth column of an image index."""

    @property
    def contents(self) -> Mapping[str, ByteRange]:
        """The names of all images; they have no position. Raises DataError."""
        return dict.fromkeys(self.scenes, ByteRange(0, 0))

    @property
    def scenes(self) -> Mapping[str, SceneImage]:
        """All scenes by the names of their images. Raises DataError."""
        status = self.path.stat()
        return read_scenes(self.path, status.st_size, status.st_mtime_ns)

    def read(self, member: str, byte_range: ByteRange) -> bytes:
        """The image of a scene as a PNG file. Raises DataError."""
        return self.scenes[member].png()


class SplitImages:
    """The images of a split, read on demand. Several threads may read at the same time."""

    def __init__(self, field: ImageField) -> None:
        """Raises DataError: an invalid index, or no row for the split."""
        self.field = field
        self.archive = (DrawnImages if field.drawn else ImageArchive)(field.images)
        self.entries: Mapping[int, IndexEntry] = read_index(field)

    def member_name(self, line: int) -> str | None:
        """The file name of a line's image in the archive or folder; None if the line has no image."""
        entry = self.entries.get(line)
        return None if entry is None else entry.member

    def check_lines(self, lines: int) -> None:
        """Raises DataError if an image belongs to a line after the first `lines` lines."""
        if (last := max(self.entries)) >= lines:
            raise missing_line_error(self.field, last, lines)

    @cached_property
    def byte_ranges(self) -> Mapping[str, ByteRange]:
        """The positions of all images. Raises DataError if one is missing, or if a name is outside the folder."""
        members = list(dict.fromkeys(entry.member for entry in self.entries.values()))
        return self.archive.byte_ranges(members, self.field.index)

    @cached_property
    def precomputed(self) -> Features:
        """The features in the data set. Raises DataError: no features, a damaged file, another number of images."""
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
        """The file content of a line's image, at most MAX_BYTES + 1 bytes; None if the line has no image."""
        entry = self.entries.get(line)
        if entry is None:
            return None
        return self.archive.read(entry.member, self.byte_ranges[entry.member])

    def pixels(self, line: int, size: int) -> np.ndarray | None:
        """A line's image, uint8 (size, size, 3); None if the line has no image. Raises DataError with its name if it
        cannot be decoded."""
        entry = self.entries.get(line)
        if entry is None:
            return None
        return self.archive.pixels(entry.member, self.byte_ranges[entry.member], size, f" (line {line + 1:,})")

    def features(self, line: int) -> np.ndarray | None:
        """The regions (T, F) of a line's image, float32, from the data set's features; None if the line has no
        image."""
        entry = self.entries.get(line)
        return None if entry is None else self.precomputed.row(entry.row)

    def reader_for(self, grid: ImageGrid, reader: str = "the model") -> ImageReader:
        """A function from a line to the input of a model with this grid: pixels of its size, or features.

        Raises DataError if the features come from another network than the model's training features.
        """
        if grid.network is not None:
            size = grid.network.size
            return lambda line: self.pixels(line, size)
        check_features_match(grid, self.precomputed.grid, self.precomputed.path, reader)
        return self.features

    def fingerprint(self, precomputed: bool) -> str:
        """SHA-256 (hex) over the assignment of images to lines, and the archive (of a folder: names, sizes and
        modification times) or the precomputed features."""
        digest = hashlib.sha256()
        for line, entry in sorted(self.entries.items()):
            digest.update(f"{line} {entry.row if precomputed else entry.member}\n".encode())
        if precomputed or not self.field.images.is_dir():
            path = self.precomputed.path if precomputed else self.field.images
            digest.update(fingerprint(path).encode())
        else:
            for name in self.byte_ranges:
                status = (self.field.images / name).stat()
                digest.update(f"{name} {status.st_size} {status.st_mtime_ns}\n".encode())
        return digest.hexdigest()


@lru_cache(maxsize=16)
def read_tar_index(path: Path, size: int, modified: int) -> Mapping[str, ByteRange]:
    """The position of each file in an uncompressed tar, from its headers. Raises DataError."""
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


@lru_cache(maxsize=4)
def read_scenes(path: Path, size: int, modified: int) -> Mapping[str, SceneImage]:
    """The scenes in the fourth column of an image index, by the names of their images. Raises DataError."""
    scenes: dict[str, SceneImage] = {}
    for number, line in enumerate(read_file(path), 1):
        *_, member, description = ("", "", *line.split("\t"))
        try:
            scenes[member] = SceneImage.model_validate_json(description)
        except ValidationError as error:
            raise DataError(
                f"{path}, row {number}", f"describes no scene: {first_problem(error)}", "see docs/datasets.md"
            ) from None
    return scenes
