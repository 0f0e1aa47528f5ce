"""Prepared data: a corpus' vocabularies, and its pairs as ids in files that training maps into memory.

prepared/NAME-KEY/
    prepared.json               what it was made of, what was left out, every file's size and SHA-256, and its own
    tokenizer.FIELD.json
    SPLIT.FIELD.ids.npy         all ids, row after row, without begin and end symbols
    SPLIT.FIELD.ends.npy        where each row ends in them
    SPLIT.lines.npy             which line of the corpus each row is, counted from 0
    SPLIT.left_out.npy          why each line was left out by cleaning (training/data/cleaning.py); 0: it was not
    SPLIT.FIELD.values.npy, SPLIT.FIELD.places.npy      pictures (training/data/images/image_store.py)

A large corpus is cut into shards: SPLIT-00000.FIELD.ids.npy, SPLIT-00001.FIELD.ids.npy, and so on.
"""

import json
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import accumulate
from pathlib import Path
from typing import Self

import numpy as np
from pydantic import BaseModel, ConfigDict, ValidationError

from seq2seq.bundle.checksums import CHECKSUM_KEY, checksum, content_checksum, parse_checked_json
from seq2seq.config import ImageGrid
from seq2seq.errors import DataError
from seq2seq.text import TextConfig, Tokenizer
from training.data.arrays import memory_map
from training.data.cleaning import Cleaning
from training.data.images.image_store import ImageForm, StoredImages, StoredImagesRecord

FORMAT = 2  # 2: there may be shards
TARGET = "target"


