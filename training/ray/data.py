"""Preparing on a Ray cluster, through Ray Data: tasks on its nodes read, clean, draw samples and make shards.

The driver keeps the order: it adds up the files' rows, learns the vocabularies, and writes what the tasks send it, so
that only the files that are read have to be seen by every node. What it has written stays when it ends.
"""

import logging
import os
import pickle
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypedDict, TypeVar

import numpy as np

from seq2seq.errors import DataError, InterlinearError, TrainingError
from training.data.arrays import write_whole
from training.data.cleaning import Cleaning, Judged, Reason
from training.data.dataset import Dataset, Field, Row, check_required, read_range, unequal
from training.data.formats import Counted, Part, count, named
from training.data.prepare.encoding import Encoder, chunks, write_shard
from training.data.prepare.executors import Reasons, Sample, Shard, Step, shards_of
from training.data.prepare.prepared import ShardRecord
from training.data.uris import facts, fingerprint, remember
from training.ray.driver import Group, connected, last_line

Item = TypeVar("Item")
Result = TypeVar("Result")


class Parcel(TypedDict):
    """What passes through Ray Data: something pickled, between processes of one program."""

    content: bytes


def _do(parcel: Parcel, work: Callable[[Any], Any]) -> Parcel:
    """One piece of work. An expected error is a result: Ray would wrap it."""
    os.environ["TOKENIZERS_PARALLELISM"] = "false"  # a task has one core
    try:
        result = work(pickle.loads(parcel["content"]))
    except InterlinearError as error:
        result = error
    return Parcel(content=pickle.dumps(result))


def over_cluster(work: Callable[[Item], Result], items: Sequence[Item]) -> Iterator[Result]:
    """Do the work for every item, as many at a time as the connected cluster has cores; in any order."""
    if not items:
        return
    import ray.data

    logging.getLogger("ray.data").setLevel(logging.ERROR)
    context = ray.data.DataContext.get_current()
    context.enable_progress_bars = False
    parcels = [Parcel(content=pickle.dumps(item)) for item in items]
    # Tasks and not actors: their processes stay for the next pass, and more of them begin when a node joins.
    made = ray.data.from_items(parcels, override_num_blocks=len(parcels)).map(
        _do,  # type: ignore[arg-type]  # Ray's stubs know no further arguments
        fn_kwargs={"work": work},
        num_cpus=1,
    )
    for parcel in made.iter_rows():
        result = pickle.loads(parcel["content"])
        if isinstance(result, InterlinearError):
            raise result
        yield result


@contextmanager
def on_ray(address: str | None) -> "Iterator[OnRay]":
    """A road over the cluster at an address, or over one of this process's own. Raises TrainingError."""
    from ray.exceptions import RayError

    try:
        with connected(Group(1, os.cpu_count() or 1, address=address)):
            yield OnRay()
    except RayError as error:
        where = address or "Ray"
        raise TrainingError(where, f"the Ray cluster failed: {last_line(error)}", "the same command goes on") from error


@dataclass(frozen=True)
class Texts:
    """The texts of a split as every node reads them, their files counted."""

    split: str
    names: tuple[str, ...]
    fields: tuple[Field, ...]
    counted: tuple[tuple[Counted, ...], ...]
    lines: tuple[int, ...] | None  # those that are read, if not all
    rows: int

    def read(self, shard: Shard, mask: np.ndarray | None) -> Iterator[Row]:
        """A shard's rows; those of the mask."""
        if shard.start == shard.end:
            return
        start, end = shard.start, shard.end
        if self.lines is not None:
            start, end = self.lines[start], self.lines[end - 1] + 1
        for place, row in enumerate(read_range(self.fields, self.counted, start, end)):
            if mask is None or mask[place]:
                yield row


@dataclass(frozen=True)
class Masked:
    """A shard, and which of its rows are meant, a bit each; all, where there are none."""

    shard: Shard
    bits: bytes | None = None

    @classmethod
    def of(cls, shard: Shard, mask: np.ndarray | None) -> "Masked":
        return cls(shard, None if mask is None else np.packbits(mask).tobytes())

    @property
    def mask(self) -> np.ndarray | None:
        if self.bits is None:
            return None
        return np.unpackbits(np.frombuffer(self.bits, np.uint8), count=self.shard.end - self.shard.start).astype(bool)


@dataclass(frozen=True)
class Made:
    """A shard: its record, and its files by name."""

    shard: Shard
    record: ShardRecord
    files: dict[str, bytes]


def _look(part: Part) -> tuple[Part, Counted, str]:
    return part, count(part), fingerprint(part.place)


