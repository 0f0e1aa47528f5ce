"""What models are judged on: a split of a data set, or a source file and its references."""

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from seq2seq.errors import CallError, DataError

if TYPE_CHECKING:
    from seq2seq.alignment import Gold
    from seq2seq.metrics.metric import Answers, Reading, Task
    from training.dataset import Dataset

Split = Annotated[str, typer.Option(metavar="NAME", help="The split of the data set.")]
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

    sources: none where the outputs are there already. gold: the right links of every line, where they are wanted;
    `unaligned` says why there are none. task: None where it is not known.
    """

    name: str
    task: "Task | None"
    sources: tuple[str, ...]
    references: tuple[tuple[str, ...], ...]
    raw: bool = True
    lowercase: bool = False
    gold: "tuple[Gold, ...]" = ()
    unaligned: str = "gold alignments come with a data set, as its field 'alignment'"

    def answers(self) -> "Answers":
        """What outputs are held against."""
        from seq2seq.metrics.metric import Answers

        return Answers.of(self.references, self.task, self.gold, self.unaligned)

    def reading(self, tokenize: Tokenize, lowercase: bool | None) -> "Reading":
        """How its text is compared, where the caller does not say otherwise."""
        from seq2seq.metrics.metric import Reading

        if lowercase is None and self.lowercase:
            lowercase = True
        return Reading(tokenize or ("13a" if self.raw else "none"), lowercase)

    def words(self, text: str) -> list[tuple[int, int]]:
        """Where the words lie that gold links count: between spaces in tokenised text, else words and marks."""
        from seq2seq.text import words

        return words(text) if self.raw else [match.span() for match in re.finditer(r"\S+", text)]

    def read_gold(self, dataset: "Dataset", split: str, source: str) -> "Iterator[Gold]":
        """The right links of every line. Raises DataError: another number of lines, no links, links that point out."""
        from seq2seq.alignment import read_gold
        from training.dataset import read_rows

        rows = read_rows(dataset, split, (source, "target", "alignment"))
        file = dataset.field(split, "alignment").files[0]
        for row, text, reference in zip(rows, self.sources, self.references[0], strict=True):
            where = f"{file}, line {row.number}"
            yield read_gold(row.texts[-1], where, len(self.words(text)), len(self.words(reference)))


@dataclass(frozen=True)
class Place:
    """Where the caller has a test set."""

    data: str | None
    split: str
    source: Path | None
    references: list[Path]
    data_root: Path | None

    def read(self, field: str | None, task: "Task | None", aligned: bool) -> TestSet:
        """The test set, for models that read `field` (None: there are none, only outputs). Its gold alignments are read
        where it has some and `aligned` says so: where scores of them are asked for, and all systems are models.

        `task` is what the models are for, where no data set says it. Raises CallError, DataError.
        """
        if self.data and not self.source and not self.references:
            return self._dataset(self.data, field, aligned)
        if self.data or not self.references or (field and not self.source):
            raise CallError("evaluate", "it is not clear what to score on", "give --data, or --source and --reference")
        from training.dataset import read_file

        paths = [self.source, *self.references] if self.source else self.references
        columns = [tuple(read_file(path)) for path in paths]
        for path, column in zip(paths, columns, strict=True):
            if len(column) != len(columns[0]):
                raise DataError(
                    f"{paths[0]} and {path}",
                    f"they have {len(columns[0])} and {len(column)} lines",
                    "line i of each must belong together",
                )
        sources = columns.pop(0) if self.source else ()
        return TestSet(str(paths[0]), task, sources, tuple(columns))

    def _dataset(self, name: str, field: str | None, aligned: bool) -> TestSet:
        """A split of a data set."""
        from training.dataset import open_dataset, read_lines, read_rows

        dataset, split = open_dataset(name, self.data_root), self.split
        source, target = dataset.field(split, field or "source"), dataset.field(split, "target")
        rows = [row.texts for row in read_rows(dataset, split, (source.name, "target"))]
        further = [tuple(read_lines(stream)) for stream in target.streams()[1:]]
        columns = [tuple(reference for _, reference in rows), *further]
        if target.segmentation:  # the model's output has whole words
            columns = [tuple(line.replace(f"{target.segmentation} ", "") for line in column) for column in columns]
        test_set = TestSet(
            f"{dataset.name}, {split}",
            dataset.task,
            tuple(text for text, _ in rows),
            tuple(columns),
            not (target.tokenised or source.tokenised),
            target.lowercase,
            unaligned=f"the split '{split}' of {dataset.name} has no gold alignments",
        )
        if "alignment" not in dataset.fields(split):
            return test_set
        if not aligned:
            return replace(test_set, unaligned="a file with outputs has no alignments")
        return replace(test_set, gold=tuple(test_set.read_gold(dataset, split, source.name)))
