"""Test sets: a split of a data set, or a source file and its references."""

import hashlib
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Protocol

from interlinear.alignment.links import GoldAlignment, read_gold_alignment
from interlinear.cli.decoding.images import ImageLoader, dataset_images, numbered_images, shuffle_images
from interlinear.cli.options import TestSetSource, Tokenize
from interlinear.errors import DataError, UsageError
from interlinear.generation.generator import SequenceGenerator
from interlinear.metrics.metric import Preprocessing, ReferenceSet, Task, check_line_counts, default_tokenization
from interlinear.source_names import MT
from interlinear.text import word_spans
from training.data.dataset import Dataset, open_dataset, read_references, read_rows
from training.data.text_lines import read_file

UNEDITED = "unedited"  # MODEL argument that stands for the unedited machine translations

TEST = "test"  # default split


@dataclass(frozen=True)
class TestSet:
    """Lines to translate, their references, and how the text is written.

    texts, pictures: line by line, by field. The model's first source comes first; there are no texts if outputs are
    read from a file. tokenised: the fields whose words are separated by spaces, with `target` for the references. gold:
    the gold alignment of every line, if it is needed; otherwise `no_gold_reason` states why there is none. task,
    language (of the references): None if unknown.
    """

    name: str
    task: Task | None
    texts: Mapping[str, tuple[str, ...]]
    references: tuple[tuple[str, ...], ...]
    tokenised: frozenset[str] = frozenset()
    lowercase: bool = False
    language: str | None = None
    gold: tuple[GoldAlignment, ...] = ()
    no_gold_reason: str = "gold alignments come with a data set, as its field 'alignment'"
    pictures: Mapping[str, Sequence[ImageLoader | None]] = field(default_factory=dict)

    @property
    def raw(self) -> bool:
        """Whether no field is tokenised."""
        return not self.tokenised

    @property
    def sources(self) -> tuple[str, ...]:
        """The lines of the first text field."""
        return next(iter(self.texts.values()), ())

    @property
    def rows(self) -> int:
        return len(self.references[0])

    @property
    def lines_with_image(self) -> int:
        """The number of lines with an image."""
        return sum(any(pictures) for pictures in zip(*self.pictures.values(), strict=True))

    def shuffle_images(self, seed: int) -> "TestSet":
        """A copy with every image moved to another line. Raises UsageError if that is impossible."""
        if not self.pictures:
            raise UsageError("--shuffle-images", f"{self.name} has no pictures that the model reads", "leave it out")
        return replace(self, pictures={name: shuffle_images(loaders, seed) for name, loaders in self.pictures.items()})

    @property
    def sha256(self) -> str:
        """SHA-256 of the texts and references (hex)."""
        digest = hashlib.sha256()
        for column in (*self.texts.values(), *self.references):
            digest.update("".join(f"{line}\n" for line in column).encode())
        return digest.hexdigest()

    def unedited(self) -> tuple[str, ...]:
        """The machine translations to edit. Raises UsageError if there are none."""
        if MT not in self.texts:
            raise UsageError(
                UNEDITED, f"{self.name} has no machine translations", "name a set for post-editing, or --mt"
            )
        return self.texts[MT]

    def answers(self) -> ReferenceSet:
        """The references in the form that metrics take."""
        return ReferenceSet.from_lines(self.references, self.task, self.gold, self.no_gold_reason, self.sources)

    def reading(self, tokenize: Tokenize, lowercase: bool | None) -> Preprocessing:
        """The preprocessing for metrics: the caller's options, else the test set's."""
        if lowercase is None and self.lowercase:
            lowercase = True
        tokenize = tokenize or default_tokenization(self.language, "target" in self.tokenised)
        return Preprocessing(tokenize, lowercase, self.language)

    def word_spans(self, text: str) -> list[tuple[int, int]]:
        """Character spans of the words that gold links refer to: between spaces in tokenised text, else words and
        punctuation."""
        return word_spans(text) if self.raw else [match.span() for match in re.finditer(r"\S+", text)]

    def gold_alignments(self, dataset: Dataset, split: str, source: str) -> Iterator[GoldAlignment]:
        """The gold alignment of every line. Raises DataError for missing or invalid links and for another number of
        lines."""
        rows = read_rows(dataset, split, (source, "target", "alignment"))
        file = dataset.field(split, "alignment").files[0]
        for row, text, reference in zip(rows, self.sources, self.references[0], strict=True):
            where = f"{file}, line {row.number}"
            yield read_gold_alignment(row.texts[-1], where, len(self.word_spans(text)), len(self.word_spans(reference)))


def parse_dataset_split(on: str) -> tuple[str, str]:
    """Split DATASET[:SPLIT] into a data set and a split (`test` if absent)."""
    match = re.fullmatch(r"(.+):([^:/\\]+)", on)
    return (match[1], match[2]) if match else (on, TEST)


