"""Word alignment by forced decoding, with one model or with two of opposite directions."""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice, zip_longest
from pathlib import Path

from interlinear.alignment.links import Alignment, Symmetrization, alignment_from, bidirectional_alignment
from interlinear.bundle import ModelCard
from interlinear.cli.console import FAILED, say
from interlinear.cli.decoding.model_loading import load_generation
from interlinear.cli.options import AlignmentKind
from interlinear.config import Precision
from interlinear.errors import DataError, RequestError, UsageError
from interlinear.explanation import Explanation
from interlinear.generation.generator import SequenceGenerator
from interlinear.models.attention_reading import READINGS, AttentionReading
from interlinear.text import UNKNOWN
from training.data.text_lines import read_file

PAIRS_AT_A_TIME = 512  # sentence pairs per batch of input


@dataclass(frozen=True)
class SentencePair:
    """Line `number` of both files."""

    number: int
    source: str
    target: str


@dataclass(frozen=True)
class AlignmentOutcome:
    """The alignment of a pair; empty if one side is empty, or if there was a problem."""

    number: int
    alignment: Alignment
    problem: str = ""


@dataclass
class UnknownWords:
    """Number of target words that are not in the model's vocabulary, and the first line with one."""

    words: int = 0
    first: int = 0

    def add(self, number: int, ids: list[int]) -> None:
        if count := ids.count(UNKNOWN):
            self.first = self.first or number
            self.words += count


@dataclass(frozen=True)
class Aligner:
    """The models and options of an alignment in one or both directions."""

    forward: SequenceGenerator
    backward: SequenceGenerator | None = None
    symmetrization: Symmetrization | None = None
    by: AlignmentKind | None = None
    raw: bool = True
    unknown: UnknownWords = field(default_factory=UnknownWords)

    @property
    def reading(self) -> AttentionReading | None:
        """The weights that words are aligned by; None: each model's best."""
        return READINGS[self.by] if self.by else None


def load_aligner(
    model: str,
    by: AlignmentKind | None,
    reverse: str | None,
    symmetrize: Symmetrization | None,
    tokenised: bool,
    device: str,
    tracking: str | None,
) -> Aligner:
    """Load the models. Raises UsageError if they do not fit the options or each other."""
    check_symmetrized(reverse, symmetrize)
    forward = load_generation(model, tracking, device)
    backward = load_reverse(reverse, forward.bundle.card, device, tracking) if reverse else None
    for name, generation in ((model, forward), (reverse, backward)):
        if generation and by:
            check_reading(str(name), by, generation.attention_kinds)
    return Aligner(forward, backward, symmetrize, by, not tokenised)


def load_reverse(
    reverse: str, card: ModelCard, device: str, tracking: str | None, precision: Precision = "fp32"
) -> SequenceGenerator:
    """Load the model of the opposite direction. Raises UsageError if its languages do not match the card's."""
    backward = load_generation(reverse, tracking, device, precision)
    card.check_opposite(backward.bundle.card, "--reverse")
    return backward


def check_symmetrized(reverse: str | None, symmetrize: Symmetrization | None) -> None:
    """Raises UsageError if only one of --reverse and --symmetrize is present."""
    if symmetrize and not reverse:
        raise UsageError(
            "--symmetrize", "one model has one direction", "name a model of the opposite direction with --reverse"
        )
    if reverse and not symmetrize:
        raise UsageError(
            "--reverse", "it is not said how two alignments become one", "say it, as --symmetrize grow-diag-final-and"
        )


def check_reading(
    model: str, by: AlignmentKind, kinds: Sequence[str], known: Mapping[str, AttentionReading] = READINGS
) -> AttentionReading:
    """The reading of this name. Raises UsageError, with the names of the model's readings, if the model does not have
    its kind of attention."""
    if READINGS[by].kind not in kinds:
        available = ", ".join(name for name, reading in known.items() if reading.kind in kinds)
        raise UsageError(model, f"the model has no attention of kind {by}", f"it has {available}")
    return READINGS[by]


