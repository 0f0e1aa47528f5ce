"""`interlinear align`: which word became which, by forced decoding."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice, zip_longest
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from interlinear.arguments import Device, ModelName, Tracking
from interlinear.searching import Tokenised
from interlinear.terminal import FAILED, say
from seq2seq.errors import CallError, DataError

if TYPE_CHECKING:
    from seq2seq.generation import Generation

GROUP = 512  # pairs read at a time

By = Literal["attention", "words", "gated", "uam"]
BY: dict[str, str] = {"attention": "attention", "words": "word_attention", "gated": "gated", "uam": "uam"}

TextFile = Annotated[Path, typer.Option(exists=True, dir_okay=False, metavar="FILE", show_default=False)]


@dataclass(frozen=True)
class Pair:
    """Line `number` of both files."""

    number: int
    source: str
    target: str


def align(
    model: ModelName,
    source: TextFile,
    target: TextFile,
    by: Annotated[
        By | None, typer.Option(show_default=False, help="What words are aligned by; else the best the model has.")
    ] = None,
    tokenised: Tokenised = False,
    device: Device = "cpu",
    tracking: Tracking = None,
) -> int:
    """Print word alignments of parallel text in Pharaoh format, by forced decoding.

    One line a pair; `2-5` says that target word 5 looked most at source word 2, counted from 0, punctuation marks
    included. A pair with an empty side has an empty line. So has a pair that is too long: it is named on stderr, and
    the exit code is 1 at the end.
    """
    from interlinear.loading import load_generation

    generation = load_generation(model, tracking, device)
    kinds = generation.kinds
    kind = None if by is None else BY[by]
    if kind and kind not in kinds:
        have = ", ".join(name for name, known in BY.items() if known in kinds)
        raise CallError(f"--by {by}", "the model does not look in that way", f"it can be aligned by {have}")
    failed, unknown = 0, Unknown()
    for number, links, problem in alignments(generation, read_pairs(source, target), not tokenised, unknown, kind):
        if problem:
            failed += 1
            say(f"line {number}: {problem} The line stays empty.")
        print(" ".join(f"{i}-{j}" for i, j in links))
    if unknown.words:
        say(
            f"{unknown.words} target words are unknown to the model, the first in line {unknown.first}: "
            "they are aligned as the unknown word."
        )
    return FAILED if failed else 0


@dataclass
class Unknown:
    """Target words that the model's vocabulary does not have, and the first line with one."""

    words: int = 0
    first: int = 0

    def add(self, pair: Pair, ids: list[int]) -> None:
        from seq2seq.text import UNKNOWN

        if found := ids.count(UNKNOWN):
            self.first = self.first or pair.number
            self.words += found


def alignments(
    generation: "Generation", pairs: Iterator[Pair], raw: bool, unknown: "Unknown", by: str | None = None
) -> Iterator[tuple[int, list[tuple[int, int]], str]]:
    """For every pair in order: its number, its links (source word, target word), and its problem or nothing."""
    (name,) = generation.bundle.card.model.sources
    while group := list(islice(pairs, GROUP)):
        problems = {pair.number: too_long(generation, pair, raw, unknown) for pair in group}
        good = [p for p in group if not problems[p.number] and p.source.strip() and p.target.strip()]
        explanations = generation.align((({name: pair.source}, pair.target) for pair in good), raw, by)
        links = {pair.number: explanation.alignment for pair, explanation in zip(good, explanations, strict=True)}
        for pair in group:
            yield pair.number, links.get(pair.number, []), problems[pair.number]


def too_long(generation: "Generation", pair: Pair, raw: bool, unknown: Unknown) -> str:
    """What is too long about a pair, as a sentence; or nothing. Counts the target's unknown words."""
    (name,) = generation.bundle.card.model.sources
    limits = generation.bundle.card.limits
    sides = [(name, pair.source, limits.source_length), ("target", pair.target, limits.target_length)]
    for side, text, limit in sides:
        ids = list(generation.bundle.tokenizers[side].encode(text, raw).ids)
        if len(ids) > limit:
            return f"the {side} has {len(ids)} tokens, and the model takes at most {limit}."
    unknown.add(pair, ids)  # the target's
    return ""


def read_pairs(source: Path, target: Path) -> Iterator[Pair]:
    """The lines of two files in step. Raises DataError where one has more."""
    from training.dataset import read_file

    lines = zip_longest(read_file(source), read_file(target))
    for number, (left, right) in enumerate(lines, 1):
        if left is None or right is None:
            raise DataError(
                f"{source} and {target}",
                f"{source if left is None else target} ends after line {number - 1}, and the other goes on",
                "line i of each must belong together",
            )
        yield Pair(number, left, right)
