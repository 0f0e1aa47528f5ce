"""Data preparation on a Ray cluster with Ray Data: tasks on its nodes read, clean, sample and encode shards.

The driver keeps the order: it counts the files' rows, learns the vocabularies, and writes the results that the tasks
return. Only the input files have to be visible to every node. Finished shards stay when the driver ends.
"""

import logging
import os
import pickle
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, TypedDict, TypeVar

import numpy as np

from interlinear.errors import DataError, InterlinearError, TrainingError
from training.data.arrays import write_atomically
from training.data.cleaning import Cleaning, Reason, RowChecks
from training.data.dataset import Dataset, Row, TextField, check_required_images, line_count_error, read_range
from training.data.formats import LineIndex, Part, count_lines, describe_parts
from training.data.images.feature_extraction import FeatureExtraction, ShardRunner
from training.data.prepare.encoding import Encoder, chunk_rows, write_shard
from training.data.prepare.executors import ProgressCallback, Reasons, Sample, Shard, split_into_shards
from training.data.prepare.prepared import ShardRecord
from training.data.uris import cache_fingerprint, file_stat, fingerprint
from training.ray.cluster import WorkerGroupConfig, last_error_line, ray_cluster

Item = TypeVar("Item")
Result = TypeVar("Result")


class PickledItem(TypedDict):
    """A row of Ray Data: a pickled object, exchanged between processes of the same program."""

    content: bytes


def _run_item(item: PickledItem, work: Callable[[Any], Any]) -> PickledItem:
    """Run one item. An expected error is returned as a result, since Ray would wrap a raised one."""
    os.environ["TOKENIZERS_PARALLELISM"] = "false"  # a task has one core
    try:
        result = work(pickle.loads(item["content"]))
    except InterlinearError as error:
        result = error
    return PickledItem(content=pickle.dumps(result))


def map_on_cluster(work: Callable[[Item], Result], items: Sequence[Item]) -> Iterator[Result]:
    """Apply `work` to every item, as many at a time as the connected cluster has cores; yields results in any order."""
    if not items:
        return
    import ray.data

    logging.getLogger("ray.data").setLevel(logging.ERROR)
    context = ray.data.DataContext.get_current()
    context.enable_progress_bars = False
    pickled = [PickledItem(content=pickle.dumps(item)) for item in items]
    # Tasks instead of actors: their processes are reused for the next pass, and more start when a node joins.
    results = ray.data.from_items(pickled, override_num_blocks=len(pickled)).map(
        _run_item,  # type: ignore[arg-type]  # Ray's stubs do not know the further arguments
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
    """An executor on the cluster at an address, or on a local one of this process. Raises TrainingError."""
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
    """The texts of a split as every node reads them, with the line indexes of their files."""

    split: str
    names: tuple[str, ...]
    fields: tuple[TextField, ...]
    line_indexes: tuple[tuple[LineIndex, ...], ...]
    lines: tuple[int, ...] | None  # the lines that are read; None: all
    rows: int

    def read(self, shard: Shard, mask: np.ndarray | None) -> Iterator[Row]:
        """The rows of a shard; with `mask`, the rows where it is true."""
        if shard.start == shard.end:
            return
        start, end = shard.start, shard.end
        if self.lines is not None:
            start, end = self.lines[start], self.lines[end - 1] + 1
        for index, row in enumerate(read_range(self.fields, self.line_indexes, start, end)):
            if mask is None or mask[index]:
                yield row


@dataclass(frozen=True)
class ShardSelection:
    """A shard and a bit mask of the selected rows; None selects all."""

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
    """An encoded shard: its record, and its files' contents by name."""

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

    def __call__(self, selection: ShardSelection) -> tuple[Shard, list[str]]:
        return selection.shard, [row.texts[0] for row in self.texts.read(selection.shard, selection.mask)]


@dataclass(frozen=True)
class _EncodeRows:
    texts: SplitTexts
    encoder: Encoder

    def __call__(self, selection: ShardSelection) -> EncodedShard:
        with tempfile.TemporaryDirectory() as name:
            folder, shard = Path(name), selection.shard
            rows = self.texts.read(shard, selection.mask)
            record = write_shard(folder, self.texts.split, shard.number, self.texts.names, self.encoder, rows, map)
            return EncodedShard(shard, record, {path.name: path.read_bytes() for path in folder.iterdir()})


class RayExecutor:
    """Prepares data on the nodes of the connected cluster."""

    resumable = True

    def scan_files(
        self, dataset: Dataset, splits: Sequence[str], names: Sequence[str], advance: ProgressCallback
    ) -> None:
        """Index and hash the files, each in one task. Raises DataError where a node sees another file than the
        driver."""
        self.dataset, self.names = dataset, tuple(names)
        fields = {split: [dataset.field(split, name) for name in names] for split in splits}
        parts = {part for text_fields in fields.values() for field in text_fields for part in field.parts}
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
        self.texts = {split: self._texts(split, text_fields, known) for split, text_fields in fields.items()}

    def _texts(self, split: str, fields: Sequence[TextField], known: dict[Part, LineIndex]) -> SplitTexts:
        line_indexes = tuple(tuple(known[part] for part in field.parts) for field in fields)
        rows = [sum(line_index.lines for line_index in indexes) for indexes in line_indexes]
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
        for shard, checks in map_on_cluster(_CheckRows(texts, self.dataset.cleaning), split_into_shards(texts.rows)):
            yield shard.start, checks
            advance(shard.end - shard.start)

    def sample(self, name: str, sample: Sample, advance: ProgressCallback) -> Iterator[str]:
        texts = self.texts["train"]
        index = self.names.index(name)
        field_texts = SplitTexts(
            "train", (name,), (texts.fields[index],), (texts.line_indexes[index],), texts.lines, texts.rows
        )
        selections, before = [], 0
        for shard in split_into_shards(texts.rows):
            selections.append(ShardSelection.of(shard, sample.mask(shard.start, shard.end, before)))
            before += sample.count_included(shard.start, shard.end)
        with tempfile.TemporaryDirectory() as folder:
            for shard, lines in map_on_cluster(_SampleRows(field_texts), selections):
                content = "".join(f"{line}\n" for line in lines).encode("utf-8", "surrogatepass")
                (Path(folder) / str(shard.number)).write_bytes(content)
                advance(shard.end - shard.start)
            for selection in selections:
                with (Path(folder) / str(selection.shard.number)).open("rb") as file:
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
        selections = [
            ShardSelection.of(shard, None if reasons is None else reasons[shard.start : shard.end] == Reason.NONE)
            for shard in shards
        ]
        for encoded in map_on_cluster(_EncodeRows(self.texts[split], encoder), selections):
            for name, content in encoded.files.items():
                write_atomically(folder / name, content)
            yield encoded.shard, encoded.record
            advance(encoded.record.rows + encoded.record.empty.count + encoded.record.long.count)


@dataclass(frozen=True)
class ExtractShard:
    """Computes the features of image shards, on one core each, in a process that keeps the network loaded.

    Only the numbers of shards pass through Ray. Images, weights and shards are files that every node must see.
    """

    extraction: FeatureExtraction

    def __call__(self, number: int) -> int:
        import torch

        torch.set_num_threads(1)
        return self.extraction.extract_shard(number)


def extract_on_ray(address: str | None) -> ShardRunner:
    """A runner that computes shards on the cluster at an address, or on a local one of this process."""
    return partial(_shards, address)


def _shards(address: str | None, extraction: FeatureExtraction, numbers: list[int]) -> Iterable[int]:
    if numbers:
        with ray_executor(address):
            yield from map_on_cluster(ExtractShard(extraction), numbers)
