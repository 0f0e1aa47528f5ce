"""Preparation of a data set for training: vocabularies are learned, texts become ids, images become pixels.

The result's key is a hash of the texts and of the settings that it depends on, so systems trained on one corpus share a
vocabulary. Memory does not grow with the corpus: it is read in chunks, and results are written as they are computed.
"""

import fcntl
import hashlib
import json
import shutil
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from itertools import chain, combinations
from pathlib import Path
from typing import IO, Literal
from uuid import uuid4

import numpy as np
from pydantic import ValidationError
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from seq2seq.bundle.checksums import checksum
from seq2seq.errors import DataError, RecipeError
from seq2seq.memory_allocator import release_freed_memory
from seq2seq.text import TextConfig, Tokenizer
from training.data.arrays import create_memmap, memory_map, write_atomically
from training.data.cleaning import Cleaning, Reason, mark_duplicates
from training.data.dataset import Dataset
from training.data.formats import describe_parts
from training.data.images.image_features import check_features_match
from training.data.images.image_store import ImageForm, StoredImagesRecord, write_images
from training.data.images.images import SplitImages
from training.data.prepare.encoding import Encoder
from training.data.prepare.executors import LocalExecutor, PrepareExecutor, Sample, Shard, split_into_shards
from training.data.prepare.prepared import (
    TARGET,
    PreparedData,
    PreparedRecord,
    ShardRecord,
    Skipped,
    SplitRecord,
    left_out_file,
    lines_file,
    tokenizer_file,
)

SPLITS = ("train", "dev")
TEXT_TRAITS = ("lowercase", "tokenised", "unknown", "segmentation")  # how a text is written
ARRAYS_VERSION = 1  # version of the arrays' content; a change invalidates all prepared data
VOCABULARY_LINES = 2_000_000  # maximum; vocabularies are learned from a sample of the entire corpus
LOCK = ".lock"
BLOCK = 1 << 20  # lines whose reasons are counted at a time


def text_config(
    dataset: Dataset,
    field: str,
    units: Literal["bpe", "words"],
    vocabulary: int,
    lowercase: bool = False,
    operations_on: str | None = None,
) -> TextConfig:
    """The text settings of a field: what a recipe sets, and how the data set says that the text is written.

    Raises DataError if these are not possible, or differ between train and dev; RecipeError for too small a vocabulary.
    """
    where = f"data set '{dataset.name}', field '{field}'"
    train = dataset.field("train", field)
    if dataset.has_split("dev"):
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


def warn_of_identical_fields(dataset: Dataset, names: Sequence[str]) -> None:
    """Warn on stderr of two fields of a split that are read from the same files: a model would learn to copy."""
    for split in SPLITS:
        for one, other in combinations([dataset.field(split, name) for name in names], 2):
            if one.parts == other.parts:
                where = f"data set '{dataset.name}', split '{split}'"
                print(
                    f"{where}: '{one.name}' and '{other.name}' are one text, {describe_parts(one.parts)}",
                    file=sys.stderr,
                )


