"""`interlinear align`: word alignment of parallel text by forced decoding."""

import json
from pathlib import Path
from typing import Annotated

import typer

from interlinear.console import FAILED, say
from interlinear.decoding.alignment import AlignmentOutcome, align_pairs, load_aligner, read_pairs
from interlinear.options import AlignedBy, Device, Json, ModelName, Reverse, Symmetrize, TokenisedPair, Tracking

TextFile = Annotated[Path, typer.Option(exists=True, dir_okay=False, metavar="FILE", show_default=False)]


def align(
    model: ModelName,
    source: TextFile,
    target: TextFile,
    by: AlignedBy = None,
    reverse: Reverse = None,
    symmetrize: Symmetrize = None,
    tokenised: TokenisedPair = False,
    as_json: Json = False,
    device: Device = "cpu",
    tracking: Tracking = None,
) -> int:
    """Print word alignments of parallel text in Pharaoh format, by forced decoding.

    One line a pair; `2-5` says that target word 5 is aligned to source word 2, the one with the largest weight. Words
    are counted from 0, punctuation marks included. A pair with an empty side has an empty line. So has a pair that is
    too long: it is named on stderr, and the exit code is 1 at the end. With --json a line has the words, their
    positions, and a weight for every link.

    --by attention, words (attention over the words) and gated (contextual gates) read the step that outputs the target
    word. next, next-words and next-gated read the step after it, which takes the word as its input (Chen et al. 2020).

    --by uam reads the alignment module: the source word with the largest weight. With uam-vocabulary it is the best
    word of the whole source vocabulary; a target word whose word is not in its source has no link, and is counted on
    stderr.
    """
    aligner = load_aligner(model, by, reverse, symmetrize, tokenised, device, tracking)
    failed = unlinked = 0
    for outcome in align_pairs(aligner, read_pairs(source, target)):
        if outcome.problem:
            failed += 1
            say(f"line {outcome.number}: {outcome.problem} The line stays empty.")
        alignment = outcome.alignment
        unlinked += len(alignment.target) - len({link.target for link in alignment.links})
        print(as_record(outcome) if as_json else alignment.pharaoh)
    unknown = aligner.unknown
    if unknown.words:
        say(
            f"{unknown.words} target words are unknown to the model, the first in line {unknown.first}: "
            "they are aligned as the unknown word."
        )
    if by == "uam-vocabulary" and unlinked:
        say(f"{unlinked} target words have no link: the source does not have the word that the module took them for.")
    return FAILED if failed else 0


def as_record(outcome: AlignmentOutcome) -> str:
    """The outcome as one line of JSON."""
    record: dict[str, object] = {"line": outcome.number, **outcome.alignment.model_dump(exclude_none=True)}
    if outcome.problem:
        record["problem"] = outcome.problem
    return json.dumps(record, ensure_ascii=False)
