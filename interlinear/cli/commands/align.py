"""`interlinear align`: word alignment of parallel text, by an aligner learned from it or by a model's attention."""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

import typer

from interlinear.cli.console import say
from interlinear.cli.options import AlignedBy, Device, Json, Reverse, Symmetrize, TokenisedPair, Tracking
from interlinear.errors import UsageError

TextFile = Annotated[Path, typer.Option(exists=True, dir_okay=False, metavar="FILE", show_default=False)]


def align(
    source: TextFile,
    target: TextFile,
    model: Annotated[
        str | None,
        typer.Argument(
            metavar="[MODEL]",
            show_default=False,
            help="A bundle's folder, models:/NAME@ALIAS, models:/NAME/VERSION or runs:/ID/model; or a folder made by "
            "--save. Without it, an aligner is learned from the pairs.",
        ),
    ] = None,
    by: AlignedBy = None,
    reverse: Reverse = None,
    symmetrize: Symmetrize = None,
    tokenised: TokenisedPair = False,
    adapt: Annotated[
        bool,
        typer.Option(
            "--adapt", help="First train a copy of MODEL (and of --reverse) on the pairs, for some minutes at most."
        ),
    ] = False,
    save: Annotated[
        Path | None,
        typer.Option(
            metavar="FOLDER",
            show_default=False,
            help="Without MODEL: keep the aligner in this new folder, to align other pairs with it. With --adapt: the "
            "adapted model, and that of --reverse in FOLDER-reverse.",
        ),
    ] = None,
    as_json: Json = False,
    device: Device = "cpu",
    tracking: Tracking = None,
) -> int:
    """Print word alignments of parallel text in Pharaoh format.

    One line a pair; `2-5` says that target word 5 is aligned to source word 2. Words are counted from 0, punctuation
    marks included. A pair with an empty side has an empty line. So has a pair that is too long: it is named on stderr,
    and the exit code is 1 at the end. With --json a line has the words, their positions, and a weight for every link.

    Without MODEL an aligner (a hidden Markov model of both directions) is learned from the pairs themselves. Its links
    are those on which both directions agree; --symmetrize chooses another set. --save keeps it, and MODEL may be its
    folder.

    With MODEL, a translation model, words are aligned by forced decoding: each target word to the source word with the
    largest weight. --by attention, words (attention over the words) and gated (contextual gates) read the step that
    outputs the target word. next, next-words and next-gated read the step after it, which takes the word as its input
    (Chen et al. 2020).

    --adapt first trains a copy of the model on the pairs, guided by the aligner that is learned from them: ten passes,
    and 2,000 updates at most. MODEL itself does not change.

    --by uam reads the alignment module: the source word with the largest weight. With uam-vocabulary it is the best
    word of the whole source vocabulary; a target word whose word is not in its source has no link, and is counted on
    stderr.
    """
    from interlinear.alignment.stored_aligner import is_word_aligner
    from interlinear.cli.decoding.adaptation import adapt_models
    from interlinear.cli.decoding.alignment import align_pairs, load_aligner, print_outcomes, read_pairs
    from interlinear.cli.decoding.statistical_alignment import align_statistically

    pairs = read_pairs(source, target)
    if model is None or is_word_aligner(Path(model)):
        check_unused(
            model,
            {
                "--by": by,
                "--reverse": reverse,
                "--adapt": adapt or None,
                "--device": None if device == "cpu" else device,
            },
        )
        check_save(model, save)
        return print_outcomes(align_statistically(pairs, model, symmetrize, tokenised, save), as_json).code
    check_save(None if adapt else model, save)
    aligner = load_aligner(model, by, reverse, symmetrize, tokenised, device, tracking)
    if adapt:
        listed = list(pairs)
        names = [model, *([reverse] if reverse else [])]
        aligner = adapt_models(aligner, names, listed, save)
        pairs = iter(listed)
    printed = print_outcomes(align_pairs(aligner, pairs), as_json)
    unknown = aligner.unknown
    if unknown.words:
        say(
            f"{unknown.words} target words are unknown to the model, the first in line {unknown.first}: "
            "they are aligned as the unknown word."
        )
    if by == "uam-vocabulary" and printed.unlinked:
        say(
            f"{printed.unlinked} target words have no link: the source does not have the word that the module took "
            "them for."
        )
    return printed.code


def check_unused(model: str | None, options: Mapping[str, object]) -> None:
    """Raises UsageError for an option that needs a translation model."""
    for option, value in options.items():
        if value is not None:
            what = "there is no MODEL" if model is None else f"{model} is an aligner without attention"
            raise UsageError(option, what, "name a translation model, or leave the option out")


def check_save(model: str | None, save: Path | None) -> None:
    """Raises UsageError for a folder that exists, and where nothing is learned that could be saved."""
    if save is None:
        return
    if model is not None:
        raise UsageError("--save", "MODEL is not changed by aligning", "say --adapt, or leave out MODEL")
    for folder in (save, save.with_name(f"{save.name}-reverse")):
        if folder.exists():
            raise UsageError("--save", f"{folder} exists", "name a new folder")