def prepare(
    dataset: Dataset,
    sources: Mapping[str, TextConfig],
    target: TextConfig,
    joint: bool,
    max_length: int,
    folder: Path = Path("prepared"),
    progress: bool = True,
    images: Mapping[str, int | None] | None = None,
    executor: PrepareExecutor | None = None,
) -> PreparedData:
    """Prepare a data set's train and dev splits for training, or open them if they are already prepared.

    `sources`: the text sources. `images`: the image sources, with the side length of their pixels, or None for
    precomputed features. `joint`: learn one vocabulary from all texts. `max_length`: the limit of tokens in a text,
    without end symbols. `executor`: where the passes over the data run; default: this process.

    Pairs with a longer text, with an empty first source or target, or rejected by the data set's cleaning are excluded,
    counted, and reported on stderr. Other sources may be absent from a row. The folder gets its name only when it is
    complete. Raises DataError, or RecipeError if a joint vocabulary is not possible.
    """
    fields = {**sources, TARGET: target}
    images = images or {}
    if joint:
        _check_same_settings("joint_vocabulary", fields, ("units", "vocabulary", *TEXT_TRAITS))
    if target.operations_on:
        _check_same_settings(
            "target.operations_on", {target.operations_on: sources[target.operations_on], TARGET: target}
        )
    if not dataset.has_split("dev"):
        raise DataError(
            str(dataset.path), "has no split 'dev', which tells training when to stop", "add `dev:` below `splits:`"
        )
    warn_of_identical_fields(dataset, list(fields))
    split_images = {split: {name: SplitImages(dataset.image(split, name)) for name in images} for split in SPLITS}
    forms = {name: _image_form(name, size, split_images) for name, size in images.items()}
    executor = executor or LocalExecutor()
    console = Console(stderr=True)
    bar = Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
        console=console,
        disable=not (progress and console.is_terminal),  # without a terminal rich would print an empty line
        transient=True,
    )
    with bar:
        scan_task = bar.add_task("files", total=None)
        executor.scan_files(dataset, SPLITS, list(fields), partial(bar.advance, scan_task))
        fingerprints = {split: dataset.fingerprint(split, list(fields)) for split in SPLITS}
        for split, by_name in split_images.items():
            for name, images_of_split in by_name.items():
                fingerprints[f"{split}.{name}"] = images_of_split.fingerprint(precomputed=images[name] is None)
        settings = {
            "format": ARRAYS_VERSION,
            "fingerprints": fingerprints,
            "fields": {name: config.model_dump() for name, config in fields.items()},
            "joint": joint,
            "max_length": max_length,
        }
        if images:
            settings["images"] = dict(images)
        if dataset.cleaning.enabled:
            settings["cleaning"] = dataset.cleaning.model_dump()
        key = hashlib.sha256(json.dumps(settings, sort_keys=True).encode()).hexdigest()
        final = folder / f"{dataset.name}-{key[:16]}"
        if final.exists():
            return PreparedData.load(final).check()
        with _working_folder(final, executor.resumable) as unfinished:
            splits = _PrepareJob(
                dataset, fields, joint, max_length, unfinished, bar, forms, split_images, executor
            ).run()
            files = [path for path in sorted(unfinished.glob("[!.]*")) if path.name != "prepared.json"]
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
                files={path.name: path.stat().st_size for path in files},
                checksums={path.name: checksum(path) for path in files},
                images=forms,
                cleaning=dataset.cleaning,
            )
            write_atomically(unfinished / "prepared.json", record.as_json())
            _publish(unfinished, final)
    for name, split_record in splits.items():
        _print_skipped(name, split_record, max_length, dataset.cleaning)
        _print_absent(name, split_record)
    return PreparedData.load(final)


@contextmanager
def _working_folder(final: Path, resumable: bool) -> Iterator[Path]:
    """A folder to work in, locked by this process. If `resumable`, it has a fixed name and is kept after an
    interruption; else it is temporary."""
    try:
        with _resumable_folder(final) if resumable else _temporary_folder(final) as folder:
            yield folder
    except OSError as error:
        raise DataError(
            str(final.parent),
            f"cannot be written: {error.strerror or error}",
            "make room, or prepare in another folder",
        ) from error


@contextmanager
def _resumable_folder(final: Path) -> Iterator[Path]:
    folder = final.with_name(f".{final.name}.parts")
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / LOCK).open("w") as lock:
        if not _try_lock(lock):
            raise DataError(
                str(final), "is being prepared by another process", "wait for it, or prepare in another folder"
            )
        yield folder


