"""What models are judged on: a split of a data set, or a source file and its references."""

import hashlib
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from interlinear.decoding.images import ImageLoader, dataset_images, folder_images, shuffle_images
from seq2seq.errors import DataError, UsageError

if TYPE_CHECKING:
    from interlinear.evaluation.scoring import System
    from seq2seq.alignment import GoldAlignment
    from seq2seq.metrics.metric import Preprocessing, ReferenceSet, Task
    from training.data.dataset import Dataset

MT = "mt"  # the field of machine translations that are to be edited
UNEDITED = "unedited"  # names them where a model is asked for

TEST = "test"  # the split where none is named

Split = Annotated[
    str | None,
    typer.Option(metavar="NAME", show_default=False, help=f"The split of the data set; else {TEST}."),
]
SourceFile = Annotated[
    Path | None,
    typer.Option(
        "--source", exists=True, dir_okay=False, metavar="FILE", show_default=False, help="Text to translate."
    ),
]
ReferenceFiles = Annotated[
    list[Path] | None,
    typer.Option(
        "--reference", exists=True, dir_okay=False, metavar="FILE", show_default=False,
        help="What it should become; several may be given.",
    ),
]  # fmt: skip
MtFile = Annotated[
    Path | None,
    typer.Option(
        "--mt", exists=True, dir_okay=False, metavar="FILE", show_default=False,
        help="Machine translations, line by line those of the source, for a model that edits them.",
    ),
]  # fmt: skip
TokenisedFiles = Annotated[bool, typer.Option("--tokenised", help="Words of the files stand between spaces.")]
Tokenize = Annotated[
    Literal["13a", "none", "intl", "char", "zh"] | None,
    typer.Option(show_default=False, help="How sacrebleu tokenises; else 13a, and none for text that is tokenised."),
]
Lowercase = Annotated[
    bool | None,
    typer.Option("--lowercase/--natural-case", show_default=False, help="Ignore case; else what the data set says."),
]


@dataclass(frozen=True)
class TestSet:
    """Lines to translate, the references of each, and how the text is written.

    texts, pictures: line by line, by field; of the texts the first source comes first, and there are none where the
    outputs are there already. tokenised: the texts, and `target` for the references, whose words stand between spaces.
    gold: the right links of every line, where they are wanted; `no_gold_reason` says why there
    are none. task, language (of the references): None where it is not known.
    """

    name: str
    task: "Task | None"
    texts: Mapping[str, tuple[str, ...]]
    references: tuple[tuple[str, ...], ...]
    tokenised: frozenset[str] = frozenset()
    lowercase: bool = False
    language: str | None = None
    gold: "tuple[GoldAlignment, ...]" = ()
    no_gold_reason: str = "gold alignments come with a data set, as its field 'alignment'"
    pictures: Mapping[str, "Sequence[ImageLoader | None]"] = field(default_factory=dict)

    @property
    def raw(self) -> bool:
        """Whether all of it is as people write it."""
        return not self.tokenised

    @property
    def sources(self) -> tuple[str, ...]:
        """The lines of the first text that is read."""
        return next(iter(self.texts.values()), ())

    @property
    def rows(self) -> int:
        return len(self.references[0])

    @property
    def lines_with_image(self) -> int:
        """The number of lines that have a picture."""
        return sum(any(pictures) for pictures in zip(*self.pictures.values(), strict=True))

    def shuffle_images(self, seed: int) -> "TestSet":
        """The same with every picture at another line. Raises CallError where that cannot be."""
        if not self.pictures:
            raise UsageError("--shuffle-images", f"{self.name} has no pictures that the model reads", "leave it out")
        return replace(self, pictures={name: shuffle_images(own, seed) for name, own in self.pictures.items()})

    @property
    def sha256(self) -> str:
        """The fingerprint of its texts and references (hex)."""
        digest = hashlib.sha256()
        for column in (*self.texts.values(), *self.references):
            digest.update("".join(f"{line}\n" for line in column).encode())
        return digest.hexdigest()

    def unedited(self) -> tuple[str, ...]:
        """The machine translations that are to be edited. Raises CallError where there are none."""
        if MT not in self.texts:
            raise UsageError(
                UNEDITED, f"{self.name} has no machine translations", "name a set for post-editing, or --mt"
            )
        return self.texts[MT]

    def answers(self) -> "ReferenceSet":
        """What outputs are held against."""
        from seq2seq.metrics.metric import ReferenceSet

        return ReferenceSet.from_lines(self.references, self.task, self.gold, self.no_gold_reason)

    def reading(self, tokenize: Tokenize, lowercase: bool | None) -> "Preprocessing":
        """How its text is compared, where the caller does not say otherwise."""
        from seq2seq.metrics.metric import Preprocessing

        if lowercase is None and self.lowercase:
            lowercase = True
        return Preprocessing(tokenize or ("none" if "target" in self.tokenised else "13a"), lowercase, self.language)

    def word_spans(self, text: str) -> list[tuple[int, int]]:
        """Where the words lie that gold links count: between spaces in tokenised text, else words and marks."""
        from seq2seq.text import word_spans

        return word_spans(text) if self.raw else [match.span() for match in re.finditer(r"\S+", text)]

    def gold_alignments(self, dataset: "Dataset", split: str, source: str) -> "Iterator[GoldAlignment]":
        """The right links of every line. Raises DataError: another number of lines, no links, links that point out."""
        from seq2seq.alignment import read_gold_alignment
        from training.data.dataset import read_rows

        rows = read_rows(dataset, split, (source, "target", "alignment"))
        file = dataset.field(split, "alignment").files[0]
        for row, text, reference in zip(rows, self.sources, self.references[0], strict=True):
            where = f"{file}, line {row.number}"
            yield read_gold_alignment(row.texts[-1], where, len(self.word_spans(text)), len(self.word_spans(reference)))


