"""`interlinear figure`: figures of attention, gates and alignments, and comparisons of systems."""

from pathlib import Path
from typing import Annotated, Literal

import typer

from interlinear.cli.commands import figure_systems
from interlinear.cli.help import App
from interlinear.cli.options import (
    AlignedBy,
    DataRoot,
    Device,
    FigureFile,
    FontFile,
    ModelName,
    Reverse,
    Symmetrize,
    TokenisedPair,
    Tracking,
)
from interlinear.errors import UsageError

app = App(no_args_is_help=True)

SourceText = Annotated[str, typer.Option("--source", metavar="TEXT", show_default=False, help="The text to translate.")]
TargetText = Annotated[
    str | None,
    typer.Option("--target", metavar="TEXT", show_default=False, help="The output to explain; else the model's own."),
]
# AlignmentKind without `uam-vocabulary`, which has links and no weights of its own.
Matrix = Literal["attention", "words", "gated", "next", "next-words", "next-gated", "posterior", "uam"]


@app.callback()
def figures(output: FigureFile = None, font: FontFile = None) -> None:
    """Draw a model's attention and alignments, or compare systems. Prints the picture's path."""


@app.command()
def attention(
    model: ModelName,
    source: SourceText,
    target: TargetText = None,
    by: Annotated[
        Matrix | None,
        typer.Option("--by", show_default=False, help="Kind of weights, as of `align`; else the best that it has."),
    ] = None,
    nulls: Annotated[
        bool, typer.Option("--nulls", help="Continue with `<null>` after the end, as an alignment module does.")
    ] = False,
    confidence: Annotated[
        bool, typer.Option("--confidence", help="Show the probability of every target word.")
    ] = False,
    output: FigureFile = None,
    font: FontFile = None,
    device: Device = "cpu",
    tracking: Tracking = None,
) -> None:
    """Draw the attention weights of each word of a translation.

    With --nulls the alignment module's predictions are shown in brackets: the words of the whole source vocabulary that
    it predicts as the source of each word, of the end, and of every `<null>` after it (Kiyono et al. 2018, figures 2
    and 3).
    """
    from interlinear.cli.decoding.explanation import explain_output
    from interlinear.figures.grid import Languages
    from interlinear.figures.matrices import attention_matrix

    if confidence and nulls:
        raise UsageError("--confidence", "beside the words are the predictions of --nulls", "leave one of them out")
    kind = by or ("uam" if nulls else None)
    explained = explain_output(model, source, target, kind, device, tracking, nulls)
    languages = Languages.of(explained.card)
    beside = explained.confidences if confidence else explained.predictions
    print(
        attention_matrix(
            explained.explanation, output or Path("attention.png"), explained.matrix, languages, beside, font
        )
    )


@app.command()
def gate(
    model: ModelName,
    source: SourceText,
    target: TargetText = None,
    output: FigureFile = None,
    font: FontFile = None,
    device: Device = "cpu",
    tracking: Tracking = None,
) -> None:
    """Draw 1 - o for every target word: the weight of word attention in a contextual gate."""
    from interlinear.cli.decoding.explanation import explain_output
    from interlinear.figures.matrices import gate_strip

    explained = explain_output(model, source, target, "gated", device, tracking)
    print(gate_strip(explained.explanation, output or Path("gate.png"), explained.card.languages.get("target"), font))


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
        typer.Option(
            "--data", metavar="DATASET[:SPLIT]", show_default=False, help="A data set with gold alignments, instead."
        ),
    ] = None,
    line: Annotated[
        int | None, typer.Option(min=1, metavar="N", show_default=False, help="Number of the pair; else the first.")
    ] = None,
    by: AlignedBy = None,
    reverse: Reverse = None,
    symmetrize: Symmetrize = None,
    tokenised: TokenisedPair = False,
    output: FigureFile = None,
    font: FontFile = None,
    data_root: DataRoot = None,
    device: Device = "cpu",
    tracking: Tracking = None,
) -> None:
    """Draw a model's alignment of a pair over a manual one: of given texts, or of a line of a data set."""
    from interlinear.cli.decoding.alignment import load_aligner
    from interlinear.cli.evaluation.gold_pairs import align_gold_pair, read_gold_pair
    from interlinear.figures.grid import Languages
    from interlinear.figures.matrices import alignment_grid

    gold_pair = read_gold_pair(source, target, gold, data, line, tokenised, data_root)
    aligner = load_aligner(model, by, reverse, symmetrize, gold_pair.tokenised, device, tracking)
    predicted, manual = align_gold_pair(aligner, gold_pair)
    links = [(link.source, link.target) for link in predicted.links]
    languages = Languages.of(aligner.forward.bundle.card)
    print(
        alignment_grid(
            predicted.source, predicted.target, links, manual, output or Path("alignment.png"), languages, font
        )
    )


app.command()(figure_systems.lengths)
app.command()(figure_systems.curves)
app.command()(figure_systems.systems)