@contextmanager
def _temporary_folder(final: Path) -> Iterator[Path]:
    """A folder of this process, removed at the end."""
    while True:
        folder = final.with_name(f".{final.name}.{uuid4().hex[:8]}")
        folder.mkdir(parents=True)
        try:
            lock = (folder / LOCK).open("w")
        except FileNotFoundError:  # removed by another process before it was locked
            continue
        with lock:
            if not (_try_lock(lock) and (folder / LOCK).exists()):
                continue
            try:
                _remove_stale_folders(final, folder)
                yield folder
            finally:
                shutil.rmtree(folder, ignore_errors=True)
            return


def _try_lock(lock: IO[str]) -> bool:
    """Lock a file unless another process holds the lock. The system releases it however this process ends."""
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _remove_stale_folders(final: Path, own_folder: Path) -> None:
    """Remove the temporary folders of killed processes."""
    for stale in final.parent.iterdir():
        if stale.name.startswith(f".{final.name}.") and not stale.name.endswith(".parts") and stale != own_folder:
            with suppress(OSError):
                stale.rmdir()  # an empty folder, which was not locked yet or never
            with suppress(OSError), (stale / LOCK).open("r+") as lock:
                if _try_lock(lock):
                    shutil.rmtree(stale)


def _image_form(name: str, size: int | None, split_images: Mapping[str, Mapping[str, SplitImages]]) -> ImageForm:
    """How the images of a source are stored. Raises DataError if the features of the splits come from different
    networks."""
    if size is not None:
        return size
    train, dev = (split_images[split][name].precomputed for split in SPLITS)
    check_features_match(train.grid, dev.grid, dev.path, "the split 'train'")
    return train.grid


def _check_same_settings(key: str, fields: Mapping[str, TextConfig], traits: Sequence[str] = TEXT_TRAITS) -> None:
    """Raises RecipeError if texts differ in settings that a recipe's key requires to be equal."""
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
    """Rename the finished folder to its final name. If another process has finished first, its result is kept."""
    (unfinished / LOCK).unlink(missing_ok=True)
    try:
        unfinished.rename(final)
    except OSError:
        if not final.exists():
            raise


def _print_skipped(split: str, record: SplitRecord, max_length: int, cleaning: Cleaning) -> None:
    by_reason = [(skipped, cleaning.describe(Reason[name.upper()])) for name, skipped in record.cleaned.items()]
    by_reason += [(record.empty, "with an empty side"), (record.long, f"longer than {max_length} tokens")]
    for skipped, why in by_reason:
        if skipped.count:
            pairs = "pair" if skipped.count == 1 else "pairs"
            message = f"{split}: skipped {skipped.count:,} {pairs} {why} (the first in line {skipped.first_line:,})"
            print(message, file=sys.stderr)


def _print_absent(split: str, record: SplitRecord) -> None:
    for name, rows in record.present.items():
        if rows < record.rows:
            print(f"{split}: {rows:,} of {record.rows:,} pairs have '{name}'", file=sys.stderr)


