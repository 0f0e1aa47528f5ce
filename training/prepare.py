"""A corpus made ready once: its vocabularies, and its pairs as ids in files that training maps into memory.

    prepared/NAME-KEY/
        prepared.json               what it was made of, what was left out, every file's size
        tokenizer.FIELD.json
        SPLIT.FIELD.ids.npy         all ids, row after row, without begin and end symbols
        SPLIT.FIELD.ends.npy        where each row ends in them

The key is a hash of the texts and of the settings that text depends on, so systems of one corpus share a vocabulary.
Memory does not grow with the corpus: it is read in chunks, and what is made is written as it comes.
"""

import hashlib
import json
import os
import shutil
import sys
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import Literal
from uuid import uuid4

import numpy as np
from pydantic import BaseModel, ConfigDict, ValidationError
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from seq2seq.errors import DataError, RecipeError
from seq2seq.heap import release_freed_memory
from seq2seq.text import TextConfig, Tokenizer
from training.dataset import Dataset, Row, read_lines, read_rows

FORMAT = 1
SPLITS = ("train", "dev")
VOCABULARY_LINES = 2_000_000  # a vocabulary is learned from at most so many lines, evenly spread over the corpus
CHUNK_ROWS, CHUNK_CHARACTERS = 500, 250_000  # whichever is reached first
THREADS = min(len(os.sched_getaffinity(0)), 8)
TARGET = "target"


