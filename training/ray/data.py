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
from training.data.arrays import write_atomically
from training.data.cleaning import Cleaning, Reason, RowChecks
from training.data.dataset import Dataset, Row, TextField, check_required_images, line_count_error, read_range
from training.data.formats import LineIndex, Part, count_lines, describe_parts
from training.data.prepare.encoding import Encoder, chunk_rows, write_shard
from training.data.prepare.executors import ProgressCallback, Reasons, Sample, Shard, split_into_shards
from training.data.prepare.prepared import ShardRecord
from training.data.uris import cache_fingerprint, file_stat, fingerprint
from training.ray.driver import WorkerGroupConfig, last_error_line, ray_cluster

Item = TypeVar("Item")
Result = TypeVar("Result")


class PickledItem(TypedDict):
    """What passes through Ray Data: something pickled, between processes of one program."""

    content: bytes


def _run_item(item: PickledItem, work: Callable[[Any], Any]) -> PickledItem:
    """One piece of work. An expected error is a result: Ray would wrap it."""
    os.environ["TOKENIZERS_PARALLELISM"] = "false"  # a task has one core
    try:
        result = work(pickle.loads(item["content"]))
    except InterlinearError as error:
        result = error
    return PickledItem(content=pickle.dumps(result))


def map_on_cluster(work: Callable[[Item], Result], items: Sequence[Item]) -> Iterator[Result]:
    """Do the work for every item, as many at a time as the connected cluster has cores; in any order."""
    if not items:
        return
    import ray.data

    logging.getLogger("ray.data").setLevel(logging.ERROR)
    context = ray.data.DataContext.get_current()
    context.enable_progress_bars = False
    pickled = [PickledItem(content=pickle.dumps(item)) for item in items]
    # Tasks and not actors: their processes stay for the next pass, and more of them begin when a node joins.
    results = ray.data.from_items(pickled, override_num_blocks=len(pickled)).map(
        _run_item,  # type: ignore[arg-type]  # Ray's stubs know no further arguments
        fn_kwargs={"work": work},
        num_cpus=1,
    )
    for item in results.iter_rows():
        result = pickle.loads(item["content"])
        if isinstance(result, InterlinearError):
            raise result
        yield result


@contextmanager
def ray_executor(address: str | None) -> "Iterator[RayExecutor]":
    """A road over the cluster at an address, or over one of this process's own. Raises TrainingError."""
    from ray.exceptions import RayError

    try:
        with ray_cluster(WorkerGroupConfig(1, os.cpu_count() or 1, address=address)):
            yield RayExecutor()
    except RayError as error:
        where = address or "Ray"
        raise TrainingError(
            where, f"the Ray cluster failed: {last_error_line(error)}", "the same command goes on"
        ) from error


@dataclass(frozen=True)
class SplitTexts:
    """The texts of a split as every node reads them, their files counted."""

    split: str
    names: tuple[str, ...]
    fields: tuple[TextField, ...]
    line_indexes: tuple[tuple[LineIndex, ...], ...]
    lines: tuple[int, ...] | None  # those that are read, if not all
    rows: int

    def read(self, shard: Shard, mask: np.ndarray | None) -> Iterator[Row]:
        """A shard's rows; those of the mask."""
        if shard.start == shard.end:
            return
        start, end = shard.start, shard.end
        if self.lines is not None:
            start, end = self.lines[start], self.lines[end - 1] + 1
        for place, row in enumerate(read_range(self.fields, self.line_indexes, start, end)):
            if mask is None or mask[place]:
                yield row


@dataclass(frozen=True)
class ShardSelection:
    """A shard, and which of its rows are meant, a bit each; all, where there are none."""

    shard: Shard
    bits: bytes | None = None

    @classmethod
    def of(cls, shard: Shard, mask: np.ndarray | None) -> "ShardSelection":
        return cls(shard, None if mask is None else np.packbits(mask).tobytes())

    @property
    def mask(self) -> np.ndarray | None:
        if self.bits is None:
            return None
        return np.unpackbits(np.frombuffer(self.bits, np.uint8), count=self.shard.end - self.shard.start).astype(bool)


@dataclass(frozen=True)
class EncodedShard:
    """A shard: its record, and its files by name."""

    shard: Shard
    record: ShardRecord
    files: dict[str, bytes]


def _index_file(part: Part) -> tuple[Part, LineIndex, str]:
    return part, count_lines(part), fingerprint(part.location)


@dataclass(frozen=True)
class _CheckRows:
    texts: SplitTexts
    cleaning: Cleaning

    def __call__(self, shard: Shard) -> tuple[Shard, RowChecks]:
        parts = [
            self.cleaning.check_rows(list(zip(*lines.texts, strict=True)))
            for lines in chunk_rows(self.texts.read(shard, None))
        ]
        reasons, hashes = (np.concatenate(column) for column in zip(*parts, strict=True))
        return shard, RowChecks(reasons, hashes)


