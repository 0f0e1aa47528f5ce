"""Prepared data: the vocabularies of a corpus, and its pairs as ids in files that training memory-maps.

prepared/NAME-KEY/
    prepared.json               settings, excluded pairs, the size and SHA-256 of every file, and its own SHA-256
    tokenizer.FIELD.json
    SPLIT.FIELD.ids.npy         the ids of all rows, concatenated, without begin and end symbols
    SPLIT.FIELD.ends.npy        the position in the ids where each row ends
    SPLIT.lines.npy             the line of the corpus that each row is, from 0
    SPLIT.left_out.npy          why cleaning excluded each line (training/data/cleaning.py); 0: it was kept
    SPLIT.FIELD.values.npy, SPLIT.FIELD.places.npy      images (training/data/images/image_store.py)
    train.guide.npy, ...                                word links (training/data/guide/stored_guide.py)

A large corpus is divided into shards: SPLIT-00000.FIELD.ids.npy, SPLIT-00001.FIELD.ids.npy, and so on.
"""

import json
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import accumulate
from pathlib import Path
from typing import Self

import numpy as np
from pydantic import BaseModel, ConfigDict, ValidationError

from interlinear.config import ImageGrid
from interlinear.errors import DataError
from interlinear.files import CHECKSUM_KEY, checksum, content_checksum, parse_checked_json
from interlinear.text import TextConfig, Tokenizer
from training.data.arrays import memory_map, span_indexes
from training.data.cleaning import Cleaning
from training.data.guide.piece_links import RowArrays
from training.data.guide.stored_guide import GuideRecord, WordLinks, load_guide
from training.data.images.image_store import ImageForm, StoredImages, StoredImagesRecord

FORMAT = 1
TARGET = "target"
SPLITS = ("train", "dev")  # that training reads