class StrictModel(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Skipped(StrictModel):
    """Pairs that were left out for one reason; lines are counted from 1."""

    count: int = 0
    first_line: int | None = None

    def with_lines(self, lines: Sequence[int]) -> "Skipped":
        if not lines:
            return self
        return Skipped(count=self.count + len(lines), first_line=self.first_line or lines[0])

    def merge(self, other: "Skipped") -> "Skipped":
        """Together with those of later lines."""
        return Skipped(count=self.count + other.count, first_line=self.first_line or other.first_line)


class ShardRecord(StrictModel):
    """What became of some rows: so many were kept, with so many `tokens` a text; `present`: how many have a source."""

    rows: int
    tokens: dict[str, int]
    empty: Skipped
    long: Skipped
    present: dict[str, int]


class SplitRecord(StrictModel):
    """What became of a split: `lines` were read, `rows` kept, with so many `tokens` (without end symbols) a text.

    `present`: how many of the rows have each source. `cleaned`: the pairs left out before, by reason. `shards`: the
    rows of each, where there are several.
    """

    lines: int
    rows: int
    tokens: dict[str, int]
    empty: Skipped
    long: Skipped
    present: dict[str, int] = {}
    pictures: dict[str, StoredImagesRecord] = {}
    cleaned: dict[str, Skipped] = {}
    shards: tuple[int, ...] = ()


class PreparedRecord(StrictModel):
    """prepared.json: what prepared data was made of and what came of it."""

    format: int = FORMAT
    key: str
    dataset: str
    languages: dict[str, str]
    sources: dict[str, TextConfig]
    target: TextConfig
    joint: bool
    max_length: int
    fingerprints: dict[str, str]
    splits: dict[str, SplitRecord]
    files: dict[str, int]
    checksums: dict[str, str] = {}  # SHA-256 of every file; empty in data prepared by earlier versions
    images: dict[str, ImageForm] = {}
    cleaning: Cleaning = Cleaning()
    content_sha256: str = ""  # of the record without this key; empty as above

    def as_json(self) -> bytes:
        """The content of prepared.json, with its own checksum."""
        content = json.loads(self.model_dump_json())
        return json.dumps(content | {CHECKSUM_KEY: content_checksum(content)}, indent=2).encode()


class PreparedShard:
    """The texts of some rows in the order of the corpus, mapped from their files; no `number`: of all rows."""

    def __init__(self, folder: Path, split: str, number: int | None, fields: Sequence[str]) -> None:
        self._ids = {field: memory_map(folder / ids_file(split, field, number)) for field in fields}
        self._ends = {field: memory_map(folder / ends_file(split, field, number)) for field in fields}

    def lengths(self, field: str) -> np.ndarray:
        """The length of a text's every row, int32, without the end symbol; 0 where it is absent."""
        return np.diff(self._ends[field], prepend=0).astype(np.int32)

    def ids(self, field: str, row: int) -> np.ndarray:
        """One row's ids, without begin and end symbols."""
        ends = self._ends[field]
        return self._ids[field][ends[row - 1] if row else 0 : ends[row]]


class PreparedSplit:
    """The rows of a split, in the order of the corpus; their shards are mapped when they are first read."""

    def __init__(self, folder: Path, name: str, record: SplitRecord) -> None:
        self.record = record
        self._folder, self._name = folder, name
        self._open = partial(PreparedShard, folder, name, fields=tuple(record.tokens))
        sizes = record.shards or (record.rows,)
        self.starts = [0, *accumulate(sizes)]  # the first row of each shard, and where the last ends
        numbers: Sequence[int | None] = range(len(sizes)) if record.shards else [None]
        self._shards = dict[int, PreparedShard]()
        self._length_histograms = dict[tuple[str, int], list[np.ndarray]]()
        self._numbers = numbers
        lines = (
            [memory_map(folder / lines_file(name, number)) for number in numbers] if record.pictures else [np.empty(0)]
        )
        self._lines = lines[0] if len(lines) == 1 else np.concatenate(lines)
        self.images = {field: StoredImages(folder, name, field, of) for field, of in record.pictures.items()}

    def line(self, row: int) -> int:
        """The line of the corpus that a row is, from 0."""
        shard = bisect_right(self.starts, row) - 1
        return int(memory_map(self._folder / lines_file(self._name, self._numbers[shard]))[row - self.starts[shard]])

    def image(self, field: str, line: int, grid: ImageGrid) -> np.ndarray | None:
        """The picture of a line of the corpus (from 0) as a model with such a grid reads it; None where it has none, or
        where the line was left out."""
        row = int(np.searchsorted(self._lines, line))
        if row == len(self._lines) or self._lines[row] != line:
            return None
        return self.images[field].model_input(row, grid)

    @property
    def rows(self) -> int:
        return self.record.rows

    @property
    def shards(self) -> int:
        """How many there are; one, where the files are not cut."""
        return len(self._numbers)

    def length_histograms(self, field: str, unit: int) -> Sequence[np.ndarray]:
        """For every shard, how many rows of a text have which length, in whole units; looked up once."""
        if (field, unit) not in self._length_histograms:
            every = (self.shard(index).lengths(field) // unit for index in range(self.shards))
            self._length_histograms[field, unit] = [np.bincount(lengths, minlength=1) for lengths in every]
        return self._length_histograms[field, unit]

    def shard(self, index: int) -> PreparedShard:
        """One of the shards, by its place among them."""
        if index not in self._shards:
            self._shards[index] = self._open(self._numbers[index])
        return self._shards[index]

    def lengths(self, field: str) -> np.ndarray:
        """The length of a text's every row, int32, without the end symbol; 0 where it is absent."""
        parts = [self.shard(index).lengths(field) for index in range(self.shards)]
        return parts[0] if len(parts) == 1 else np.concatenate(parts)

    def ids(self, field: str, row: int) -> np.ndarray:
        """One row's ids, without begin and end symbols."""
        index = bisect_right(self.starts, row) - 1 if len(self.starts) > 2 else 0
        return self.shard(index).ids(field, row - self.starts[index])


@dataclass(frozen=True)
class PreparedData:
    """A folder of prepared data."""

    folder: Path
    record: PreparedRecord

    @classmethod
    def load(cls, folder: Path) -> "PreparedData":
        """Open what `prepare` made. Raises DataError with the name of a file that is missing or not whole."""
        again = f"remove {folder} and prepare again"
        path = folder / "prepared.json"
        try:
            content = parse_checked_json(path.read_bytes())
            if content.get("format", 0) > FORMAT:
                raise DataError(str(path), f"has format {content['format']}, newer than {FORMAT}", "update interlinear")
            record = PreparedRecord.model_validate(content)
        except FileNotFoundError:
            raise DataError(str(path), "is missing, so this is no prepared data", again) from None
        except ValidationError as error:
            raise DataError(str(path), f"cannot be read ({error.error_count()} wrong values)", again) from None
        except (OSError, ValueError, TypeError) as error:
            raise DataError(str(path), f"cannot be read ({error})", again) from None
        for name, size in record.files.items():
            if not (folder / name).is_file():
                raise DataError(str(folder / name), "is missing", again)
            if (found := (folder / name).stat().st_size) != size:
                raise DataError(str(folder / name), f"has {found:,} bytes instead of {size:,}", again)
        return cls(folder, record)

    def check(self) -> Self:
        """These data, when every file is what was prepared. Reads all of them. Raises DataError for one that is not.

        Data prepared by earlier versions have no checksums to compare with.
        """
        for name, expected in self.record.checksums.items():
            path = self.folder / name
            try:
                found = checksum(path)
            except OSError as error:
                raise DataError(str(path), f"cannot be read ({error})", self._again) from None
            if found != expected:
                raise DataError(str(path), "is damaged (another checksum)", self._again)
        return self

    @property
    def _again(self) -> str:
        return f"remove {self.folder} and prepare again"

    @cached_property
    def tokenizers(self) -> dict[str, Tokenizer]:
        """The tokenizer of every field."""
        return {name: Tokenizer.load(self.folder / tokenizer_file(name)) for name in (*self.record.sources, TARGET)}

    @property
    def grids(self) -> dict[str, ImageGrid]:
        """The grids of the features that the data set gives, by source."""
        return {name: form for name, form in self.record.images.items() if isinstance(form, ImageGrid)}

    def split(self, name: str) -> PreparedSplit:
        """`train` or `dev`."""
        return PreparedSplit(self.folder, name, self.record.splits[name])


def tokenizer_file(field: str) -> str:
    return f"tokenizer.{field}.json"


def left_out_file(split: str) -> str:
    return f"{split}.left_out.npy"


def lines_file(split: str, shard: int | None = None) -> str:
    return f"{_file_prefix(split, shard)}.lines.npy"


def ids_file(split: str, field: str, shard: int | None = None) -> str:
    return f"{_file_prefix(split, shard)}.{field}.ids.npy"


def ends_file(split: str, field: str, shard: int | None = None) -> str:
    return f"{_file_prefix(split, shard)}.{field}.ends.npy"


def _file_prefix(split: str, shard: int | None) -> str:
    return split if shard is None else f"{split}-{shard:05}"
