"""Where the work of preparing is done: here, reading each file from its begin to its end; or on a cluster, by shards.

Both give the same: a shard is so many rows of the corpus, whoever makes it, and the sample that a vocabulary is learned
from is drawn by the rows' numbers.
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

SHARD_ROWS = 1 << 18  # rows of a corpus that a shard is made of; a corpus of fewer is one
SEED = 0  # of the sample

Reasons = np.ndarray | None
"""Why each row is left out (training/data/cleaning.py), 0: it is not; None: no row is."""

ProgressCallback = Callable[[int], None]
"""Told so many more rows that are done."""


@dataclass(frozen=True)
class Shard:
    """Some of a split's rows, `start` to before `end` of those that are read (from 0); no number: it is all of them."""

    number: int | None
    start: int
    end: int


@dataclass(frozen=True)
class Sample:
    """At most so many of `total` rows that are kept: one of each of equal runs, drawn at random from a seed."""

    total: int
    max_rows: int
    reasons: Reasons

    def mask(self, start: int, end: int, before: int) -> np.ndarray:
        """Which of the rows from `start` to before `end` are in it; `before` of the rows before them are kept."""
        included = np.ones(end - start, bool) if self.reasons is None else self.reasons[start:end] == Reason.NONE
        if self.total > self.max_rows:
            rank = np.arange(before, before + int(included.sum()), dtype=np.int64)
            run = rank * self.max_rows // self.total
            first, following = (-(-(run + more) * self.total // self.max_rows) for more in (0, 1))
            included[included] = rank == first + (_splitmix64(run) % (following - first).astype(np.uint64)).astype(
                np.int64
            )
        return included

    def count_included(self, start: int, end: int) -> int:
        """How many of the rows from `start` to before `end` are kept, in the sample or not."""
        return end - start if self.reasons is None else int((self.reasons[start:end] == Reason.NONE).sum())


def _splitmix64(numbers: np.ndarray) -> np.ndarray:
    """64 random bits for each number: SplitMix64 (Steele et al. 2014), which needs no array of them all."""
    bits = (numbers.astype(np.uint64) + np.uint64(SEED + 1)) * np.uint64(0x9E3779B97F4A7C15)
    bits = (bits ^ (bits >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    bits = (bits ^ (bits >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return bits ^ (bits >> np.uint64(31))


def split_into_shards(rows: int) -> list[Shard]:
    """The shards of so many rows."""
    if rows <= SHARD_ROWS:
        return [Shard(None, 0, rows)]
    return [Shard(n, start, min(start + SHARD_ROWS, rows)) for n, start in enumerate(range(0, rows, SHARD_ROWS))]


class PrepareExecutor(Protocol):
    """The passes over a data set that its preparing needs."""

    resumable: bool  # whether what an end leaves behind is gone on with

    def scan_files(
        self, dataset: Dataset, splits: Sequence[str], names: Sequence[str], advance: ProgressCallback
    ) -> None:
        """Begin, with a first look at the files of some texts as far as that helps what follows."""

    def count_rows(self, split: str, advance: ProgressCallback) -> int:
        """The rows of a split that are read. Raises DataError for what cannot be read or does not match."""

    def check_rows(self, split: str, advance: ProgressCallback) -> Iterator[tuple[int, RowChecks]]:
        """What the data set's cleaning says of all rows, in parts, each with its first row."""

    def sample(self, name: str, sample: Sample, advance: ProgressCallback) -> Iterator[str]:
        """A text of the train split: the rows of a sample, in their order."""

    def encode(
        self,
        split: str,
        encoder: Encoder,
        shards: Sequence[Shard],
        reasons: np.ndarray | None,
        folder: Path,
        advance: ProgressCallback,
    ) -> Iterator[tuple[Shard, ShardRecord]]:
        """Write shards, of the rows that have no reason to be left out."""


class LocalExecutor:
    """This process: each pass reads the files from begin to end; the tokenizers work in several threads."""

    resumable = False

    def scan_files(
        self, dataset: Dataset, splits: Sequence[str], names: Sequence[str], advance: ProgressCallback
    ) -> None:
        self.dataset, self.names = dataset, names

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
            mine: Iterator[Row] = islice(rows, shard.end - shard.start)
            if reasons is not None:
                mine = compress(mine, reasons[shard.start : shard.end] == Reason.NONE)
            yield (
                shard,
                write_shard(folder, split, shard.number, self.names, encoder, mine, encode_with_threads, advance),
            )


BLOCK = 5000  # rows of a sample at a time


def encode_with_threads(encoder: Encoder, lines: Iterable[LineBatch]) -> Iterable[EncodedChunk]:
    """The encoder's work by several threads: nearly all of it is the tokenizers', which let others run."""
    return map_in_order(encoder, lines)