def align_pairs(aligner: Aligner, pairs: Iterator[SentencePair]) -> Iterator[AlignmentOutcome]:
    """The outcome of every pair, in order. Raises DataError if the two models split a pair into different words."""
    reading = aligner.reading

    def force_decode(model: SequenceGenerator, texts: Sequence[tuple[str, str]]) -> Iterator[Explanation]:
        name = model.bundle.card.model.first_text
        pairs = (({name: text}, output) for text, output in texts)
        return model.align(pairs, aligner.raw, reading)

    while group := list(islice(pairs, PAIRS_AT_A_TIME)):
        problems = {pair.number: problem for pair in group if (problem := length_problem(aligner, pair))}
        valid = [p for p in group if p.number not in problems and p.source.strip() and p.target.strip()]
        forward = force_decode(aligner.forward, [(pair.source, pair.target) for pair in valid])
        alignments: dict[int, Alignment] = {}
        if aligner.backward and aligner.symmetrization:
            backward = force_decode(aligner.backward, [(pair.target, pair.source) for pair in valid])
            for pair, direct, reverse in zip(valid, forward, backward, strict=True):
                if (direct.source, direct.target) != (reverse.target, reverse.source):
                    raise DataError(
                        f"line {pair.number}",
                        "the two models cut it into different words",
                        "align tokenised text with --tokenised, or use models of the same kind of text",
                    )
                alignments[pair.number] = bidirectional_alignment(direct, reverse, aligner.symmetrization)
        else:
            alignments = {
                pair.number: alignment_from(explanation) for pair, explanation in zip(valid, forward, strict=True)
            }
        for pair in group:
            yield AlignmentOutcome(pair.number, alignments.get(pair.number, Alignment()), problems.get(pair.number, ""))


def length_problem(aligner: Aligner, pair: SentencePair) -> str:
    """A sentence that states which side of a pair is too long for a model, or an empty string."""
    problem = too_long(aligner.forward, pair, aligner.raw, aligner.unknown)
    if problem or aligner.backward is None:
        return problem
    problem = too_long(
        aligner.backward, SentencePair(pair.number, pair.target, pair.source), aligner.raw, UnknownWords()
    )
    return problem and f"read by the reverse model, {problem}"


def too_long(generation: SequenceGenerator, pair: SentencePair, raw: bool, unknown: UnknownWords) -> str:
    """A sentence that states which side of a pair is too long, or an empty string. Counts unknown target words."""
    try:
        unknown.add(pair.number, list(generation.check_lengths(pair.source, pair.target, raw).encoded.ids))
    except RequestError as error:
        return f"the {error.where} {error.problem}."
    return ""


def read_pairs(source: Path, target: Path) -> Iterator[SentencePair]:
    """The lines of two files in parallel. Raises DataError if one file has more lines."""
    lines = zip_longest(read_file(source), read_file(target))
    for number, (left, right) in enumerate(lines, 1):
        if left is None or right is None:
            raise DataError(
                f"{source} and {target}",
                f"{source if left is None else target} ends after line {number - 1}, and the other goes on",
                "line i of each must belong together",
            )
        yield SentencePair(number, left, right)


@dataclass
class Printed:
    """The exit code, and the number of target words without a link."""

    code: int = 0
    unlinked: int = 0


def print_outcomes(outcomes: Iterable[AlignmentOutcome], as_json: bool) -> Printed:
    """Print a line for each outcome; problems on stderr."""
    printed = Printed()
    for outcome in outcomes:
        if outcome.problem:
            printed.code = FAILED
            say(f"line {outcome.number}: {outcome.problem} The line stays empty.")
        alignment = outcome.alignment
        printed.unlinked += len(alignment.target) - len({link.target for link in alignment.links})
        print(as_record(outcome) if as_json else alignment.pharaoh)
    return printed


def as_record(outcome: AlignmentOutcome) -> str:
    """The outcome as one line of JSON."""
    record: dict[str, object] = {"line": outcome.number, **outcome.alignment.model_dump(exclude_none=True)}
    if outcome.problem:
        record["problem"] = outcome.problem
    return json.dumps(record, ensure_ascii=False)
