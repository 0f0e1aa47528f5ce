"""The index of a data set's images: which image belongs to which line of a split."""

from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

from interlinear.errors import DataError
from training.data.dataset.fields import ImageField, quote_names
from training.data.text_lines import read_file


class IndexEntry(NamedTuple):
    """An image in an index: its row there, from 0, and its file name in the archive or folder."""

    row: int
    member: str


class ImageIndex(NamedTuple):
    """An image index: its number of rows, and the images of each split by line, from 0."""

    rows: int
    splits: Mapping[str, Mapping[int, IndexEntry]]


def read_index(field: ImageField) -> Mapping[int, IndexEntry]:
    """The images of a split by line. Raises DataError: an invalid row (with its number), a line with two images, no
    row for the split."""
    index = load_index(field.index)
    if field.split not in index.splits:
        raise DataError(
            str(field.index),
            f"has no picture of a split '{field.split}', only of {quote_names(index.splits)}",
            f"say with `split:` what the index calls it, or leave the field '{field.name}' out",
        )
    return index.splits[field.split]


def load_index(path: Path) -> ImageIndex:
    """Parse an index. The result is cached until the file's size or modification time changes."""
    status = path.stat()
    return parse_index(path, status.st_size, status.st_mtime_ns)


@lru_cache(maxsize=64)
def parse_index(path: Path, size: int, modified: int) -> ImageIndex:
    splits: dict[str, dict[int, IndexEntry]] = {}
    row = -1
    for row, line in enumerate(read_file(path)):
        columns = line.split("\t")
        if len(columns) < 3 or not (columns[1].isascii() and columns[1].isdecimal()) or not columns[2]:
            raise DataError(
                f"{path}, row {row + 1}",
                f"is not a split, a line number and a file's name with tabs between them, but {line[:60]!r}",
                "see docs/datasets.md for what an index is",
            )
        lines = splits.setdefault(columns[0], {})
        number = int(columns[1])
        if number in lines:
            raise DataError(
                f"{path}, row {row + 1}",
                f"'{columns[0]}' line {number:,} has a picture already, in row {lines[number].row + 1:,}",
                "a line has one picture: remove one of the two rows",
            )
        lines[number] = IndexEntry(row, columns[2])
    return ImageIndex(row + 1, splits)


def missing_line_error(field: ImageField, line: int, lines: int) -> DataError:
    """The error for an index that names a line after the last one."""
    return DataError(
        str(field.index),
        f"has a picture for line {line:,} of '{field.split}', whose lines are 0 to {lines - 1:,}",
        "the index counts lines from 0: check that it belongs to these files",
    )
