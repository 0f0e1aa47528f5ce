"""`interlinear align`: which word became which, by forced decoding."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice, zip_longest
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from interlinear.console import FAILED, say
from interlinear.options import Device, Json, ModelName, Tracking
from seq2seq.errors import DataError, UsageError

if TYPE_CHECKING:
    from seq2seq.alignment import Alignment, Symmetrization
    from seq2seq.bundle import ModelCard
    from seq2seq.explain import Explanation
    from seq2seq.generate import SequenceGenerator

PAIRS_AT_A_TIME = 512  # pairs read at a time

AlignmentKind = Literal["attention", "words", "gated", "uam", "uam-vocabulary"]
KIND_NAMES: dict[str, str] = {
    "attention": "attention", "words": "word_attention", "gated": "gated", "uam": "uam", "uam-vocabulary": "uam",
}  # fmt: skip

TextFile = Annotated[Path, typer.Option(exists=True, dir_okay=False, metavar="FILE", show_default=False)]
AlignedBy = Annotated[
    AlignmentKind | None,
    typer.Option("--by", show_default=False, help="What words are aligned by; else the best the model has."),
]
Reverse = Annotated[
    str | None,
    typer.Option(metavar="MODEL", show_default=False, help="A model of the opposite direction; see --symmetrize."),
]
Symmetrize = Annotated[
    Literal["intersection", "union", "grow", "grow-diag", "grow-diag-final", "grow-diag-final-and"] | None,
    typer.Option(show_default=False, help="How the alignments of both directions become one, as Moses has it."),
]
Spaced = Annotated[bool, typer.Option("--tokenised", help="Words stand between spaces, as in gold alignments.")]


@dataclass(frozen=True)
class SentencePair:
    """Line `number` of both files."""

    number: int
    source: str
    target: str


@dataclass(frozen=True)
class AlignmentOutcome:
    """What became of a pair: its alignment, empty where a side is or where it had a problem."""

    number: int
    alignment: "Alignment"
    problem: str = ""


@dataclass
class UnknownWords:
    """Target words that the model's vocabulary does not have, and the first line with one."""

    words: int = 0
    first: int = 0

    def add(self, number: int, ids: list[int]) -> None:
        from seq2seq.text import UNKNOWN

        if found := ids.count(UNKNOWN):
            self.first = self.first or number
            self.words += found


@dataclass(frozen=True)
class Aligner:
    """The models that align, and how: in one direction, or in both."""

    forward: "SequenceGenerator"
    backward: "SequenceGenerator | None" = None
    symmetrization: "Symmetrization | None" = None
    by: AlignmentKind | None = None
    raw: bool = True
    unknown: UnknownWords = field(default_factory=UnknownWords)

    @property
    def kind(self) -> str | None:
        """The kind of looks that is read; None: the best."""
        return None if self.by is None else KIND_NAMES[self.by]


def align(
    model: ModelName,
    source: TextFile,
    target: TextFile,
    by: AlignedBy = None,
    reverse: Reverse = None,
    symmetrize: Symmetrize = None,
    tokenised: Spaced = False,
    as_json: Json = False,
    device: Device = "cpu",
    tracking: Tracking = None,
) -> int:
    """Print word alignments of parallel text in Pharaoh format, by forced decoding.

    One line a pair; `2-5` says that target word 5 looked most at source word 2, counted from 0, punctuation marks
    included. A pair with an empty side has an empty line. So has a pair that is too long: it is named on stderr, and
    the exit code is 1 at the end. With --json a line has the words, their places, and a weight for every link.

    --by uam reads the alignment module: the source word that it gives most to. With uam-vocabulary it is the word of
    the whole source vocabulary; a target word whose word is not in its source has no link, and is counted on stderr.
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


def load_aligner(
    model: str,
    by: AlignmentKind | None,
    reverse: str | None,
    symmetrize: "Symmetrization | None",
    tokenised: bool,
    device: str,
    tracking: str | None,
) -> Aligner:
    """The models, if they fit what was asked and each other. Raises CallError."""
    from interlinear.decoding.model_loading import load_generation

    check_symmetrized(reverse, symmetrize)
    forward = load_generation(model, tracking, device)
    backward = load_reverse(reverse, forward.bundle.card, device, tracking) if reverse else None
    for name, generation in ((model, forward), (reverse, backward)):
        if generation and by:
            check_kind(str(name), by, generation.attention_kinds)
    return Aligner(forward, backward, symmetrize, by, not tokenised)


def check_symmetrized(reverse: str | None, symmetrize: "Symmetrization | None") -> None:
    """Raises CallError where one of --reverse and --symmetrize is given, and not the other."""
    if symmetrize and not reverse:
        raise UsageError(
            "--symmetrize", "one model has one direction", "name a model of the opposite direction with --reverse"
        )
    if reverse and not symmetrize:
        raise UsageError(
            "--reverse", "it is not said how two alignments become one", "say it, as --symmetrize grow-diag-final-and"
        )


def load_reverse(reverse: str, card: "ModelCard", device: str, tracking: str | None) -> "SequenceGenerator":
    """The model of the direction opposite to the card's. Raises CallError where it is not."""
    from interlinear.decoding.model_loading import load_generation

    backward = load_generation(reverse, tracking, device)
    check_opposite(card, backward.bundle.card)
    return backward