@dataclass(frozen=True)
class _Judging:
    texts: Texts
    cleaning: Cleaning

    def __call__(self, shard: Shard) -> tuple[Shard, Judged]:
        parts = [
            self.cleaning.judge(list(zip(*lines.texts, strict=True))) for lines in chunks(self.texts.read(shard, None))
        ]
        reasons, hashes = (np.concatenate(column) for column in zip(*parts, strict=True))
        return shard, Judged(reasons, hashes)


@dataclass(frozen=True)
class _Sampling:
    texts: Texts

    def __call__(self, masked: Masked) -> tuple[Shard, list[str]]:
        return masked.shard, [row.texts[0] for row in self.texts.read(masked.shard, masked.mask)]


@dataclass(frozen=True)
class _Encoding:
    texts: Texts
    encoder: Encoder

    def __call__(self, masked: Masked) -> Made:
        with tempfile.TemporaryDirectory() as name:
            folder, shard = Path(name), masked.shard
            rows = self.texts.read(shard, masked.mask)
            record = write_shard(folder, self.texts.split, shard.number, self.texts.names, self.encoder, rows, map)
            return Made(shard, record, {path.name: path.read_bytes() for path in folder.iterdir()})


class OnRay:
    """A connected cluster's nodes."""

    resumes = True

    def look(self, dataset: Dataset, splits: Sequence[str], names: Sequence[str], step: Step) -> None:
        """Count and hash the files, each in one task."""
        self.dataset, self.names = dataset, tuple(names)
        fields = {split: [dataset.field(split, name) for name in names] for split in splits}
        parts = {part for of in fields.values() for field in of for part in field.parts}
        known: dict[Part, Counted] = {}
        for part, counted, sha256 in over_cluster(_look, sorted(parts, key=lambda part: -facts(part.place)[0])):
            if (size := facts(part.place)[0]) != counted.size:
                raise DataError(
                    str(part.place),
                    f"has {size:,} bytes here, and {counted.size:,} on a node of the cluster",
                    "every node must see the same files, on a disk that they share or by URI",
                )
            remember(part.place, sha256)
            known[part] = counted
            step(1)
        self.texts = {split: self._texts(split, of, known) for split, of in fields.items()}

    def _texts(self, split: str, fields: Sequence[Field], known: dict[Part, Counted]) -> Texts:
        counted = tuple(tuple(known[part] for part in field.parts) for field in fields)
        rows = [sum(one.lines for one in of) for of in counted]
        for field, number in zip(fields, rows, strict=True):
            if not number:
                raise DataError(named(field.parts), f"the text of '{field.name}' has no lines")
        if len(set(rows)) > 1:
            raise unequal(self.dataset, split, fields, counted)
        kept = fields[0].kept
        check_required(self.dataset, split, kept, rows[0])
        lines = None if kept is None else tuple(sorted(kept))
        return Texts(split, self.names, tuple(fields), counted, lines, rows[0] if lines is None else len(lines))

    def count(self, split: str, step: Step) -> int:
        step(self.texts[split].rows)
        return self.texts[split].rows

    def judge(self, split: str, step: Step) -> Iterator[tuple[int, Judged]]:
        texts = self.texts[split]
        for shard, judged in over_cluster(_Judging(texts, self.dataset.cleaning), shards_of(texts.rows)):
            yield shard.start, judged
            step(shard.end - shard.start)

    def sample(self, name: str, sample: Sample, step: Step) -> Iterator[str]:
        texts = self.texts["train"]
        place = self.names.index(name)
        mine = Texts("train", (name,), (texts.fields[place],), (texts.counted[place],), texts.lines, texts.rows)
        masked, before = [], 0
        for shard in shards_of(texts.rows):
            masked.append(Masked.of(shard, sample.mask(shard.start, shard.end, before)))
            before += sample.kept(shard.start, shard.end)
        with tempfile.TemporaryDirectory() as folder:
            for shard, lines in over_cluster(_Sampling(mine), masked):
                content = "".join(f"{line}\n" for line in lines).encode("utf-8", "surrogatepass")
                (Path(folder) / str(shard.number)).write_bytes(content)
                step(shard.end - shard.start)
            for one in masked:
                with (Path(folder) / str(one.shard.number)).open("rb") as file:
                    for line in file:
                        yield line.decode("utf-8", "surrogatepass").removesuffix("\n")

    def encode(
        self, split: str, encoder: Encoder, shards: Sequence[Shard], reasons: Reasons, folder: Path, step: Step
    ) -> Iterator[tuple[Shard, ShardRecord]]:
        masked = [
            Masked.of(shard, None if reasons is None else reasons[shard.start : shard.end] == Reason.NONE)
            for shard in shards
        ]
        for made in over_cluster(_Encoding(self.texts[split], encoder), masked):
            for name, content in made.files.items():
                write_whole(folder / name, content)
            yield made.shard, made.record
            step(made.record.rows + made.record.empty.count + made.record.long.count)
