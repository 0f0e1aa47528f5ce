"""Executors for data preparation: in this process (here), or on a Ray cluster by shards (training/ray/data.py).

Both write the same data: a shard is a fixed range of the corpus's rows, and the sample from which a vocabulary is
learned depends only on row numbers.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import compress, islice
from pathlib import Path
from typing import Protocol

import numpy as np

from training.data.cleaning import Reason, RowChecks
from training.data.dataset import Dataset, Row, read_lines, read_rows
from training.data.prepare.encoding import EncodedChunk, Encoder, LineBatch, chunk_rows, write_shard
from training.data.prepare.prepared import ShardRecord
from training.data.thread_pool import map_in_order
from training.data.uris import fingerprint

SHARD_ROWS = 1 << 18  # rows of a corpus per shard; a smaller corpus is one shard
SEED = 0  # seed of the sample

Reasons = np.ndarray | None
"""Why each row is excluded (training/data/cleaning.py), 0: it is kept; None: all rows are kept."""

ProgressCallback = Callable[[int], None]
"""Progress callback; receives the number of rows just completed."""


@dataclass(frozen=True)
class Shard:
    """A range of a split's included rows, `start` to before `end` (from 0). `number` is None if the split is one
    shard."""

    number: int | None
    start: int
    end: int


@dataclass(frozen=True)
class Sample:
    """A sample of at most `max_rows` of the `total` kept rows: the kept rows are divided into equal runs, and one
    row of each run is chosen by a seeded hash."""

    total: int
    max_rows: int
    reasons: Reasons

    def mask(self, start: int, end: int, before: int) -> np.ndarray:
        """Which of the rows from `start` to before `end` are in the sample, bool (end - start); `before`: the number
        of kept rows before `start`."""
        included = np.ones(end - start, bool) if self.reasons is None else self.reasons[start:end] == Reason.NONE
        if self.total > self.max_rows:
            rank = np.arange(before, before + int(included.sum()), dtype=np.int64)
            run = rank * self.max_rows // self.total
            first, following = (-(-(run + offset) * self.total // self.max_rows) for offset in (0, 1))
            included[included] = rank == first + (_splitmix64(run) % (following - first).astype(np.uint64)).astype(
                np.int64
            )
        return included

    def count_included(self, start: int, end: int) -> int:
        """The number of rows from `start` to before `end` that are kept, in the sample or not."""
        return end - start if self.reasons is None else int((self.reasons[start:end] == Reason.NONE).sum())


def _splitmix64(numbers: np.ndarray) -> np.ndarray:
    """64 pseudo-random bits for each number: SplitMix64 (Steele et al. 2014). Any part of the sequence is computed
    without the rest of it."""
    bits = (numbers.astype(np.uint64) + np.uint64(SEED + 1)) * np.uint64(0x9E3779B97F4A7C15)
    bits = (bits ^ (bits >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    bits = (bits ^ (bits >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return bits ^ (bits >> np.uint64(31))


def split_into_shards(rows: int) -> list[Shard]:
    """The shards of a split with `rows` rows."""
    if rows <= SHARD_ROWS:
        return [Shard(None, 0, rows)]
    return [Shard(n, start, min(start + SHARD_ROWS, rows)) for n, start in enumerate(range(0, rows, SHARD_ROWS))]


class PrepareExecutor(Protocol):
    """The passes over a data set that its preparation consists of."""

    resumable: bool  # whether an interrupted preparation is continued

    def scan_files(
        self, dataset: Dataset, splits: Sequence[str], names: Sequence[str], advance: ProgressCallback
    ) -> None:
        """Start with a data set, its splits and text fields: hash each file once, or read it for later passes."""

    def count_rows(self, split: str, advance: ProgressCallback) -> int:
        """The number of included rows of a split. Raises DataError for files that cannot be read or that differ in
        their number of lines."""

    def check_rows(self, split: str, advance: ProgressCallback) -> Iterator[tuple[int, RowChecks]]:
        """The results of the data set's cleaning, in chunks, each with the index of its first row."""

    def sample(self, name: str, sample: Sample, advance: ProgressCallback) -> Iterator[str]:
        """The texts of a field of the train split in the rows of a sample, in order."""

    def encode(
        self,
        split: str,
        encoder: Encoder,
        shards: Sequence[Shard],
        reasons: np.ndarray | None,
        folder: Path,
        advance: ProgressCallback,
    ) -> Iterator[tuple[Shard, ShardRecord]]:
        """Write the shards, of the rows that are not excluded; yields each shard when it is written."""


class LocalExecutor:
    """Works in this process: each pass reads the files sequentially; several threads tokenize."""

    resumable = False

    def scan_files(
        self, dataset: Dataset, splits: Sequence[str], names: Sequence[str], advance: ProgressCallback
    ) -> None:
        self.dataset, self.names = dataset, names
        for part in {part for split in splits for name in names for part in dataset.field(split, name).parts}:
            fingerprint(part.location)
            advance(1)

    def count_rows(self, split: str, advance: ProgressCallback) -> int:
        rows = 0
        for lines in chunk_rows(read_rows(self.dataset, split, self.names)):
            rows += len(lines.numbers)
            advance(len(lines.numbers))
        return rows

    def check_rows(self, split: str, advance: ProgressCallback) -> Iterator[tuple[int, RowChecks]]:
        start = 0
        for lines in chunk_rows(read_rows(self.dataset, split, self.names)):
            yield start, self.dataset.cleaning.check_rows(list(zip(*lines.texts, strict=True)))
            start += len(lines.numbers)
            advance(len(lines.numbers))

    def sample(self, name: str, sample: Sample, advance: ProgressCallback) -> Iterator[str]:
        lines = read_lines(self.dataset.field("train", name))
        start = before = 0
        while block := list(islice(lines, BLOCK)):
            yield from compress(block, sample.mask(start, start + len(block), before))
            before += sample.count_included(start, start + len(block))
            start += len(block)
            advance(len(block))

    def encode(
        self,
        split: str,
        encoder: Encoder,
        shards: Sequence[Shard],
        reasons: np.ndarray | None,
        folder: Path,
        advance: ProgressCallback,
    ) -> Iterator[tuple[Shard, ShardRecord]]:
        rows = iter(read_rows(self.dataset, split, self.names))
        for shard in shards:
            shard_rows: Iterator[Row] = islice(rows, shard.end - shard.start)
            if reasons is not None:
                shard_rows = compress(shard_rows, reasons[shard.start : shard.end] == Reason.NONE)
            yield (
                shard,
                write_shard(folder, split, shard.number, self.names, encoder, shard_rows, encode_with_threads, advance),
            )


BLOCK = 5000  # rows that are sampled at a time


def encode_with_threads(encoder: Encoder, lines: Iterable[LineBatch]) -> Iterable[EncodedChunk]:
    """Encode batches in several threads. Most of the time is tokenization, which releases the GIL."""
    return map_in_order(encoder, lines)
