"""A corpus made ready once: its vocabularies learned, its pairs turned into ids, its pictures into pixels.

The key is a hash of the texts and of the settings that text depends on, so systems of one corpus share a vocabulary.
Memory does not grow with the corpus: it is read in chunks, and what is made is written as it comes.
"""

import hashlib
import json
import shutil
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Literal
from uuid import uuid4

import numpy as np
from pydantic import ValidationError
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from seq2seq.edits import scripts_of
from seq2seq.errors import DataError, RecipeError
from seq2seq.heap import release_freed_memory
from seq2seq.text import TextConfig, Tokenizer
from training.arrays import GrowingArray, mapped, write_whole
from training.dataset import Dataset, Row, read_lines, read_rows
from training.features import check_made_by
from training.picture_store import Form, StoredRecord, store
from training.pictures import Pictures
from training.prepared import (
    FORMAT,
    TARGET,
    Prepared,
    PreparedRecord,
    Skipped,
    SplitRecord,
    ends_file,
    ids_file,
    lines_file,
    tokenizer_file,
)
from training.threads import in_order

SPLITS = ("train", "dev")
WRITTEN = ("lowercase", "tokenised", "unknown", "segmentation")  # how a text is written
VOCABULARY_LINES = 2_000_000  # a vocabulary is learned from at most so many lines, evenly spread over the corpus
CHUNK_ROWS, CHUNK_CHARACTERS = 500, 250_000  # whichever is reached first


def text_config(
    dataset: Dataset,
    field: str,
    units: Literal["bpe", "words"],
    vocabulary: int,
    lowercase: bool = False,
    operations_on: str | None = None,
) -> TextConfig:
    """A field's text settings: what a recipe makes of it, and how the data set says that it is written.

    Raises DataError where that is impossible, or not the same in train and dev; RecipeError for too small a vocabulary.
    """
    where = f"data set '{dataset.name}', field '{field}'"
    train = dataset.field("train", field)
    if dataset.has("dev"):
        dev = dataset.field("dev", field)
        for trait in ("tokenised", "lowercase", "unknown", "segmentation"):
            if getattr(train, trait) != getattr(dev, trait):
                raise DataError(where, f"train and dev differ in '{trait}'", "write both alike")
    if train.segmentation is not None and not train.tokenised:
        raise DataError(where, "segmented text must be tokenised", "add `tokenised: true`, or remove `segmentation`")
    try:
        return TextConfig(
            units=units,
            vocabulary=vocabulary,
            lowercase=lowercase or train.lowercase,
            tokenised=train.tokenised,
            language=dataset.languages.get(field),
            unknown=train.unknown,
            segmentation=train.segmentation,
            operations_on=operations_on,
        )
    except ValidationError as error:
        raise RecipeError(field, error.errors()[0]["msg"].removeprefix("Value error, ")) from None


