"""The work of a preparation in one folder: cleaning, learning the vocabularies, writing ids and images."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from itertools import chain
from pathlib import Path

import numpy as np
from rich.progress import Progress

from interlinear.errors import DataError
from interlinear.memory_allocator import release_freed_memory
from interlinear.text import TextConfig, Tokenizer
from training.data.arrays import create_memmap, memory_map, write_atomically
from training.data.cleaning import Reason, mark_duplicates
from training.data.dataset import Dataset, read_rows
from training.data.guide.link_sources import LinkSource
from training.data.guide.stored_guide import GuideRecord, TrainingTexts, write_guide
from training.data.images.image_store import ImageForm, StoredImagesRecord, write_images
from training.data.images.images import SplitImages
from training.data.prepare.encoding import Encoder
from training.data.prepare.executors import PrepareExecutor, Sample, Shard, split_into_shards
from training.data.prepare.prepared import (
    SPLITS,
    TARGET,
    ShardRecord,
    Skipped,
    SplitRecord,
    left_out_file,
    lines_file,
    tokenizer_file,
)

VOCABULARY_LINES = 2_000_000  # maximum; vocabularies are learned from a sample of the entire corpus
BLOCK = 1 << 20  # lines whose reasons are counted at a time


class PrepareJob:
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
        """Merge the records of the shards to the split's record, and store its images."""
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

    def write_guide(self, guide: LinkSource, train: SplitRecord) -> GuideRecord:
        """Write the word links between the first text and the target of the training pairs."""
        first, *_ = self.fields
        numbers: Sequence[int | None] = range(len(train.shards)) if train.shards else [None]

        def rows() -> Iterator[tuple[int, str, str]]:
            kept = (int(line) for number in numbers for line in memory_map(self.folder / lines_file("train", number)))
            every = read_rows(self.dataset, "train", [first, TARGET])
            for line in kept:
                yield line, *next((row.texts[0], row.texts[1]) for row in every if row.number - 1 == line)

        tokenizers = [Tokenizer.load(self.folder / tokenizer_file(name)) for name in (first, TARGET)]
        return write_guide(
            self.folder,
            TrainingTexts(rows, *tokenizers),
            guide,
            self.add_progress_task("aligning words", train.rows),
            self.add_progress_task("writing links", train.rows),
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