class StrictModel(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Skipped(StrictModel):
    """The pairs excluded for one reason: their number, and the line of the first, from 1."""

    count: int = 0
    first_line: int | None = None

    def with_lines(self, lines: Sequence[int]) -> "Skipped":
        if not lines:
            return self
        return Skipped(count=self.count + len(lines), first_line=self.first_line or lines[0])

    def merge(self, other: "Skipped") -> "Skipped":
        """Combine with the pairs of later lines."""
        return Skipped(count=self.count + other.count, first_line=self.first_line or other.first_line)


class ShardRecord(StrictModel):
    """The result of a shard: the kept `rows`, the `tokens` of each text, the excluded pairs, and how many rows have
    each source (`present`)."""

    rows: int
    tokens: dict[str, int]
    empty: Skipped
    long: Skipped
    present: dict[str, int]


class SplitRecord(StrictModel):
    """The result of a split: the `lines` read, the `rows` kept, the `tokens` of each text without end symbols.

    `present`: how many rows have each source. `cleaned`: the pairs excluded by cleaning, by reason. `shards`: the rows
    of each shard, if there are several.
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
    """The content of prepared.json: the settings and the results of a preparation."""

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
    checksums: dict[str, str]  # SHA-256 of every file
    images: dict[str, ImageForm] = {}
    cleaning: Cleaning = Cleaning()
    content_sha256: str = ""  # SHA-256 of the record without this key
    guide: GuideRecord | None = None

    def as_json(self) -> bytes:
        """The content of prepared.json, with its own checksum."""
        content = json.loads(self.model_dump_json())
        return json.dumps(content | {CHECKSUM_KEY: content_checksum(content)}, indent=2).encode()


class PreparedShard:
    """The texts of a shard in the order of the corpus, memory-mapped. No `number`: the split is one shard."""

    def __init__(self, folder: Path, split: str, number: int | None, fields: Sequence[str]) -> None:
        self._ids = {field: memory_map(folder / ids_file(split, field, number)) for field in fields}
        self._ends = {field: memory_map(folder / ends_file(split, field, number)) for field in fields}

    def lengths(self, field: str) -> np.ndarray:
        """The length of each row of a text, int32, without the end symbol; 0 if the text is absent."""
        return np.diff(self._ends[field], prepend=0).astype(np.int32)

    def ids(self, field: str, row: int) -> np.ndarray:
        """The ids of one row, without begin and end symbols."""
        ends = self._ends[field]
        return self._ids[field][ends[row - 1] if row else 0 : ends[row]]

    def spans(self, field: str, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The starts of rows in the shard's ids, and their lengths, both int64."""
        ends = self._ends[field]
        starts_N = np.where(rows > 0, ends[rows - 1], 0).astype(np.int64)
        return starts_N, ends[rows].astype(np.int64) - starts_N

    def concatenated_ids(self, field: str, rows: np.ndarray) -> np.ndarray:
        """The ids of some rows, one row after the other."""
        ids: np.ndarray = self._ids[field][span_indexes(*self.spans(field, rows))]
        return ids


class PreparedSplit:
    """The rows of a split in the order of the corpus. A shard is memory-mapped when it is first read."""

    def __init__(self, folder: Path, name: str, record: SplitRecord) -> None:
        self.record = record
        self._folder, self._name = folder, name
        self._open = partial(PreparedShard, folder, name, fields=tuple(record.tokens))
        sizes = record.shards or (record.rows,)
        self.starts = [0, *accumulate(sizes)]  # the first row of each shard, and the end of the last
        numbers: Sequence[int | None] = range(len(sizes)) if record.shards else [None]
        self._shards = dict[int, PreparedShard]()
        self._length_histograms = dict[tuple[str, int], list[np.ndarray]]()
        self._numbers = numbers
        lines = (
            [memory_map(folder / lines_file(name, number)) for number in numbers] if record.pictures else [np.empty(0)]
        )
        self._lines = lines[0] if len(lines) == 1 else np.concatenate(lines)
        self.images = {field: StoredImages(folder, name, field, stored) for field, stored in record.pictures.items()}

    def line(self, row: int) -> int:
        """The line of the corpus that a row is, from 0."""
        shard = bisect_right(self.starts, row) - 1
        return int(memory_map(self._folder / lines_file(self._name, self._numbers[shard]))[row - self.starts[shard]])

    def image(self, field: str, line: int, grid: ImageGrid) -> np.ndarray | None:
        """The image of a line of the corpus (from 0), as a model with this grid reads it; None if the line has no
        image or was excluded."""
        row = int(np.searchsorted(self._lines, line))
        if row == len(self._lines) or self._lines[row] != line:
            return None
        return self.images[field].model_input(row, grid)

    @property
    def rows(self) -> int:
        return self.record.rows

    @property
    def shards(self) -> int:
        """The number of shards; 1 if the files are not divided."""
        return len(self._numbers)

    def length_histograms(self, field: str, unit: int) -> Sequence[np.ndarray]:
        """For each shard, the number of rows by the length of a text, in units of `unit` tokens (rounded down);
        cached."""
        if (field, unit) not in self._length_histograms:
            scaled_lengths = (self.shard(index).lengths(field) // unit for index in range(self.shards))
            self._length_histograms[field, unit] = [np.bincount(lengths, minlength=1) for lengths in scaled_lengths]
        return self._length_histograms[field, unit]

    def shard(self, index: int) -> PreparedShard:
        """The shard with this index."""
        if index not in self._shards:
            self._shards[index] = self._open(self._numbers[index])
        return self._shards[index]

    def lengths(self, field: str) -> np.ndarray:
        """The length of each row of a text, int32, without the end symbol; 0 if the text is absent."""
        parts = [self.shard(index).lengths(field) for index in range(self.shards)]
        return parts[0] if len(parts) == 1 else np.concatenate(parts)

    def ids(self, field: str, row: int) -> np.ndarray:
        """The ids of one row, without begin and end symbols."""
        index = bisect_right(self.starts, row) - 1 if len(self.starts) > 2 else 0
        return self.shard(index).ids(field, row - self.starts[index])

    def row_lengths(self, field: str, rows: np.ndarray) -> np.ndarray:
        """The lengths of some rows, int64, without the end symbol; 0 if the text is absent."""
        lengths_N = np.zeros(len(rows), np.int64)
        for chosen, shard, own_rows in self._by_shard(rows):
            _, lengths_N[chosen] = shard.spans(field, own_rows)
        return lengths_N

    def concatenated_ids(self, field: str, rows: np.ndarray) -> np.ndarray:
        """The ids of some rows, int64, one row after the other, without begin and end symbols."""
        lengths_N = self.row_lengths(field, rows)
        starts_N = np.cumsum(lengths_N) - lengths_N
        ids = np.empty(int(lengths_N.sum()), np.int64)
        for chosen, shard, own_rows in self._by_shard(rows):
            ids[span_indexes(starts_N[chosen], lengths_N[chosen])] = shard.concatenated_ids(field, own_rows)
        return ids

    def _by_shard(self, rows: np.ndarray) -> Iterator[tuple[np.ndarray, PreparedShard, np.ndarray]]:
        """For every shard that has some of the rows: their indexes in `rows`, the shard, and their numbers in it."""
        shards = np.searchsorted(self.starts, rows, side="right") - 1
        for index in np.unique(shards):
            (chosen,) = (shards == index).nonzero()
            yield chosen, self.shard(int(index)), rows[chosen] - self.starts[index]


@dataclass(frozen=True)
class PreparedData:
    """A folder of prepared data."""

    folder: Path
    record: PreparedRecord

    @classmethod
    def load(cls, folder: Path) -> "PreparedData":
        """Open a folder that `prepare` has written. Raises DataError with the name of a missing or truncated file."""
        remedy = f"remove {folder} and prepare again"
        path = folder / "prepared.json"
        try:
            content = parse_checked_json(path.read_bytes())
            if (version := content.get("format")) != FORMAT:
                raise DataError(str(path), f"has format {version}, and this version reads format {FORMAT}", remedy)
            record = PreparedRecord.model_validate(content)
        except FileNotFoundError:
            raise DataError(str(path), "is missing, so this is no prepared data", remedy) from None
        except ValidationError as error:
            raise DataError(str(path), f"cannot be read ({error.error_count()} wrong values)", remedy) from None
        except (OSError, ValueError, TypeError) as error:
            raise DataError(str(path), f"cannot be read ({error})", remedy) from None
        for name, size in record.files.items():
            if not (folder / name).is_file():
                raise DataError(str(folder / name), "is missing", remedy)
            if (actual := (folder / name).stat().st_size) != size:
                raise DataError(str(folder / name), f"has {actual:,} bytes instead of {size:,}", remedy)
        return cls(folder, record)

    def check(self) -> Self:
        """Verify the checksums of all files, and return these data. Raises DataError for a damaged file."""
        for name, expected in self.record.checksums.items():
            path = self.folder / name
            try:
                actual = checksum(path)
            except OSError as error:
                raise DataError(str(path), f"cannot be read ({error})", self._remedy) from None
            if actual != expected:
                raise DataError(str(path), "is damaged (another checksum)", self._remedy)
        return self

    @property
    def _remedy(self) -> str:
        return f"remove {self.folder} and prepare again"

    @cached_property
    def tokenizers(self) -> dict[str, Tokenizer]:
        """The tokenizer of each field."""
        return {name: Tokenizer.load(self.folder / tokenizer_file(name)) for name in (*self.record.sources, TARGET)}

    @property
    def grids(self) -> dict[str, ImageGrid]:
        """The grids of the precomputed features, by source."""
        return {name: form for name, form in self.record.images.items() if isinstance(form, ImageGrid)}

    @property
    def guide(self) -> RowArrays | WordLinks | None:
        """The links of the training pairs for guided attention, or the inputs for making them during training."""
        return None if self.record.guide is None else load_guide(self.folder, self.record.guide)

    def split(self, name: str) -> PreparedSplit:
        """Open the split `train` or `dev`."""
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