class Record(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Skipped(Record):
    """Pairs that were left out for one reason; lines are counted from 1."""

    count: int = 0
    first_line: int | None = None

    def also(self, lines: Sequence[int]) -> "Skipped":
        if not lines:
            return self
        return Skipped(count=self.count + len(lines), first_line=self.first_line or lines[0])


class SplitRecord(Record):
    """What became of a split: `lines` were read, `rows` kept, with so many `tokens` (without end symbols) a field."""

    lines: int
    rows: int
    tokens: dict[str, int]
    empty: Skipped
    long: Skipped


class PreparedRecord(Record):
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


class PreparedSplit:
    """The rows of a split, in the order of the corpus, mapped from their files."""

    def __init__(self, folder: Path, name: str, record: SplitRecord) -> None:
        self.record = record
        self._ids = {field: _mapped(folder / ids_file(name, field)) for field in record.tokens}
        self._ends = {field: _mapped(folder / ends_file(name, field)) for field in record.tokens}

    @property
    def rows(self) -> int:
        return self.record.rows

    def lengths(self, field: str) -> np.ndarray:
        """The length of every row, int32, without the end symbol."""
        return np.diff(self._ends[field], prepend=0).astype(np.int32)

    def ids(self, field: str, row: int) -> np.ndarray:
        """One row's ids, without begin and end symbols."""
        ends = self._ends[field]
        return self._ids[field][ends[row - 1] if row else 0 : ends[row]]


@dataclass(frozen=True)
class Prepared:
    """A folder of prepared data."""

    folder: Path
    record: PreparedRecord

    @classmethod
    def load(cls, folder: Path) -> "Prepared":
        """Open what `prepare` made. Raises DataError with the name of a file that is missing or not whole."""
        again = f"remove {folder} and prepare again"
        path = folder / "prepared.json"
        try:
            content = json.loads(path.read_text(encoding="utf-8"))
            if content.get("format", 0) > FORMAT:
                raise DataError(str(path), f"has format {content['format']}, newer than {FORMAT}", "update interlinear")
            record = PreparedRecord.model_validate(content)
        except FileNotFoundError:
            raise DataError(str(path), "is missing, so this is no prepared data", again) from None
        except (OSError, ValueError, AttributeError, ValidationError) as error:
            raise DataError(str(path), f"cannot be read ({type(error).__name__})", again) from None
        for name, size in record.files.items():
            if not (folder / name).is_file():
                raise DataError(str(folder / name), "is missing", again)
            if (found := (folder / name).stat().st_size) != size:
                raise DataError(str(folder / name), f"has {found:,} bytes instead of {size:,}", again)
        return cls(folder, record)

    @cached_property
    def tokenizers(self) -> dict[str, Tokenizer]:
        """The tokenizer of every field."""
        return {name: Tokenizer.load(self.folder / tokenizer_file(name)) for name in (*self.record.sources, TARGET)}

    def split(self, name: str) -> PreparedSplit:
        """`train` or `dev`."""
        return PreparedSplit(self.folder, name, self.record.splits[name])


def tokenizer_file(field: str) -> str:
    return f"tokenizer.{field}.json"


def ids_file(split: str, field: str) -> str:
    return f"{split}.{field}.ids.npy"


def ends_file(split: str, field: str) -> str:
    return f"{split}.{field}.ends.npy"


def _mapped(path: Path) -> np.ndarray:
    """An array that stays in its file; a plain view, since slicing numpy's memmap class is slow."""
    return np.load(path, mmap_mode="r").view(np.ndarray)  # type: ignore[no-any-return]


def text_config(
    dataset: Dataset, field: str, units: Literal["bpe", "words"], vocabulary: int, lowercase: bool = False
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
) -> Prepared:
    """Make a data set's train and dev splits ready for training, unless that was done before.

    `joint`: one vocabulary, learned from all fields. `max_length`: pairs with more tokens on a side (end symbols not
    counted) are left out, as are pairs with an empty side; both are counted, and told on stderr. The result appears
    under its name only when it is whole.
    Raises DataError, or RecipeError where a joint vocabulary is not possible.
    """
    fields = {**sources, TARGET: target}
    if joint:
        _check_joint(fields)
    if not dataset.has("dev"):
        raise DataError(
            str(dataset.where), "has no split 'dev', which tells training when to stop", "add `dev:` below `splits:`"
        )
    fingerprints = {split: dataset.fingerprint(split, list(fields)) for split in SPLITS}
    settings = {
        "format": FORMAT,
        "fingerprints": fingerprints,
        "fields": {name: config.model_dump() for name, config in fields.items()},
        "joint": joint,
        "max_length": max_length,
    }
    key = hashlib.sha256(json.dumps(settings, sort_keys=True).encode()).hexdigest()
    final = folder / f"{dataset.name}-{key[:16]}"
    if final.exists():
        return Prepared.load(final)
    unfinished = folder / f".{final.name}.{uuid4().hex[:8]}"
    try:
        unfinished.mkdir(parents=True)
        work = _Work(dataset, fields, joint, max_length, unfinished, progress)
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
        )
        _write(unfinished / "prepared.json", record.model_dump_json(indent=2).encode())
        _publish(unfinished, final)
    except OSError as error:
        raise DataError(
            str(folder), f"cannot be written: {error.strerror or error}", "make room, or prepare in another folder"
        ) from error
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)
    for name, split in splits.items():
        _tell_skipped(name, split, max_length)
    return Prepared.load(final)