def check_kind(model: str, by: AlignmentKind, kinds: Sequence[str]) -> str:
    """The kind of looks that is meant. Raises CallError where a model does not look in that way."""
    if KIND_NAMES[by] not in kinds:
        have = ", ".join(name for name, known in KIND_NAMES.items() if known in kinds)
        raise UsageError(model, f"the model has no way of looking called {by}", f"it has {have}")
    return KIND_NAMES[by]


def check_opposite(card: "ModelCard", reverse: "ModelCard") -> None:
    """Raises CallError unless the second model translates back what the first translates."""
    there, back = card.model.first_text, reverse.model.first_text
    said = (card.languages.get(there), card.languages.get("target"))
    found = (reverse.languages.get(back), reverse.languages.get("target"))
    if None not in (*said, *found) and found != said[::-1]:
        raise UsageError(
            "--reverse",
            f"it goes from {found[0]} to {found[1]}, and MODEL from {said[0]} to {said[1]}",
            f"name a model from {said[1]} to {said[0]}",
        )


def align_pairs(aligner: Aligner, pairs: Iterator[SentencePair]) -> Iterator[AlignmentOutcome]:
    """What becomes of every pair, in order. Raises DataError where the two models do not see the same words."""
    from seq2seq.alignment import Alignment, alignment_from, bidirectional_alignment

    vocabulary = aligner.by == "uam-vocabulary"

    def explained(model: "SequenceGenerator", texts: Sequence[tuple[str, str]]) -> Iterator["Explanation"]:
        name = model.bundle.card.model.first_text
        return model.align((({name: read}, written) for read, written in texts), aligner.raw, aligner.kind, vocabulary)

    while group := list(islice(pairs, PAIRS_AT_A_TIME)):
        problems = {pair.number: problem for pair in group if (problem := length_problem(aligner, pair))}
        good = [p for p in group if p.number not in problems and p.source.strip() and p.target.strip()]
        forward = explained(aligner.forward, [(pair.source, pair.target) for pair in good])
        found: dict[int, Alignment] = {}
        if aligner.backward and aligner.symmetrization:
            backward = explained(aligner.backward, [(pair.target, pair.source) for pair in good])
            for pair, there, back in zip(good, forward, backward, strict=True):
                if (there.source, there.target) != (back.target, back.source):
                    raise DataError(
                        f"line {pair.number}",
                        "the two models cut it into different words",
                        "align tokenised text with --tokenised, or use models of the same kind of text",
                    )
                found[pair.number] = bidirectional_alignment(there, back, aligner.symmetrization, aligner.kind)
        else:
            found = {
                pair.number: alignment_from(there, aligner.kind) for pair, there in zip(good, forward, strict=True)
            }
        for pair in group:
            yield AlignmentOutcome(pair.number, found.get(pair.number, Alignment()), problems.get(pair.number, ""))


def length_problem(aligner: Aligner, pair: SentencePair) -> str:
    """What is too long about a pair for a model, as a sentence; or nothing."""
    problem = too_long(aligner.forward, pair, aligner.raw, aligner.unknown)
    if problem or aligner.backward is None:
        return problem
    problem = too_long(
        aligner.backward, SentencePair(pair.number, pair.target, pair.source), aligner.raw, UnknownWords()
    )
    return problem and f"read by the reverse model, {problem}"


def too_long(generation: "SequenceGenerator", pair: SentencePair, raw: bool, unknown: UnknownWords) -> str:
    """What is too long about a pair, as a sentence; or nothing. Counts the target's unknown words."""
    name = generation.bundle.card.model.first_text
    limits = generation.bundle.card.limits
    ids: list[int] = []
    for side, text, limit in ((name, pair.source, limits.source_length), ("target", pair.target, limits.target_length)):
        (whole,) = generation.read_texts(side, [text], raw)
        ids = list(whole.encoded.ids)
        if len(ids) > limit:
            return f"the {side} has {len(ids)} tokens, and the model takes at most {limit}."
    unknown.add(pair.number, ids)  # the target's
    return ""


def as_record(outcome: AlignmentOutcome) -> str:
    """The outcome as one line of JSON."""
    record: dict[str, object] = {"line": outcome.number, **outcome.alignment.model_dump(exclude_none=True)}
    if outcome.problem:
        record["problem"] = outcome.problem
    return json.dumps(record, ensure_ascii=False)


def read_pairs(source: Path, target: Path) -> Iterator[SentencePair]:
    """The lines of two files in step. Raises DataError where one has more."""
    from training.data.formats import read_file

    lines = zip_longest(read_file(source), read_file(target))
    for number, (left, right) in enumerate(lines, 1):
        if left is None or right is None:
            raise DataError(
                f"{source} and {target}",
                f"{source if left is None else target} ends after line {number - 1}, and the other goes on",
                "line i of each must belong together",
            )
        yield SentencePair(number, left, right)
