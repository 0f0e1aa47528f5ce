"""`interlinear evaluate`: what a model scores on a data set's split, or on a source file and its reference."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from interlinear.arguments import DataName, DataRoot, Device, Json, ModelName, Tracking
from interlinear.searching import Asked, BeamSize, LengthPenalty, MaxLength
from interlinear.terminal import progress, say
from interlinear.translate import Line, outcomes
from seq2seq.errors import CallError, DataError

if TYPE_CHECKING:
    from seq2seq.generation import Generation
    from seq2seq.metrics.bleu import Tokenization
    from seq2seq.search import SearchOptions

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
    """Lines to translate, the references of each, and how the text is written."""

    name: str
    sources: tuple[str, ...]
    references: tuple[tuple[str, ...], ...]
    raw: bool
    lowercase: bool

    @property
    def tokenize(self) -> "Tokenization":
        """How sacrebleu should cut this text into words."""
        return "13a" if self.raw else "none"


def evaluate(
    model: ModelName,
    data: DataName = None,
    split: Split = "test",
    source: SourceFile = None,
    reference: ReferenceFiles = None,
    tokenize: Tokenize = None,
    lowercase: Lowercase = None,
    beam_size: BeamSize = None,
    length_penalty: LengthPenalty = None,
    max_length: MaxLength = None,
    output: Annotated[
        Path | None, typer.Option(metavar="FILE", show_default=False, help="Keep the translations there.")
    ] = None,
    as_json: Json = False,
    data_root: DataRoot = None,
    device: Device = "cpu",
    tracking: Tracking = None,
) -> None:
    """Score a model: BLEU with sacrebleu's signature.

    Raw text is scored as it is written, after detokenisation; a data set that says its text is tokenised, as tokens.
    """
    from interlinear.loading import load_generation
    from seq2seq.metrics.bleu import corpus_bleu

    generation = load_generation(model, tracking, device, width=beam_size)
    test_set = read_test_set(generation, data, split, source, reference or [], data_root)
    options = Asked(beam_size, length_penalty, max_length=max_length).over(generation.bundle.card.search)
    hypotheses = translated(generation, test_set, options, "translating")
    if output:
        output.write_text("".join(f"{line}\n" for line in hypotheses), encoding="utf-8")
    ignore_case = test_set.lowercase if lowercase is None else lowercase
    bleu = corpus_bleu(hypotheses, test_set.references, tokenize or test_set.tokenize, ignore_case)
    if as_json:
        print(json.dumps({"bleu": bleu.model_dump()}))
    else:
        print(f"BLEU {bleu.score:.2f}\n{bleu.signature}")


def translated(generation: "Generation", test_set: TestSet, options: "SearchOptions", label: str) -> list[str]:
    """The output for every line; empty where the model cannot read it, which is said with count and first line."""
    lines = [Line(number, f"line {number}", text) for number, text in enumerate(test_set.sources, 1)]
    hypotheses, problems = [], []
    searched = outcomes(generation, iter([lines]), options, raw=test_set.raw)
    for outcome in progress(searched, label, total=len(lines)):
        hypotheses.append(outcome.answer.candidates[0].text if outcome.answer else "")
        if outcome.problem:
            problems.append(outcome)
    if problems:
        first = problems[0]
        say(f"{test_set.name}: {len(problems)} lines count as empty; first {first.line.where}: {first.problem}")
    return hypotheses


def read_test_set(
    generation: "Generation",
    data: str | None,
    split: str,
    source: Path | None,
    references: list[Path],
    data_root: Path | None,
) -> TestSet:
    """What a model shall be scored on, as the caller named it. Raises CallError, DataError."""
    (name,) = generation.bundle.card.model.sources
    if data and not source and not references:
        return from_dataset(data, split, name, data_root)
    if data or not source or not references:
        raise CallError("evaluate", "it is not clear what to score on", "give --data, or --source and --reference")
    from training.dataset import read_file

    sources, *columns = (tuple(read_file(path)) for path in (source, *references))
    for path, column in zip(references, columns, strict=True):
        if len(column) != len(sources):
            raise DataError(
                f"{source} and {path}",
                f"they have {len(sources)} and {len(column)} lines",
                "line i of each must belong together",
            )
    return TestSet(str(source), sources, tuple(columns), raw=True, lowercase=False)


def from_dataset(data: str, split: str, source: str, data_root: Path | None) -> TestSet:
    """A split of a data set."""
    from training.dataset import open_dataset, read_lines, read_rows

    dataset = open_dataset(data, data_root)
    target = dataset.field(split, "target")
    rows = [row.texts for row in read_rows(dataset, split, (source, "target"))]
    further = [tuple(read_lines(stream)) for stream in target.streams()[1:]]
    columns = [tuple(reference for _, reference in rows), *further]
    if target.segmentation:  # the model's output has whole words
        columns = [tuple(line.replace(f"{target.segmentation} ", "") for line in column) for column in columns]
    raw = not (target.tokenised or dataset.field(split, source).tokenised)
    return TestSet(f"{dataset.name}, {split}", tuple(text for text, _ in rows), tuple(columns), raw, target.lowercase)
