"""`interlinear figure`: pictures of what a model does, and of what systems are worth."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from interlinear.commands.align import AlignedBy, Reverse, SentencePair, Spaced, Symmetrize, check_kind
from interlinear.evaluation import charts
from interlinear.evaluation.test_sets import TEST, Split
from interlinear.options import DataRoot, Device, FigureFile, FontFile, ModelName, Tracking
from seq2seq.errors import RequestError, UsageError

if TYPE_CHECKING:
    from seq2seq.explain import Explanation
    from seq2seq.generate import SequenceGenerator

app = typer.Typer(help="Draw what a model does, or how systems compare.", no_args_is_help=True)

SourceText = Annotated[str, typer.Option("--source", metavar="TEXT", show_default=False, help="The text to translate.")]
TargetText = Annotated[
    str | None,
    typer.Option("--target", metavar="TEXT", show_default=False, help="Look at this output; else at the model's own."),
]
Matrix = Literal["attention", "words", "uam"]


@app.callback()
def figures() -> None:
    """Draw what a model does, or how systems compare. Prints the picture's path."""


@app.command()
def attention(
    model: ModelName,
    source: SourceText,
    target: TargetText = None,
    by: Annotated[
        Matrix | None, typer.Option("--by", show_default=False, help="Which way of looking; else the attention.")
    ] = None,
    nulls: Annotated[
        bool, typer.Option("--nulls", help="Go on over `<null>` behind the end, as an alignment module does.")
    ] = False,
    output: FigureFile = Path("attention.png"),
    font: FontFile = None,
    device: Device = "cpu",
    tracking: Tracking = None,
) -> None:
    """Draw what each word of a translation looked at.

    With --nulls the module's guesses stand in brackets: the words of the whole source vocabulary that it takes for the
    source of each word, of the end, and of every `<null>` behind it (Kiyono et al. 2018, figures 2 and 3).
    """
    from seq2seq.figures.grid import Languages
    from seq2seq.figures.matrices import attention_matrix

    generation = load(model, tracking, device)
    chosen = by or ("uam" if nulls else "attention")
    matrix = check_kind(model, chosen, generation.attention_kinds)
    written, explanation = explain(generation, source, target)
    guesses: list[str] = []
    if nulls:
        name = generation.bundle.card.model.first_text
        extended = generation.explain_with_nulls({name: source}, written)
        explanation, guesses = extended.explanation, extended.source_predictions
    languages = Languages.of(generation.bundle.card)
    print(attention_matrix(explanation, output, matrix, languages, guesses, font))


@app.command()
def gated(
    model: ModelName,
    source: SourceText,
    target: TargetText = None,
    output: FigureFile = Path("gated.png"),
    font: FontFile = None,
    device: Device = "cpu",
    tracking: Tracking = None,
) -> None:
    """Draw the gated attention, o alpha + (1 - o) beta, of a model with contextual gates."""
    from seq2seq.figures.grid import Languages
    from seq2seq.figures.matrices import attention_matrix

    generation = load(model, tracking, device)
    matrix = check_kind(model, "gated", generation.attention_kinds)
    _, explanation = explain(generation, source, target)
    print(attention_matrix(explanation, output, matrix, Languages.of(generation.bundle.card), font=font))


@app.command()
def gate(
    model: ModelName,
    source: SourceText,
    target: TargetText = None,
    output: FigureFile = Path("gate.png"),
    font: FontFile = None,
    device: Device = "cpu",
    tracking: Tracking = None,
) -> None:
    """Draw 1 - o for every target word: how much a contextual gate let in from the words."""
    from seq2seq.figures.matrices import gate_strip

    generation = load(model, tracking, device)
    check_kind(model, "gated", generation.attention_kinds)
    _, explanation = explain(generation, source, target)
    print(gate_strip(explanation, output, generation.bundle.card.languages.get("target"), font))