def prepare(
    dataset: Dataset,
    sources: Mapping[str, TextConfig],
    target: TextConfig,
    joint: bool,
    max_length: int,
    folder: Path = Path("prepared"),
    progress: bool = True,
    images: Mapping[str, int | None] | None = None,
) -> Prepared:
    """Make a data set's train and dev splits ready for training, unless that was done before.

    `sources`: those that are text. `images`: those that are pictures, with the pixels a side that they are brought to,
    or None where their features are given. `joint`: one vocabulary, learned from all texts. `max_length`: pairs with
    more tokens in a text (end symbols not counted) are left out, as are pairs whose first source or target is empty;
    both are counted, and told on stderr. Any other source may be absent from a row. The result appears under its name
    only when it is whole.
    Raises DataError, or RecipeError where a joint vocabulary is not possible.
    """
    fields = {**sources, TARGET: target}
    images = images or {}
    if joint:
        _check_alike("joint_vocabulary", fields, ("units", "vocabulary", *WRITTEN))
    if target.operations_on:
        _check_alike("target.operations_on", {target.operations_on: sources[target.operations_on], TARGET: target})
    if not dataset.has("dev"):
        raise DataError(
            str(dataset.where), "has no split 'dev', which tells training when to stop", "add `dev:` below `splits:`"
        )
    pictures = {split: {name: Pictures(dataset.image(split, name)) for name in images} for split in SPLITS}
    forms = {name: _form(name, size, pictures) for name, size in images.items()}
    fingerprints = {split: dataset.fingerprint(split, list(fields)) for split in SPLITS}
    for split, by_name in pictures.items():
        for name, of in by_name.items():
            fingerprints[f"{split}.{name}"] = of.fingerprint(given=images[name] is None)
    settings = {
        "format": FORMAT,
        "fingerprints": fingerprints,
        "fields": {name: config.model_dump() for name, config in fields.items()},
        "joint": joint,
        "max_length": max_length,
    }
    if images:
        settings["images"] = dict(images)
    key = hashlib.sha256(json.dumps(settings, sort_keys=True).encode()).hexdigest()
    final = folder / f"{dataset.name}-{key[:16]}"
    if final.exists():
        return Prepared.load(final)
    unfinished = folder / f".{final.name}.{uuid4().hex[:8]}"
    try:
        unfinished.mkdir(parents=True)
        work = _Work(dataset, fields, joint, max_length, unfinished, progress, forms, pictures)
        splits = work.done()
        record = PreparedRecord(
            key=key,
            dataset=dataset.name,
            languages={name: code for name, code in dataset.languages.items() if name in fields},
            sources=dict(sources),
            target=target,
            joint=joint,
            max_length=max_length,
            fingerprints=fingerprints,
            splits=splits,
            files={path.name: path.stat().st_size for path in sorted(unfinished.iterdir())},
            images=forms,
        )
        write_whole(unfinished / "prepared.json", record.model_dump_json(indent=2).encode())
        _publish(unfinished, final)
    except OSError as error:
        raise DataError(
            str(folder), f"cannot be written: {error.strerror or error}", "make room, or prepare in another folder"
        ) from error
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)
    for name, made in splits.items():
        _tell_skipped(name, made, max_length)
        _tell_absent(name, made)
    return Prepared.load(final)


def _form(name: str, size: int | None, pictures: Mapping[str, Mapping[str, Pictures]]) -> Form:
    """What is stored of an image source. Raises DataError where the splits' features are not of one network."""
    if size is not None:
        return size
    train, dev = (pictures[split][name].given for split in SPLITS)
    check_made_by(train.grid, dev.grid, dev.path, "the split 'train'")
    return train.grid


def _check_alike(key: str, fields: Mapping[str, TextConfig], traits: Sequence[str] = WRITTEN) -> None:
    """Raises RecipeError where a recipe's key needs texts of one kind, and they are not."""
    target = fields[TARGET]
    for name, config in fields.items():
        for trait in traits:
            if getattr(config, trait) != getattr(target, trait):
                raise RecipeError(
                    key,
                    f"'{name}' and 'target' differ in {trait}: {getattr(config, trait)} and {getattr(target, trait)}",
                    f"make them equal, or leave {key} out",
                )


def _publish(unfinished: Path, final: Path) -> None:
    """Give the finished folder its name; where another process was faster, its result is as good."""
    try:
        unfinished.rename(final)
    except OSError:
        if not final.exists():
            raise


def _tell_skipped(split: str, record: SplitRecord, max_length: int) -> None:
    for skipped, why in ((record.empty, "with an empty side"), (record.long, f"longer than {max_length} tokens")):
        if skipped.count:
            pairs = "pair" if skipped.count == 1 else "pairs"
            said = f"{split}: skipped {skipped.count:,} {pairs} {why} (the first in line {skipped.first_line:,})"
            print(said, file=sys.stderr)


def _tell_absent(split: str, record: SplitRecord) -> None:
    for name, rows in record.present.items():
        if rows < record.rows:
            print(f"{split}: {rows:,} of {record.rows:,} pairs have '{name}'", file=sys.stderr)