def _check_joint(fields: Mapping[str, TextConfig]) -> None:
    target = fields[TARGET]
    for name, config in fields.items():
        for key in ("units", "vocabulary", "lowercase", "tokenised", "unknown", "segmentation"):
            if getattr(config, key) != getattr(target, key):
                raise RecipeError(
                    "joint_vocabulary",
                    f"'{name}' and 'target' differ in {key}: {getattr(config, key)} and {getattr(target, key)}",
                    "make them equal, or set joint_vocabulary: false",
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


@dataclass(frozen=True)
class _Lines:
    """Lines that follow each other: the number of the first, and the texts of every field."""

    first: int
    texts: list[list[str]]


@dataclass(frozen=True)
class _Chunk:
    """What lines became: for every field the ids of the rows kept and their lengths; and the lines left out."""

    read: int
    ids: list[np.ndarray]
    lengths: list[np.ndarray]
    empty: list[int]
    long: list[int]


@dataclass(frozen=True)
class _Encoder:
    """Turns lines into ids."""

    tokenizers: tuple[Tokenizer, ...]
    max_length: int

    def __call__(self, lines: _Lines) -> _Chunk:
        ids = [tokenizer.ids(texts) for tokenizer, texts in zip(self.tokenizers, lines.texts, strict=True)]
        lengths = np.array([[len(row) for row in column] for column in ids])
        numbers = lines.first + np.arange(lengths.shape[1])
        empty = lengths.min(axis=0) == 0
        long = (lengths.max(axis=0) > self.max_length) & ~empty
        kept = np.flatnonzero(~(empty | long))
        return _Chunk(
            read=len(numbers),
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
    ) -> None:
        self.dataset = dataset
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
                _write(self.folder / tokenizer_file(name), tokenizer.to_json().encode())
            encoder = _Encoder(tuple(tokenizers.values()), self.max_length)
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
            _ArrayFile(self.folder / ids_file(split, name), dtype_for(tokenizer))
            for name, tokenizer in zip(self.fields, encoder.tokenizers, strict=True)
        ]
        ends = [_ArrayFile(self.folder / ends_file(split, name), np.int64) for name in self.fields]
        chunks = _chunks(read_rows(self.dataset, split, list(self.fields)))
        for chunk in self.encoded(chunks, encoder):
            for column in range(len(self.fields)):
                ends[column].append(ids[column].size + np.cumsum(chunk.lengths[column], dtype=np.int64))
                ids[column].append(chunk.ids[column])
            rows += len(chunk.lengths[0])
            empty, long = empty.also(chunk.empty), long.also(chunk.long)
            self.bar.update(task, advance=chunk.read)
        for file in (*ids, *ends):
            file.close()
        if not rows:
            raise DataError(
                f"data set '{self.dataset.name}', split '{split}'",
                f"no pair is left: {empty.count:,} with an empty side, {long.count:,} over {self.max_length} tokens",
                "raise training.max_length, or look at the files",
            )
        tokens = {name: file.size for name, file in zip(self.fields, ids, strict=True)}
        return SplitRecord(lines=lines, rows=rows, tokens=tokens, empty=empty, long=long)

    def encoded(self, chunks: Iterable[_Lines], encoder: _Encoder) -> Iterator[_Chunk]:
        """The chunks' ids in order, with few chunks at a time in memory.

        By threads: nearly all of the work is the tokenizers', which lets other threads run.
        """
        waiting: deque[Future[_Chunk]] = deque()
        with ThreadPoolExecutor(THREADS) as pool:
            for chunk in chunks:
                waiting.append(pool.submit(encoder, chunk))
                if len(waiting) > 2 * THREADS:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()


def _chunks(rows: Iterable[Row]) -> Iterator[_Lines]:
    texts: list[tuple[str, ...]] = []
    characters = 0
    for row in rows:
        texts.append(row.texts)
        characters += sum(map(len, row.texts))
        if len(texts) == CHUNK_ROWS or characters >= CHUNK_CHARACTERS:
            yield _lines(row.number, texts)
            texts, characters = [], 0
    if texts:
        yield _lines(row.number, texts)


def _lines(last: int, texts: list[tuple[str, ...]]) -> _Lines:
    return _Lines(last - len(texts) + 1, [list(column) for column in zip(*texts, strict=True)])


class _ArrayFile:
    """A one-dimensional .npy file that grows; numpy leaves room in the header for the final length."""

    def __init__(self, path: Path, dtype: type[np.generic]) -> None:
        self.size = 0
        self._dtype = np.dtype(dtype)
        self._file = path.open("wb")
        self._write_header()

    def append(self, values: np.ndarray) -> None:
        self._file.write(np.ascontiguousarray(values, self._dtype).data)
        self.size += len(values)

    def close(self) -> None:
        self._file.seek(0)
        self._write_header()
        self._file.flush()
        os.fsync(self._file.fileno())
        self._file.close()

    def _write_header(self) -> None:
        description = {"descr": self._dtype.str, "fortran_order": False, "shape": (self.size,)}
        np.lib.format.write_array_header_1_0(self._file, description)


def _write(path: Path, content: bytes) -> None:
    with path.open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