@app.command()
def alignment(
    model: ModelName,
    source: Annotated[str | None, typer.Option("--source", metavar="TEXT", show_default=False)] = None,
    target: Annotated[str | None, typer.Option("--target", metavar="TEXT", show_default=False)] = None,
    gold: Annotated[
        str | None,
        typer.Option("--gold", metavar="LINKS", show_default=False, help="'0-0 1-2 2?1': sure and possible links."),
    ] = None,
    data: Annotated[
        str | None,
        typer.Option("--data", metavar="DATASET", show_default=False, help="A data set with gold alignments, instead."),
    ] = None,
    split: Split = None,
    line: Annotated[
        int | None, typer.Option(min=1, metavar="N", show_default=False, help="Which of its pairs; else the first.")
    ] = None,
    by: AlignedBy = None,
    reverse: Reverse = None,
    symmetrize: Symmetrize = None,
    tokenised: Spaced = False,
    output: FigureFile = Path("alignment.png"),
    font: FontFile = None,
    data_root: DataRoot = None,
    device: Device = "cpu",
    tracking: Tracking = None,
) -> None:
    """Draw a model's alignment of a pair over the one that people made: of texts, or of a line of a data set."""
    from interlinear.commands.align import align_pairs, load_aligner
    from seq2seq.alignment import read_gold_alignment
    from seq2seq.figures.grid import Languages
    from seq2seq.figures.links import alignment_grid

    if data and source is None and target is None and gold is None:
        if tokenised:
            raise UsageError("--tokenised", "the data set says itself how its text is written", "leave it out")
        split, line = split or TEST, line or 1
        pair, links, spaced = gold_pair(data, split, line, data_root)
        where = f"{data}, {split}, line {line}"
    elif source is not None and target is not None and gold is not None and not data:
        for name, option in (("--split", split), ("--line", line)):
            if option is not None:
                raise UsageError(name, "it is a data set that has splits and lines", "leave it out, or give --data")
        for name, text in (("source", source), ("target", target)):
            if not text.strip():
                raise RequestError(name, "the text is empty")
        pair, links, spaced, where = SentencePair(1, source, target), gold, tokenised, "--gold"
    else:
        raise UsageError(
            "figure alignment", "it is not clear what to draw", "give --source, --target and --gold, or --data"
        )
    aligner = load_aligner(model, by, reverse, symmetrize, spaced, device, tracking)
    (outcome,) = align_pairs(aligner, iter([pair]))
    if outcome.problem:
        raise RequestError("the pair", outcome.problem)
    found = outcome.alignment
    made = read_gold_alignment(links, where, len(found.source), len(found.target))
    ours = [(link.source, link.target) for link in found.links]
    languages = Languages.of(aligner.forward.bundle.card)
    print(alignment_grid(found.source, found.target, ours, made, output, languages, font))


app.command()(charts.lengths)
app.command()(charts.curves)
app.command()(charts.systems)


def load(model: str, tracking: str | None, device: str) -> "SequenceGenerator":
    from interlinear.decoding.model_loading import load_generation

    return load_generation(model, tracking, device)


def gold_pair(data: str, split: str, line: int, root: Path | None) -> tuple[SentencePair, str, bool]:
    """A line of a data set, its gold alignment, and whether it is tokenised. Raises DataError, CallError."""
    from training.data.dataset import open_dataset, read_rows

    dataset = open_dataset(data, root)
    fields = ("source", "target", "alignment")
    row = next((row for row in read_rows(dataset, split, fields) if row.number == line), None)
    if row is None:
        raise UsageError(f"--line {line}", f"{data}, {split} has not so many pairs", "name a smaller number")
    source, target, links = row.texts
    return SentencePair(line, source, target), links, dataset.field(split, "source").tokenised


def explain(generation: "SequenceGenerator", source: str, target: str | None) -> tuple[str, "Explanation"]:
    """An output, given or the model's own, and what it looked at. Raises RequestError for an unreadable text."""
    from seq2seq.generate import Request

    name = generation.bundle.card.model.first_text
    request = Request({name: source}, generation.bundle.card.search, explain=True)
    generation.encode(request)  # a text that cannot be read is refused here, with the reason
    if target is None:
        (answer,) = generation.generate([request])
        assert not isinstance(answer, RequestError) and answer.explanation is not None
        return answer.candidates[0].text, answer.explanation
    if not target.strip():
        raise RequestError("target", "the text is empty")
    (explanation,) = generation.align([(request.texts, target)])
    return target, explanation