class _PrepareJob:
    """The preparation of one folder. With a resumable executor, files that are already complete are kept."""

    def __init__(
        self,
        dataset: Dataset,
        fields: Mapping[str, TextConfig],
        joint: bool,
        max_length: int,
        folder: Path,
        bar: Progress,
        forms: Mapping[str, ImageForm],
        split_images: Mapping[str, Mapping[str, SplitImages]],
        executor: PrepareExecutor,
    ) -> None:
        self.dataset = dataset
        self.forms = forms
        self.split_images = split_images
        self.fields = fields
        self.joint = joint
        self.max_length = max_length
        self.folder = folder
        self.bar = bar
        self.executor = executor

    def run(self) -> dict[str, SplitRecord]:
        """Count the rows, clean, learn the vocabularies, write the splits."""
        lines = {split: self.executor.count_rows(split, self.add_progress_task(f"reading {split}")) for split in SPLITS}
        reasons = self.cleaning_reasons(lines["train"]) if self.dataset.cleaning.enabled else None
        tokenizers = self.tokenizers(lines["train"], reasons)
        operations_source = self.fields[TARGET].operations_on
        operations_index = None if operations_source is None else list(self.fields).index(operations_source)
        encoder = Encoder(tuple(tokenizers.values()), self.max_length, operations_index)
        return {
            split: self.encode_split(split, encoder, lines[split], reasons if split == "train" else None)
            for split in SPLITS
        }

    def add_progress_task(self, description: str, total: int | None = None) -> Callable[[int], None]:
        """Add a progress bar; the returned function advances it."""
        task = self.bar.add_task(description, total=total)
        return lambda count: self.bar.advance(task, count)

    def cleaning_reasons(self, lines: int) -> np.ndarray:
        """Why cleaning excludes each line of train; stored in a file beside the ids."""
        path = self.folder / left_out_file("train")
        if path.exists():
            return memory_map(path)
        temporary, hashes_path = path.with_suffix(".draft"), path.with_suffix(".hashes")
        duplicates = self.dataset.cleaning.duplicates == "drop"
        reasons = create_memmap(temporary, np.uint8, lines)
        hashes = create_memmap(hashes_path, np.uint64, lines if duplicates else 1)
        for start, checks in self.executor.check_rows("train", self.add_progress_task("cleaning train", lines)):
            reasons[start : start + len(checks.reasons)] = checks.reasons
            hashes[start : start + len(checks.hashes)] = checks.hashes
        if duplicates:
            mark_duplicates(hashes.view(np.ndarray), reasons.view(np.ndarray))
        hashes_path.unlink()
        temporary.rename(path)
        return memory_map(path)

    def tokenizers(self, lines: int, reasons: np.ndarray | None) -> dict[str, Tokenizer]:
        """The tokenizer of each field, learned from the train split."""
        files = {name: self.folder / tokenizer_file(name) for name in self.fields}
        if all(path.exists() for path in files.values()):
            return {name: Tokenizer.load(path) for name, path in files.items()}
        total = lines if reasons is None else int((reasons == Reason.NONE).sum())
        tokenizers = self.train_tokenizers(lines, total, reasons)
        for name, tokenizer in tokenizers.items():
            write_atomically(files[name], tokenizer.to_json().encode())
        return tokenizers

    def train_tokenizers(self, lines: int, total: int, reasons: np.ndarray | None) -> dict[str, Tokenizer]:
        """Learn the tokenizers from a sample of the kept rows: `total` of the `lines` rows are kept."""

        def texts(name: str, max_rows: int) -> Iterator[str]:
            advance = self.add_progress_task(f"vocabulary of {name}", lines)
            return self.executor.sample(name, Sample(total, max_rows, reasons), advance)

        if not self.joint:
            return {
                name: train_tokenizer(texts(name, VOCABULARY_LINES), config) for name, config in self.fields.items()
            }
        share = VOCABULARY_LINES // len(self.fields)
        tokenizer = train_tokenizer(
            chain.from_iterable(texts(name, share) for name in self.fields), self.fields[TARGET]
        )
        return {name: tokenizer.for_language(config.language) for name, config in self.fields.items()}

    def encode_split(self, split: str, encoder: Encoder, lines: int, reasons: np.ndarray | None) -> SplitRecord:
        """Write the ids of a split. Raises DataError if no pair is left."""
        cleaned = {} if reasons is None else count_skipped(reasons, self.dataset.included_lines(split))
        remaining = lines - sum(skipped.count for skipped in cleaned.values())
        advance = self.add_progress_task(f"encoding {split}", remaining)
        all_shards, shard_records = split_into_shards(lines), dict[Shard, ShardRecord]()
        for shard in all_shards:
            if (marker := self.shard_marker(split, shard)).exists():
                shard_records[shard] = ShardRecord.model_validate_json(marker.read_bytes())
                advance(shard_records[shard].rows + shard_records[shard].empty.count + shard_records[shard].long.count)
        missing = [shard for shard in all_shards if shard not in shard_records]
        for shard, record in self.executor.encode(split, encoder, missing, reasons, self.folder, advance):
            shard_records[shard] = record
            if self.executor.resumable:
                write_atomically(self.shard_marker(split, shard), record.model_dump_json().encode())
        for shard in all_shards:
            self.shard_marker(split, shard).unlink(missing_ok=True)
        return self.merge_shards(split, [shard_records[shard] for shard in all_shards], lines, cleaned)

    def shard_marker(self, split: str, shard: Shard) -> Path:
        """The file that marks a shard as complete."""
        return self.folder / f".{split}-{shard.number}.json"

    def merge_shards(
        self, split: str, shard_records: Sequence[ShardRecord], lines: int, cleaned: Mapping[str, Skipped]
    ) -> SplitRecord:
        """Combine the records of the shards to that of the split, and store its images."""
        rows = sum(shard_record.rows for shard_record in shard_records)
        empty, long = Skipped(), Skipped()
        for shard_record in shard_records:
            empty, long = empty.merge(shard_record.empty), long.merge(shard_record.long)
        if not rows:
            by_cleaning = sum(skipped.count for skipped in cleaned.values())
            raise DataError(
                f"data set '{self.dataset.name}', split '{split}'",
                f"no pair is left: {empty.count:,} with an empty side, {long.count:,} over {self.max_length} tokens"
                + (f", {by_cleaning:,} left out by cleaning" if by_cleaning else ""),
                "raise training.max_length, or look at the files",
            )
        shards = split_into_shards(lines)
        stored = self.store_images(split, lines, [shard.number for shard in shards])
        present = {
            name: sum(shard_record.present[name] for shard_record in shard_records) for name in list(self.fields)[:-1]
        }
        return SplitRecord(
            lines=lines,
            rows=rows,
            tokens={name: sum(shard_record.tokens[name] for shard_record in shard_records) for name in self.fields},
            empty=empty,
            long=long,
            present=present | {name: images.rows for name, images in stored.items()},
            pictures=stored,
            cleaned=dict(cleaned),
            shards=tuple(shard_record.rows for shard_record in shard_records) if len(shards) > 1 else (),
        )

    def store_images(self, split: str, lines: int, shards: Sequence[int | None]) -> dict[str, StoredImagesRecord]:
        """Write the images of the kept rows."""
        stored = {}
        for name, form in self.forms.items():
            kept_lines = np.concatenate([memory_map(self.folder / lines_file(split, shard)) for shard in shards])
            split_images = self.split_images[split][name]
            advance = self.add_progress_task(f"{name} of {split}", len(split_images.entries))
            if self.dataset.included_lines(split) is None:  # otherwise checked while the rows were read
                split_images.check_lines(lines)
            stored[name] = write_images(split_images, form, kept_lines, self.folder, split, partial(advance, 1))
        return stored


def train_tokenizer(texts: Iterator[str], config: TextConfig) -> Tokenizer:
    """Train a tokenizer, and release the memory of its word counts to the system."""
    tokenizer = Tokenizer.train(texts, config)
    release_freed_memory()
    return tokenizer


def count_skipped(reasons: np.ndarray, read: frozenset[int] | None) -> dict[str, Skipped]:
    """The number of lines excluded for each reason, and the first of them. `read`: the included lines; None: all
    lines."""
    numbers = range(len(reasons)) if read is None else sorted(read)
    skipped = {}
    for reason in list(Reason)[1:]:
        count = first = 0
        for start in range(0, len(reasons), BLOCK):
            lines = np.flatnonzero(reasons[start : start + BLOCK] == reason)
            if len(lines):
                first = first or numbers[start + int(lines[0])] + 1
                count += len(lines)
        if count:
            skipped[reason.name.lower()] = Skipped(count=count, first_line=first)
    return skipped
