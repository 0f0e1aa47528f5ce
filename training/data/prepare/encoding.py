"""Rows of text become a shard: arrays of ids in files, the same whoever makes them."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

import numpy as np

from seq2seq.text import Tokenizer
from seq2seq.text.edits import scripts_of
from training.data.arrays import GrowingArray
from training.data.dataset import Row
from training.data.prepare.prepared import ShardRecord, Skipped, ends_file, ids_file, lines_file

CHUNK_ROWS, CHUNK_CHARACTERS = 500, 250_000  # whichever is reached first


@dataclass(frozen=True)
class Lines:
    """Some lines: their numbers, counted from 1, and the texts of every field."""

    numbers: np.ndarray
    texts: list[list[str]]


@dataclass(frozen=True)
class Chunk:
    """What lines became: for every field the ids of the rows kept and their lengths; the lines kept and left out."""

    read: int
    kept: np.ndarray
    ids: list[np.ndarray]
    lengths: list[np.ndarray]
    empty: list[int]
    long: list[int]


Work = Callable[["Encoder", Iterable[Lines]], Iterable[Chunk]]
"""Does the encoder's work for every chunk, in order: `map`, or by several threads."""


@dataclass(frozen=True)
class Encoder:
    """Turns lines into ids. The first text and the last, the target, must be there."""

    tokenizers: tuple[Tokenizer, ...]
    max_length: int
    edited: int | None = None  # the text that the target's operations are on

    def __call__(self, lines: Lines) -> Chunk:
        ids = [tokenizer.ids(texts) for tokenizer, texts in zip(self.tokenizers, lines.texts, strict=True)]
        if self.edited is not None:
            ids[-1] = [s.ids for s in scripts_of(self.tokenizers[-1], lines.texts[self.edited], lines.texts[-1])]
        lengths = np.array([[len(row) for row in column] for column in ids])
        numbers = lines.numbers
        empty = lengths[[0, -1]].min(axis=0) == 0
        long = (lengths.max(axis=0) > self.max_length) & ~empty
        kept = np.flatnonzero(~(empty | long))
        if len(kept) < len(numbers):
            ids = [[column[row] for row in kept.tolist()] for column in ids]
            lengths = lengths[:, kept]
        return Chunk(
            read=len(numbers),
            kept=numbers[kept],
            ids=[
                np.fromiter(chain.from_iterable(column), dtype_for(tokenizer), count)
                for column, tokenizer, count in zip(ids, self.tokenizers, lengths.sum(axis=1), strict=True)
            ],
            lengths=list(lengths),
            empty=numbers[empty].tolist(),
            long=numbers[long].tolist(),
        )


def dtype_for(tokenizer: Tokenizer) -> type[np.unsignedinteger]:
    """The smallest type that holds a vocabulary's ids."""
    return np.uint16 if tokenizer.size <= 1 << 16 else np.uint32


def write_shard(
    folder: Path,
    split: str,
    shard: int | None,
    names: Sequence[str],
    encoder: Encoder,
    rows: Iterable[Row],
    work: Work,
    step: Callable[[int], None] = lambda _: None,
) -> ShardRecord:
    """Write the ids of some rows, of the texts with those names; `step` is called with so many rows read."""
    empty = long = Skipped()
    count = 0
    ids = [
        GrowingArray(folder / ids_file(split, name, shard), dtype_for(tokenizer))
        for name, tokenizer in zip(names, encoder.tokenizers, strict=True)
    ]
    ends = [GrowingArray(folder / ends_file(split, name, shard), np.int64) for name in names]
    present = dict.fromkeys(names[:-1], 0)
    kept = GrowingArray(folder / lines_file(split, shard), np.int64)
    for chunk in work(encoder, chunks(rows)):
        for column in range(len(names)):
            ends[column].append(ids[column].size + np.cumsum(chunk.lengths[column], dtype=np.int64))
            ids[column].append(chunk.ids[column])
        for name, lengths in zip(present, chunk.lengths, strict=False):
            present[name] += int((lengths > 0).sum())
        kept.append(chunk.kept - 1)
        count += len(chunk.kept)
        empty, long = empty.also(chunk.empty), long.also(chunk.long)
        step(chunk.read)
    for file in (*ids, *ends, kept):
        file.close()
    tokens = {name: file.size for name, file in zip(names, ids, strict=True)}
    return ShardRecord(rows=count, tokens=tokens, empty=empty, long=long, present=present)


def chunks(rows: Iterable[Row]) -> Iterator[Lines]:
    waiting: list[Row] = []
    characters = 0
    for row in rows:
        waiting.append(row)
        characters += sum(map(len, row.texts))
        if len(waiting) == CHUNK_ROWS or characters >= CHUNK_CHARACTERS:
            yield _lines(waiting)
            waiting, characters = [], 0
    if waiting:
        yield _lines(waiting)


def _lines(rows: list[Row]) -> Lines:
    return Lines(
        np.array([row.number for row in rows]),
        [list(column) for column in zip(*(row.texts for row in rows), strict=True)],
    )