@dataclass(frozen=True)
class _SampleRows:
    texts: SplitTexts

    def __call__(self, masked: ShardSelection) -> tuple[Shard, list[str]]:
        return masked.shard, [row.texts[0] for row in self.texts.read(masked.shard, masked.mask)]


@dataclass(frozen=True)
class _EncodeRows:
    texts: SplitTexts
    encoder: Encoder

    def __call__(self, masked: ShardSelection) -> EncodedShard:
        with tempfile.TemporaryDirectory() as name:
            folder, shard = Path(name), masked.shard
            rows = self.texts.read(shard, masked.mask)
            record = write_shard(folder, self.texts.split, shard.number, self.texts.names, self.encoder, rows, map)
            return EncodedShard(shard, record, {path.name: path.read_bytes() for path in folder.iterdir()})


class RayExecutor:
    """A connected cluster's nodes."""

    resumable = True

    def scan_files(
        self, dataset: Dataset, splits: Sequence[str], names: Sequence[str], advance: ProgressCallback
    ) -> None:
        """Count and hash the files, each in one task."""
        self.dataset, self.names = dataset, tuple(names)
        fields = {split: [dataset.field(split, name) for name in names] for split in splits}
        parts = {part for of in fields.values() for field in of for part in field.parts}
        known: dict[Part, LineIndex] = {}
        for part, line_index, sha256 in map_on_cluster(
            _index_file, sorted(parts, key=lambda part: -file_stat(part.location)[0])
        ):
            if (size := file_stat(part.location)[0]) != line_index.size:
                raise DataError(
                    str(part.location),
                    f"has {size:,} bytes here, and {line_index.size:,} on a node of the cluster",
                    "every node must see the same files, on a disk that they share or by URI",
                )
            cache_fingerprint(part.location, sha256)
            known[part] = line_index
            advance(1)
        self.texts = {split: self._texts(split, of, known) for split, of in fields.items()}

    def _texts(self, split: str, fields: Sequence[TextField], known: dict[Part, LineIndex]) -> SplitTexts:
        line_indexes = tuple(tuple(known[part] for part in field.parts) for field in fields)
        rows = [sum(one.lines for one in of) for of in line_indexes]
        for field, number in zip(fields, rows, strict=True):
            if not number:
                raise DataError(describe_parts(field.parts), f"the text of '{field.name}' has no lines")
        if len(set(rows)) > 1:
            raise line_count_error(self.dataset, split, fields, line_indexes)
        included_lines = fields[0].included_lines
        check_required_images(self.dataset, split, included_lines, rows[0])
        lines = None if included_lines is None else tuple(sorted(included_lines))
        return SplitTexts(
            split, self.names, tuple(fields), line_indexes, lines, rows[0] if lines is None else len(lines)
        )

    def count_rows(self, split: str, advance: ProgressCallback) -> int:
        advance(self.texts[split].rows)
        return self.texts[split].rows

    def check_rows(self, split: str, advance: ProgressCallback) -> Iterator[tuple[int, RowChecks]]:
        texts = self.texts[split]
        for shard, judged in map_on_cluster(_CheckRows(texts, self.dataset.cleaning), split_into_shards(texts.rows)):
            yield shard.start, judged
            advance(shard.end - shard.start)

    def sample(self, name: str, sample: Sample, advance: ProgressCallback) -> Iterator[str]:
        texts = self.texts["train"]
        place = self.names.index(name)
        mine = SplitTexts(
            "train", (name,), (texts.fields[place],), (texts.line_indexes[place],), texts.lines, texts.rows
        )
        masked, before = [], 0
        for shard in split_into_shards(texts.rows):
            masked.append(ShardSelection.of(shard, sample.mask(shard.start, shard.end, before)))
            before += sample.count_included(shard.start, shard.end)
        with tempfile.TemporaryDirectory() as folder:
            for shard, lines in map_on_cluster(_SampleRows(mine), masked):
                content = "".join(f"{line}\n" for line in lines).encode("utf-8", "surrogatepass")
                (Path(folder) / str(shard.number)).write_bytes(content)
                advance(shard.end - shard.start)
            for one in masked:
                with (Path(folder) / str(one.shard.number)).open("rb") as file:
                    for line in file:
                        yield line.decode("utf-8", "surrogatepass").removesuffix("\n")

    def encode(
        self,
        split: str,
        encoder: Encoder,
        shards: Sequence[Shard],
        reasons: Reasons,
        folder: Path,
        advance: ProgressCallback,
    ) -> Iterator[tuple[Shard, ShardRecord]]:
        masked = [
            ShardSelection.of(shard, None if reasons is None else reasons[shard.start : shard.end] == Reason.NONE)
            for shard in shards
        ]
        for encoded in map_on_cluster(_EncodeRows(self.texts[split], encoder), masked):
            for name, content in encoded.files.items():
                write_atomically(folder / name, content)
            yield encoded.shard, encoded.record
            advance(encoded.record.rows + encoded.record.empty.count + encoded.record.long.count)