@dataclass(frozen=True)
class TestSetSource:
    """Where the caller has a test set."""

    data: str | None
    split: str | None
    source: Path | None
    references: list[Path]
    data_root: Path | None
    mt: Path | None = None
    image_dir: Path | None = None
    images: Path | None = None
    no_images: bool = False
    tokenised: bool = False

    def read(self, systems: "Sequence[System]", aligned: bool) -> TestSet:
        """The test set, with all that any of the systems reads.

        Its gold alignments are read where it has some and `aligned` says so: where scores of them are asked for, and
        all systems are models. Raises CallError, DataError.
        """
        from seq2seq.metrics.metric import check_line_counts
        from training.data.formats import read_file

        fields = tuple(dict.fromkeys(field for system in systems for field in system.fields))
        pictures = tuple(dict.fromkeys(field for system in systems for field in system.pictures))
        if self.data and not self.source and not self.references:
            if self.tokenised:
                raise UsageError("--tokenised", "the data set says itself how its text is written", "leave it out")
            test_set = self._from_dataset(self.data, fields, pictures, aligned)
        else:
            first = next((system for system in systems if system.generation), systems[0])
            test_set = self._from_files(fields, first.task, first.language)
        if self.mt:
            translations = tuple(read_file(self.mt))
            check_line_counts(str(self.mt), len(translations), test_set.name, test_set.rows)
            extra = {MT} if "target" in test_set.tokenised else set()  # they are written as the references are
            tokenised = test_set.tokenised | extra
            texts = {**test_set.texts, MT: translations}
            test_set = replace(test_set, task="post-edit", texts=texts, tokenised=tokenised)
        if MT in fields and MT not in test_set.texts:
            raise UsageError("--mt", "the model edits machine translations, and there are none", "give --mt FILE")
        if found := self._images(pictures, test_set.rows):
            test_set = replace(test_set, pictures=found)
        return test_set

    def _from_files(self, fields: Sequence[str], task: "Task | None", language: str | None) -> TestSet:
        """A source file and its references, or the references alone."""
        from training.data.formats import read_file

        if self.data or not self.references or (fields and not self.source):
            raise UsageError("--data", "it is not clear what to score on", "give --data, or --source and --reference")
        if len(own := [field for field in fields if field != MT]) > 1:
            raise UsageError("--source", f"{' and '.join(own)} are read, and a file has one of them", "name a data set")
        if self.split:
            raise UsageError("--split", "it is a data set that has splits", "leave it out, or give --data")
        paths = [self.source, *self.references] if self.source else self.references
        columns = [tuple(read_file(path)) for path in paths]
        for path, column in zip(paths, columns, strict=True):
            if len(column) != len(columns[0]):
                raise DataError(
                    f"{paths[0]} and {path}",
                    f"they have {len(columns[0])} and {len(column)} lines",
                    "line i of each must belong together",
                )
        name = (*fields, "source")[0]
        texts = {name: columns.pop(0)} if self.source else {}
        tokenised = frozenset({name, "target"}) if self.tokenised else frozenset[str]()
        return TestSet(str(paths[0]), task, texts, tuple(columns), tokenised, language=language)

    def _images(self, fields: Sequence[str], rows: int) -> "dict[str, list[ImageLoader | None]]":
        """The pictures in the folder, for the first source that is a picture."""
        pictures = folder_images(self.image_dir, self.images)
        if pictures is None or self.no_images:
            return {}
        if not fields:
            raise UsageError("--image-dir", "the model reads no pictures", "leave it out")
        found = list(islice(pictures, rows + 1 if self.images else rows))
        if len(found) != rows:
            raise DataError(str(self.images), f"it does not have {rows} lines", "line i of each must belong together")
        return {fields[0]: found}

    def _from_dataset(self, name: str, fields: Sequence[str], pictures: Sequence[str], aligned: bool) -> TestSet:
        """A split of a data set: these fields, or `source`; the machine translations, if any; and these pictures."""
        from training.data.dataset import open_dataset, read_lines, read_rows

        dataset, split = open_dataset(name, self.data_root), self.split or TEST
        names = [field for field in fields if field != MT] or ["source"]
        if not self.mt and (MT in fields or (dataset.task == "post-edit" and MT in dataset.fields(split))):
            names.append(MT)
        source, target = dataset.field(split, names[0]), dataset.field(split, "target")
        rows = list(read_rows(dataset, split, (*names, "target")))
        *read, reference = (tuple(column) for column in zip(*(row.texts for row in rows), strict=True))
        columns = [reference, *(tuple(read_lines(stream)) for stream in target.reference_fields()[1:])]
        if target.segmentation:  # the model's output has whole words
            columns = [tuple(line.replace(f"{target.segmentation} ", "") for line in column) for column in columns]
        test_set = TestSet(
            f"{dataset.name}, {split}",
            dataset.task,
            dict(zip(names, read, strict=True)),
            tuple(columns),
            frozenset(name for name in (*names, "target") if dataset.field(split, name).tokenised),
            target.lowercase,
            target.language,
            no_gold_reason=f"the split '{split}' of {dataset.name} has no gold alignments",
            pictures={
                name: dataset_images(dataset, split, name, [row.number - 1 for row in rows])
                for name in pictures
                if not (self.image_dir or self.no_images)
            },
        )
        if "alignment" not in dataset.fields(split):
            return test_set
        if not aligned:
            return replace(test_set, no_gold_reason="a file with outputs has no alignments")
        return replace(test_set, gold=tuple(test_set.gold_alignments(dataset, split, source.name)))