@dataclass(frozen=True)
class _Lines:
    """Some lines: their numbers, counted from 1, and the texts of every field."""

    numbers: np.ndarray
    texts: list[list[str]]


@dataclass(frozen=True)
class _Chunk:
    """What lines became: for every field the ids of the rows kept and their lengths; the lines kept and left out."""

    read: int
    kept: np.ndarray
    ids: list[np.ndarray]
    lengths: list[np.ndarray]
    empty: list[int]
    long: list[int]


@dataclass(frozen=True)
class _Encoder:
    """Turns lines into ids. The first text and the last, the target, must be there."""

    tokenizers: tuple[Tokenizer, ...]
    max_length: int
    edited: int | None = None  # the text that the target's operations are on

    def __call__(self, lines: _Lines) -> _Chunk:
        ids = [tokenizer.ids(texts) for tokenizer, texts in zip(self.tokenizers, lines.texts, strict=True)]
        if self.edited is not None:
            ids[-1] = [s.ids for s in scripts_of(self.tokenizers[-1], lines.texts[self.edited], lines.texts[-1])]
        lengths = np.array([[len(row) for row in column] for column in ids])
        numbers = lines.numbers
        empty = lengths[[0, -1]].min(axis=0) == 0
        long = (lengths.max(axis=0) > self.max_length) & ~empty
        kept = np.flatnonzero(~(empty | long))
        return _Chunk(
            read=len(numbers),
            kept=numbers[kept],
            ids=[
                np.fromiter(chain.from_iterable(map(column.__getitem__, kept)), dtype_for(tokenizer))
                for column, tokenizer in zip(ids, self.tokenizers, strict=True)
            ],
            lengths=list(lengths[:, kept]),
            empty=numbers[empty].tolist(),
            long=numbers[long].tolist(),
        )


def dtype_for(tokenizer: Tokenizer) -> type[np.unsignedinteger]:
    """The smallest type that holds a vocabulary's ids."""
    return np.uint16 if tokenizer.size <= 1 << 16 else np.uint32


