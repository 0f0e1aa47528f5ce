"""`interlinear figure`: figures of attention, gates and alignments, and comparisons of systems."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from interlinear.commands import figure_systems
from interlinear.decoding.alignment import SentencePair, align_pairs, check_kind, explain, gold_pair, load_aligner
from interlinear.evaluation.test_sets import TEST
from interlinear.options import (
    AlignedBy,
    DataRoot,
    Device,
    FigureFile,
    FontFile,
    ModelName,
    Reverse,
    Split,
    Symmetrize,
    TokenisedPair,
    Tracking,
)
from seq2seq.errors import RequestError, UsageError

if TYPE_CHECKING:
    from seq2seq.generate import SequenceGenerator

app = typer.Typer(help="Draw a model's attention and alignments, or compare systems.", no_args_is_help=True)

SourceText = Annotated[str, typer.Option("--source", metavar="TEXT", show_default=False, help="The text to translate.")]
TargetText = Annotated[
    str | None,
    typer.Option("--target", metavar="TEXT", show_default=False, help="The output to explain; else the model's own."),
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
        Matrix | None, typer.Option("--by", show_default=False, help="Kind of weights; else the attention.")
    ] = None,
    nulls: Annotated[
        bool, typer.Option("--nulls", help="Continue with `<null>` after the end, as an alignment module does.")
    ] = False,
    output: FigureFile = Path("attention.png"),
    font: FontFile = None,
    device: Device = "cpu",
    tracking: Tracking = None,
) -> None:
    """Draw the attention weights of each word of a translation.

    With --nulls the alignment module's predictions are shown in brackets: the words of the whole source vocabulary that
    it predicts as the source of each word, of the end, and of every `<null>` after it (Kiyono et al. 2018, figures 2
    and 3).
    """
    from seq2seq.figures.grid import Languages
    from seq2seq.figures.matrices import attention_matrix

    generation = load(model, tracking, device)
    kind = by or ("uam" if nulls else "attention")
    matrix = check_kind(model, kind, generation.attention_kinds)
    output_text, explanation = explain(generation, source, target)
    guesses: list[str] = []
    if nulls:
        name = generation.bundle.card.model.first_text
        extended = generation.explain_with_nulls({name: source}, output_text)
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
    """Draw 1 - o for every target word: the weight of word attention in a contextual gate."""
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
        int | None, typer.Option(min=1, metavar="N", show_default=False, help="Number of the pair; else the first.")
    ] = None,
    by: AlignedBy = None,
    reverse: Reverse = None,
    symmetrize: Symmetrize = None,
    tokenised: TokenisedPair = False,
    output: FigureFile = Path("alignment.png"),
    font: FontFile = None,
    data_root: DataRoot = None,
    device: Device = "cpu",
    tracking: Tracking = None,
) -> None:
    """Draw a model's alignment of a pair over a manual one: of given texts, or of a line of a data set."""
    from seq2seq.alignment import read_gold_alignment
    from seq2seq.figures.grid import Languages
    from seq2seq.figures.links import alignment_grid

    if data and source is None and target is None and gold is None:
        if tokenised:
            raise UsageError("--tokenised", "the data set says itself how its text is written", "leave it out")
        split, line = split or TEST, line or 1
        pair, links, spaced = gold_pair(data, split, line, data_root)
        location = f"{data}, {split}, line {line}"
    elif source is not None and target is not None and gold is not None and not data:
        for name, option in (("--split", split), ("--line", line)):
            if option is not None:
                raise UsageError(name, "it is a data set that has splits and lines", "leave it out, or give --data")
        for name, text in (("source", source), ("target", target)):
            if not text.strip():
                raise RequestError(name, "the text is empty")
        pair, links, spaced, location = SentencePair(1, source, target), gold, tokenised, "--gold"
    else:
        raise UsageError(
            "figure alignment", "it is not clear what to draw", "give --source, --target and --gold, or --data"
        )
    aligner = load_aligner(model, by, reverse, symmetrize, spaced, device, tracking)
    (outcome,) = align_pairs(aligner, iter([pair]))
    if outcome.problem:
        raise RequestError("the pair", outcome.problem)
    predicted = outcome.alignment
    gold_alignment = read_gold_alignment(links, location, len(predicted.source), len(predicted.target))
    predicted_links = [(link.source, link.target) for link in predicted.links]
    languages = Languages.of(aligner.forward.bundle.card)
    print(alignment_grid(predicted.source, predicted.target, predicted_links, gold_alignment, output, languages, font))


app.command()(figure_systems.lengths)
app.command()(figure_systems.curves)
app.command()(figure_systems.systems)


def load(model: str, tracking: str | None, device: str) -> "SequenceGenerator":
    from interlinear.decoding.model_loading import load_generation

    return load_generation(model, tracking, device)
