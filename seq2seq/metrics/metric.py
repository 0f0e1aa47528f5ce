"""What every metric is: statistics of each sentence that add up, and a score of their sums.

So one evaluation, one comparison and one significance test serve them all.
"""

import unicodedata
from abc import ABC, abstractmethod
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from seq2seq.alignment import GoldAlignment, Link
from seq2seq.errors import DataError
from seq2seq.metrics.score import Score

Statistics = NDArray[np.float64]  # (N, S): sentences, numbers of each; or (R, S): sums over resampled test sets
Values = NDArray[np.float64]  # (R,): scores

Task = Literal["translation", "summarization", "multimodal", "post-edit"]

# 'none' is for text that is tokenised already.
Tokenization = Literal["13a", "none", "intl", "char", "zh"]


@dataclass(frozen=True)
class Preprocessing:
    """How text is read before it is compared. `lowercase` None: case counts, but where a metric's own habit differs.

    language: ISO code; None where it is not known.
    """

    tokenize: Tokenization = "13a"
    lowercase: bool | None = None
    language: str | None = None


@dataclass(frozen=True)
class ReferenceSet:
    """What systems are judged by; line i of everything belongs together. Text is in NFC.

    references: one text or several. gold: the right word alignments of source and first reference; `unaligned` says why
    there are none. task: None where it is not known. composed: some text was given in another form than NFC.
    """

    references: tuple[tuple[str, ...], ...]
    gold: tuple[GoldAlignment, ...]
    unaligned: str
    task: Task | None
    composed: bool

    @classmethod
    def from_lines(
        cls,
        references: Sequence[Sequence[str]],
        task: Task | None = None,
        gold: Sequence[GoldAlignment] = (),
        unaligned: str = "there are no gold alignments",
    ) -> "ReferenceSet":
        """Raises DataError where there is no reference, or one has more lines than another."""
        if not references:
            raise DataError("references", "there is no reference to score against")
        for number, reference in enumerate(references[1:], start=2):
            check_line_counts(f"reference {number}", len(reference), "reference 1", len(references[0]))
        composed = tuple(normalize_nfc(reference) for reference in references)
        return cls(composed, tuple(gold), unaligned, task, composed != tuple(map(tuple, references)))


@dataclass(frozen=True)
class SystemOutputs:
    """What a system wrote, a line each, in NFC; and its word alignments of source and first reference, if any, with the
    looks that they were read `by`."""

    hypotheses: tuple[str, ...]
    links: tuple[frozenset[Link], ...]
    composed: bool
    by: str = ""

    @classmethod
    def from_lines(
        cls, hypotheses: Sequence[str], links: Sequence[frozenset[Link]] = (), by: str = ""
    ) -> "SystemOutputs":
        """Raises DataError where there is nothing."""
        if not hypotheses:
            raise DataError("hypotheses", "there are no lines to score")
        composed = normalize_nfc(hypotheses)
        return cls(composed, tuple(links), composed != tuple(hypotheses), by)

    @classmethod
    def concatenate(cls, several: Collection["SystemOutputs"]) -> "SystemOutputs":
        """What several systems wrote, one after the other: of which a signature of them all speaks."""
        return cls(
            tuple(line for own in several for line in own.hypotheses),
            tuple(links for own in several for links in own.links),
            any(own.composed for own in several),
            ",".join(sorted({own.by for own in several} - {""})),
        )


def normalize_nfc(lines: Sequence[str]) -> tuple[str, ...]:
    """Text in Unicode's composed form, so that one letter is never two."""
    return tuple(unicodedata.normalize("NFC", line) for line in lines)


def check_line_counts(name: str, lines: int, other: str, expected: int) -> None:
    """Raises DataError where one text has more lines than the other."""
    if lines != expected:
        raise DataError(
            name, f"it has {lines} lines, and {other} has {expected}", "line i of each must belong together"
        )


class Metric(ABC):
    """One way to judge a system."""

    better: Literal["higher", "lower", "neither"] = "higher"

    def __init__(self, name: str) -> None:
        self.name = name

    def missing_requirement(self, answers: ReferenceSet) -> str:
        """What it is missing there, or nothing."""
        return ""

    @abstractmethod
    def statistics(self, outputs: SystemOutputs, answers: ReferenceSet) -> Statistics:
        """What every sentence adds, (N, S)."""

    @abstractmethod
    def values(self, sums: Statistics) -> Values:
        """The scores of sums, (R, S) -> (R,)."""

    @abstractmethod
    def signature_settings(self, answers: ReferenceSet) -> str:
        """How it is reckoned, for the signature."""

    def signature(self, outputs: SystemOutputs, answers: ReferenceSet) -> str:
        """How to get the score again."""
        return self.signature_settings(answers) + ("|form:nfc" if outputs.composed or answers.composed else "")

    def score(self, outputs: SystemOutputs, answers: ReferenceSet) -> Score:
        """The score of a test set. Raises DataError where lines are missing, or what the metric needs is."""
        check_line_counts("the hypotheses", len(outputs.hypotheses), "reference 1", len(answers.references[0]))
        if reason := self.missing_requirement(answers):
            raise DataError(self.name, reason)
        return self.report(self.statistics(outputs, answers), self.signature(outputs, answers))

    def report(self, statistics: Statistics, signature: str) -> Score:
        """The score of all sentences together."""
        return Score(score=float(self.values(statistics.sum(0, keepdims=True))[0]), signature=signature)


def percentage(sums: Statistics) -> Values:
    """100 x the first column over the second; 0 where that is 0."""
    return 100 * np.divide(sums[:, 0], sums[:, 1], out=np.zeros(len(sums)), where=sums[:, 1] != 0)