class _Work:
    """The making of one prepared folder."""

    def __init__(
        self,
        dataset: Dataset,
        fields: Mapping[str, TextConfig],
        joint: bool,
        max_length: int,
        folder: Path,
        progress: bool,
        forms: Mapping[str, Form],
        pictures: Mapping[str, Mapping[str, Pictures]],
    ) -> None:
        self.dataset = dataset
        self.forms = forms
        self.pictures = pictures
        self.fields = fields
        self.joint = joint
        self.max_length = max_length
        self.folder = folder
        self.bar = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeRemainingColumn(),
            console=Console(stderr=True),
            disable=not progress,
            transient=True,
        )

    def done(self) -> dict[str, SplitRecord]:
        """Do it: count, learn the vocabularies, write the splits."""
        with self.bar:
            lines = {split: self.count(split) for split in SPLITS}
            tokenizers = self.learn(lines["train"])
            for name, tokenizer in tokenizers.items():
                write_whole(self.folder / tokenizer_file(name), tokenizer.to_json().encode())
            edited = self.fields[TARGET].operations_on
            place = None if edited is None else list(self.fields).index(edited)
            encoder = _Encoder(tuple(tokenizers.values()), self.max_length, place)
            return {split: self.split(split, encoder, lines[split]) for split in SPLITS}

    def count(self, split: str) -> int:
        """The rows of a split; finds at once what cannot be read or does not match."""
        task = self.bar.add_task(f"reading {split}", total=None)
        rows = 0
        for _ in read_rows(self.dataset, split, list(self.fields)):
            rows += 1
            if rows % CHUNK_ROWS == 0:
                self.bar.update(task, completed=rows)
        self.bar.update(task, completed=rows, total=rows)
        return rows

    def learn(self, lines: int) -> dict[str, Tokenizer]:
        """A tokenizer for every field, from the train split."""
        if not self.joint:
            return {
                name: self.learned(self.spread(name, lines, VOCABULARY_LINES), config)
                for name, config in self.fields.items()
            }
        share = VOCABULARY_LINES // len(self.fields)
        texts = chain.from_iterable(self.spread(name, lines, share) for name in self.fields)
        tokenizer = self.learned(texts, self.fields[TARGET])
        return {name: tokenizer.for_language(config.language) for name, config in self.fields.items()}

    def learned(self, texts: Iterator[str], config: TextConfig) -> Tokenizer:
        """A tokenizer; the memory that its words took goes back to the system before the next work begins."""
        tokenizer = Tokenizer.train(texts, config)
        release_freed_memory()
        return tokenizer

    def spread(self, field: str, lines: int, at_most: int) -> Iterator[str]:
        """A field's train text: all of it, or so many lines, evenly spread."""
        task = self.bar.add_task(f"vocabulary of {field}", total=lines)
        for number, line in enumerate(read_lines(self.dataset.field("train", field)), 1):
            if number % CHUNK_ROWS == 0 or number == lines:
                self.bar.update(task, completed=number)
            if lines <= at_most or number * at_most // lines != (number - 1) * at_most // lines:
                yield line

    def split(self, split: str, encoder: _Encoder, lines: int) -> SplitRecord:
        """Write a split's ids. Raises DataError when nothing is left."""
        task = self.bar.add_task(f"encoding {split}", total=lines)
        empty = long = Skipped()
        rows = 0
        ids = [
            GrowingArray(self.folder / ids_file(split, name), dtype_for(tokenizer))
            for name, tokenizer in zip(self.fields, encoder.tokenizers, strict=True)
        ]
        ends = [GrowingArray(self.folder / ends_file(split, name), np.int64) for name in self.fields]
        present = dict.fromkeys(list(self.fields)[:-1], 0)
        kept = GrowingArray(self.folder / lines_file(split), np.int64)
        chunks = _chunks(read_rows(self.dataset, split, list(self.fields)))
        for chunk in in_order(
            encoder, chunks
        ):  # nearly all of the work is the tokenizers', which let other threads run
            for column in range(len(self.fields)):
                ends[column].append(ids[column].size + np.cumsum(chunk.lengths[column], dtype=np.int64))
                ids[column].append(chunk.ids[column])
            for name, lengths in zip(present, chunk.lengths, strict=False):
                present[name] += int((lengths > 0).sum())
            kept.append(chunk.kept - 1)
            rows += len(chunk.kept)
            empty, long = empty.also(chunk.empty), long.also(chunk.long)
            self.bar.update(task, advance=chunk.read)
        for file in (*ids, *ends, kept):
            file.close()
        if not rows:
            raise DataError(
                f"data set '{self.dataset.name}', split '{split}'",
                f"no pair is left: {empty.count:,} with an empty side, {long.count:,} over {self.max_length} tokens",
                "raise training.max_length, or look at the files",
            )
        tokens = {name: file.size for name, file in zip(self.fields, ids, strict=True)}
        stored = self.store(split, lines)
        present |= {name: of.rows for name, of in stored.items()}
        return SplitRecord(
            lines=lines, rows=rows, tokens=tokens, empty=empty, long=long, present=present, pictures=stored
        )

    def store(self, split: str, lines: int) -> dict[str, StoredRecord]:
        """Write the pictures of the rows that were kept."""
        stored = {}
        kept = mapped(self.folder / lines_file(split))
        for name, form in self.forms.items():
            pictures = self.pictures[split][name]
            task = self.bar.add_task(f"{name} of {split}", total=len(pictures.entries))
            if self.dataset.kept(split) is None:  # else reading has seen to it
                pictures.check_lines(lines)
            stored[name] = store(pictures, form, kept, self.folder, split, partial(self.bar.advance, task))
        return stored


def _chunks(rows: Iterable[Row]) -> Iterator[_Lines]:
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


def _lines(rows: list[Row]) -> _Lines:
    return _Lines(
        np.array([row.number for row in rows]),
        [list(column) for column in zip(*(row.texts for row in rows), strict=True)],
    )