class ReadsFields(Protocol):
    """The properties of a system that a test set depends on: the fields that it reads, its task and its output
    language."""

    @property
    def generation(self) -> SequenceGenerator | None: ...
    @property
    def fields(self) -> tuple[str, ...]: ...
    @property
    def pictures(self) -> tuple[str, ...]: ...
    @property
    def task(self) -> Task | None: ...
    @property
    def language(self) -> str | None: ...


def read_test_set(options: TestSetSource, systems: Sequence[ReadsFields], aligned: bool) -> TestSet:
    """Read the test set with all fields that any of the systems reads.

    Gold alignments are read if the set has them and `aligned` is set, that is, if alignment metrics are requested
    and all systems are models. Raises UsageError, DataError.
    """
    fields = tuple(dict.fromkeys(field for system in systems for field in system.fields))
    pictures = tuple(dict.fromkeys(field for system in systems for field in system.pictures))
    if options.data and not options.source and not options.references:
        if options.tokenised:
            raise UsageError("--tokenised", "the data set says itself how its text is written", "leave it out")
        test_set = from_dataset(options, options.data, fields, pictures, aligned)
    else:
        first = next((system for system in systems if system.generation), systems[0])
        test_set = from_files(options, fields, first.task, first.language)
    if options.mt:
        translations = tuple(read_file(options.mt))
        check_line_counts(str(options.mt), len(translations), test_set.name, test_set.rows)
        extra = {MT} if "target" in test_set.tokenised else set()  # tokenised like the references
        tokenised = test_set.tokenised | extra
        texts = {**test_set.texts, MT: translations}
        test_set = replace(test_set, task="post-edit", texts=texts, tokenised=tokenised)
    if MT in fields and MT not in test_set.texts:
        raise UsageError("--mt", "the model edits machine translations, and there are none", "give --mt FILE")
    if images := read_images(options, pictures, test_set.rows):
        test_set = replace(test_set, pictures=images)
    return test_set


def from_files(options: TestSetSource, fields: Sequence[str], task: Task | None, language: str | None) -> TestSet:
    """A source file and its references, or only references."""
    if options.data or not options.references or (fields and not options.source):
        raise UsageError("--data", "it is not clear what to score on", "give --data, or --source and --reference")
    if len(text_fields := [field for field in fields if field != MT]) > 1:
        raise UsageError(
            "--source", f"{' and '.join(text_fields)} are read, and a file has one of them", "name a data set"
        )
    if options.split:
        raise UsageError("--split", "it is a data set that has splits", "leave it out, or give --data")
    paths = [options.source, *options.references] if options.source else options.references
    columns = [tuple(read_file(path)) for path in paths]
    for path, column in zip(paths, columns, strict=True):
        if len(column) != len(columns[0]):
            raise DataError(
                f"{paths[0]} and {path}",
                f"they have {len(columns[0])} and {len(column)} lines",
                "line i of each must belong together",
            )
    name = (*fields, "source")[0]
    texts = {name: columns.pop(0)} if options.source else {}
    tokenised = frozenset({name, "target"}) if options.tokenised else frozenset[str]()
    return TestSet(str(paths[0]), task, texts, tuple(columns), tokenised, language=language)


def read_images(options: TestSetSource, fields: Sequence[str], rows: int) -> dict[str, list[ImageLoader | None]]:
    """The images in the folder, for the model's first image source."""
    if options.image_dir is None or options.no_images:
        return {}
    if not fields:
        raise UsageError("--image-dir", "the model reads no pictures", "leave it out")
    return {fields[0]: list(islice(numbered_images(options.image_dir), rows))}


def from_dataset(
    options: TestSetSource, name: str, fields: Sequence[str], pictures: Sequence[str], aligned: bool
) -> TestSet:
    """A split of a data set: the given fields (default `source`), the machine translations, if any, and the
    images."""
    dataset, split = open_dataset(name, options.data_root), options.split or TEST
    names = [field for field in fields if field != MT] or ["source"]
    if not options.mt and (MT in fields or (dataset.task == "post-edit" and MT in dataset.fields(split))):
        names.append(MT)
    source, target = dataset.field(split, names[0]), dataset.field(split, "target")
    rows = list(read_rows(dataset, split, (*names, "target")))
    *read, reference = (tuple(column) for column in zip(*(row.texts for row in rows), strict=True))
    test_set = TestSet(
        f"{dataset.name}, {split}",
        dataset.task,
        dict(zip(names, read, strict=True)),
        read_references(dataset, split, reference),
        frozenset(name for name in (*names, "target") if dataset.field(split, name).tokenised),
        target.lowercase,
        target.language,
        no_gold_reason=f"the split '{split}' of {dataset.name} has no gold alignments",
        pictures={
            name: dataset_images(dataset, split, name, [row.number - 1 for row in rows])
            for name in pictures
            if not (options.image_dir or options.no_images)
        },
    )
    if "alignment" not in dataset.fields(split):
        return test_set
    if not aligned:
        return replace(test_set, no_gold_reason="a file with outputs has no alignments")
    return replace(test_set, gold=tuple(test_set.gold_alignments(dataset, split, source.name)))
