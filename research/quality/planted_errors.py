"""Errors planted in right translations, with the words by which each can be found."""

import random
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Literal

from interlinear.alignment.links import Link
from interlinear.alignment.pair_batches import split_words
from interlinear.explanation import Doubt

Kind = Literal["none", "replaced", "dropped", "repeated"]
KINDS: tuple[Kind, ...] = ("replaced", "dropped", "repeated")


@dataclass(frozen=True)
class PlantedError:
    """A translation with an error of one kind, or none.

    target: the wrong words, and the word after a gap, where the error is seen. source: the words that the error leaves
    without a translation. after: the target word after the error, if there is one.
    """

    kind: Kind
    source_text: str
    text: str
    target: frozenset[int] = frozenset()
    source: frozenset[int] = frozenset()
    after: int | None = None

    def is_found(self, doubt: Doubt) -> bool:
        """Whether a doubt names the error."""
        return doubt.word in (self.source if doubt.side == "source" else self.target)

    def is_beside(self, doubt: Doubt) -> bool:
        """Whether a doubt names the word after the error, whose probability depends on the wrong word before it."""
        return doubt.side == "target" and doubt.word == self.after and not self.is_found(doubt)


def plant(
    kind: Kind, source: str, target: str, gold: Collection[Link], vocabulary: Sequence[str], draw: random.Random
) -> PlantedError:
    """A translation with an error at a word drawn at random: not the first, whose neighbour would need another case,
    and no punctuation mark.

    gold: the links of the pair. vocabulary: words to replace one by. A dropped word leaves the source words without
    a translation that are linked to it alone; a repeated word is written again at a place after it drawn at random.
    """
    spans = split_words(target, tokenised=False)
    words = [target[start:end] for start, end in spans]
    place = draw.choice([j for j in range(1, len(words)) if words[j].isalpha()])
    (start, end), word = spans[place], words[place]
    left_out = frozenset(i for i, j in gold if j == place and all(other == place for k, other in gold if k == i))
    if kind == "replaced":
        other = draw.choice([one for one in vocabulary if one.lower() != word.lower()])
        text = target[:start] + other + target[end:]
        return PlantedError(kind, source, text, frozenset({place}), left_out, place + 1)
    if kind == "dropped":
        text = target[:start].rstrip() + target[end:]
        return PlantedError(kind, source, text, frozenset({place}), left_out)
    again = draw.choice([j for j in range(place + 1, len(words)) if words[j].isalpha()] or [place])
    at = spans[again][0]
    text = f"{target[:at]}{word} {target[at:]}"
    second = max(again, place + 1)
    return PlantedError(kind, source, text, frozenset({second}), frozenset(), second + 1)


def unspoilt(source: str, target: str) -> PlantedError:
    """A right translation as it is."""
    return PlantedError("none", source, target)


@dataclass(frozen=True)
class Detection:
    """How well doubts find planted errors, as shares of 1.

    precision, beside: by reason, the doubts that name the error, and those that name the word after it, of all doubts
    about spoilt and right translations. recall: by kind, the errors that a doubt names. false_alarms: right
    translations with a doubt.
    """

    precision: dict[str, float]
    beside: dict[str, float]
    recall: dict[str, float]
    false_alarms: float


def detection(cases: Sequence[tuple[PlantedError, Sequence[Doubt]]]) -> Detection:
    """The detection of errors by the doubts about each translation."""
    doubts, right, beside, planted = Counter[str](), Counter[str](), Counter[str](), Counter[str]()
    named, alarms = Counter[str](), 0
    for error, found in cases:
        planted[error.kind] += 1
        doubts.update(doubt.reason for doubt in found)
        right.update(doubt.reason for doubt in found if error.is_found(doubt))
        beside.update(doubt.reason for doubt in found if error.is_beside(doubt))
        if error.kind == "none":
            alarms += bool(found)
        elif any(map(error.is_found, found)):
            named[error.kind] += 1
    return Detection(
        precision={reason: right[reason] / count for reason, count in doubts.items()},
        beside={reason: beside[reason] / count for reason, count in doubts.items()},
        recall={kind: named[kind] / planted[kind] for kind in KINDS},
        false_alarms=alarms / planted["none"],
    )
