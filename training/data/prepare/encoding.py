"""Encoding of rows into a shard: arrays of token ids in files. The result does not depend on the executor."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

import numpy as np

from interlinear.text import Tokenizer
from interlinear.text.edits import encode_scripts
from training.data.arrays import GrowingArray
from training.data.dataset import Row
from training.data.prepare.prepared import ShardRecord, Skipped, ends_file, ids_file, lines_file

CHUNK_ROWS, CHUNK_CHARACTERS = 500, 250_000  # limits of a batch: whichever is reached first


@dataclass(frozen=True)
class LineBatch:
    """Some lines: their numbers, from 1, and the texts of each field."""

    numbers: np.ndarray
    texts: list[list[str]]


@dataclass(frozen=True)
class EncodedChunk:
    """An encoded batch: for each field the ids and lengths of the kept rows; and the kept and excluded lines."""

    lines_read: int
    kept_lines: np.ndarray
    ids: list[np.ndarray]
    lengths: list[np.ndarray]
    empty: list[int]
    long: list[int]


ChunkMapper = Callable[["Encoder", Iterable[LineBatch]], Iterable[EncodedChunk]]
"""Applies an encoder to each batch, in order: `map`, or a parallel version of it."""


@dataclass(frozen=True)
class Encoder:
    """Encodes batches of lines. Rows whose first text or last text (the target) is empty are excluded, and rows with
    a text of more than `max_length` tokens."""

    tokenizers: tuple[Tokenizer, ...]
    max_length: int
    operations_source: int | None = None  # index of the text that the target's edit operations apply to

    def __call__(self, lines: LineBatch) -> EncodedChunk:
        ids = [tokenizer.ids(texts) for tokenizer, texts in zip(self.tokenizers, lines.texts, strict=True)]
        if self.operations_source is not None:
            ids[-1] = [
                script.ids
                for script in encode_scripts(self.tokenizers[-1], lines.texts[self.operations_source], lines.texts[-1])
            ]
        lengths = np.array([[len(row) for row in column] for column in ids])
        numbers = lines.numbers
        empty = lengths[[0, -1]].min(axis=0) == 0
        long = (lengths.max(axis=0) > self.max_length) & ~empty
        kept_lines = np.flatnonzero(~(empty | long))
        if len(kept_lines) < len(numbers):
            ids = [[column[row] for row in kept_lines.tolist()] for column in ids]
            lengths = lengths[:, kept_lines]
        return EncodedChunk(
            lines_read=len(numbers),
            kept_lines=numbers[kept_lines],
            ids=[
                np.fromiter(chain.from_iterable(column), id_dtype(tokenizer), count)
                for column, tokenizer, count in zip(ids, self.tokenizers, lengths.sum(axis=1), strict=True)
            ],
            lengths=list(lengths),
            empty=numbers[empty].tolist(),
            long=numbers[long].tolist(),
        )


def id_dtype(tokenizer: Tokenizer) -> type[np.unsignedinteger]:
    """The smallest type that holds the ids of a vocabulary."""
    return np.uint16 if tokenizer.size <= 1 << 16 else np.uint32


def write_shard(
    folder: Path,
    split: str,
    shard: int | None,
    names: Sequence[str],
    encoder: Encoder,
    rows: Iterable[Row],
    work: ChunkMapper,
    advance: Callable[[int], None] = lambda _: None,
) -> ShardRecord:
    """Encode rows and write the shard's files; `names` are the fields of their texts. `advance` receives the number
    of rows just read."""
    empty = long = Skipped()
    count = 0
    ids = [
        GrowingArray(folder / ids_file(split, name, shard), id_dtype(tokenizer))
        for name, tokenizer in zip(names, encoder.tokenizers, strict=True)
    ]
    ends = [GrowingArray(folder / ends_file(split, name, shard), np.int64) for name in names]
    present = dict.fromkeys(names[:-1], 0)
    kept_lines = GrowingArray(folder / lines_file(split, shard), np.int64)
    for chunk in work(encoder, chunk_rows(rows)):
        for column in range(len(names)):
            ends[column].append(ids[column].size + np.cumsum(chunk.lengths[column], dtype=np.int64))
            ids[column].append(chunk.ids[column])
        for name, lengths in zip(present, chunk.lengths, strict=False):
            present[name] += int((lengths > 0).sum())
        kept_lines.append(chunk.kept_lines - 1)
        count += len(chunk.kept_lines)
        empty, long = empty.with_lines(chunk.empty), long.with_lines(chunk.long)
        advance(chunk.lines_read)
    for file in (*ids, *ends, kept_lines):
        file.close()
    tokens = {name: file.size for name, file in zip(names, ids, strict=True)}
    return ShardRecord(rows=count, tokens=tokens, empty=empty, long=long, present=present)


def chunk_rows(rows: Iterable[Row]) -> Iterator[LineBatch]:
    """Group rows into batches of at most CHUNK_ROWS rows; one that reaches CHUNK_CHARACTERS ends early."""
    pending: list[Row] = []
    characters = 0
    for row in rows:
        pending.append(row)
        characters += sum(map(len, row.texts))
        if len(pending) == CHUNK_ROWS or characters >= CHUNK_CHARACTERS:
            yield _line_batch(pending)
            pending, characters = [], 0
    if pending:
        yield _line_batch(pending)


def _line_batch(rows: list[Row]) -> LineBatch:
    return LineBatch(
        np.array([row.number for row in rows]),
        [list(column) for column in zip(*(row.texts for row in rows), strict=True)],
    )
