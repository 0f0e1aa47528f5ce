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

from training.data.cleaning import Judged, Reason
from training.data.dataset import Dataset, Row, read_lines, read_rows
from training.data.prepare.encoding import Chunk, Encoder, Lines, chunks, write_shard
from training.data.prepare.prepared import ShardRecord
from training.data.thread_pool import in_order

SHARD_ROWS = 1 << 18  # rows of a corpus that a shard is made of; a corpus of fewer is one
SEED = 0  # of the sample

Reasons = np.ndarray | None
"""Why each row is left out (training/data/cleaning.py), 0: it is not; None: no row is."""

Step = Callable[[int], None]
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
    at_most: int
    reasons: Reasons

    def mask(self, start: int, end: int, before: int) -> np.ndarray:
        """Which of the rows from `start` to before `end` are in it; `before` of the rows before them are kept."""
        kept = np.ones(end - start, bool) if self.reasons is None else self.reasons[start:end] == Reason.NONE
        if self.total > self.at_most:
            rank = np.arange(before, before + int(kept.sum()), dtype=np.int64)
            run = rank * self.at_most // self.total
            first, following = (-(-(run + more) * self.total // self.at_most) for more in (0, 1))
            kept[kept] = rank == first + (_random(run) % (following - first).astype(np.uint64)).astype(np.int64)
        return kept

    def kept(self, start: int, end: int) -> int:
        """How many of the rows from `start` to before `end` are kept, in the sample or not."""
        return end - start if self.reasons is None else int((self.reasons[start:end] == Reason.NONE).sum())


def _random(numbers: np.ndarray) -> np.ndarray:
    """64 random bits for each number: SplitMix64 (Steele et al. 2014), which needs no array of them all."""
    bits = (numbers.astype(np.uint64) + np.uint64(SEED + 1)) * np.uint64(0x9E3779B97F4A7C15)
    bits = (bits ^ (bits >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    bits = (bits ^ (bits >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return bits ^ (bits >> np.uint64(31))


def shards_of(rows: int) -> list[Shard]:
    """The shards of so many rows."""
    if rows <= SHARD_ROWS:
        return [Shard(None, 0, rows)]
    return [Shard(n, start, min(start + SHARD_ROWS, rows)) for n, start in enumerate(range(0, rows, SHARD_ROWS))]


class Road(Protocol):
    """The passes over a data set that its preparing needs."""

    resumes: bool  # whether what an end leaves behind is gone on with

    def look(self, dataset: Dataset, splits: Sequence[str], names: Sequence[str], step: Step) -> None:
        """Begin, with a first look at the files of some texts as far as that helps what follows."""

    def count(self, split: str, step: Step) -> int:
        """The rows of a split that are read. Raises DataError for what cannot be read or does not match."""

    def judge(self, split: str, step: Step) -> Iterator[tuple[int, Judged]]:
        """What the data set's cleaning says of all rows, in parts, each with its first row."""

    def sample(self, name: str, sample: Sample, step: Step) -> Iterator[str]:
        """A text of the train split: the rows of a sample, in their order."""

    def encode(
        self,
        split: str,
        encoder: Encoder,
        shards: Sequence[Shard],
        reasons: np.ndarray | None,
        folder: Path,
        step: Step,
    ) -> Iterator[tuple[Shard, ShardRecord]]:
        """Write shards, of the rows that have no reason to be left out."""


class Here:
    """This process: each pass reads the files from begin to end; the tokenizers work in several threads."""

    resumes = False

    def look(self, dataset: Dataset, splits: Sequence[str], names: Sequence[str], step: Step) -> None:
        self.dataset, self.names = dataset, names

    def count(self, split: str, step: Step) -> int:
        rows = 0
        for lines in chunks(read_rows(self.dataset, split, self.names)):
            rows += len(lines.numbers)
            step(len(lines.numbers))
        return rows

    def judge(self, split: str, step: Step) -> Iterator[tuple[int, Judged]]:
        start = 0
        for lines in chunks(read_rows(self.dataset, split, self.names)):
            yield start, self.dataset.cleaning.judge(list(zip(*lines.texts, strict=True)))
            start += len(lines.numbers)
            step(len(lines.numbers))

    def sample(self, name: str, sample: Sample, step: Step) -> Iterator[str]:
        lines = read_lines(self.dataset.field("train", name))
        start = before = 0
        while block := list(islice(lines, BLOCK)):
            yield from compress(block, sample.mask(start, start + len(block), before))
            before += sample.kept(start, start + len(block))
            start += len(block)
            step(len(block))

    def encode(
        self,
        split: str,
        encoder: Encoder,
        shards: Sequence[Shard],
        reasons: np.ndarray | None,
        folder: Path,
        step: Step,
    ) -> Iterator[tuple[Shard, ShardRecord]]:
        rows = iter(read_rows(self.dataset, split, self.names))
        for shard in shards:
            mine: Iterator[Row] = islice(rows, shard.end - shard.start)
            if reasons is not None:
                mine = compress(mine, reasons[shard.start : shard.end] == Reason.NONE)
            yield shard, write_shard(folder, split, shard.number, self.names, encoder, mine, threaded, step)


BLOCK = 5000  # rows of a sample at a time


def threaded(encoder: Encoder, lines: Iterable[Lines]) -> Iterable[Chunk]:
    """The encoder's work by several threads: nearly all of it is the tokenizers', which let others run."""
    return in_order(encoder, lines)
