"""Base class of all metrics: additive statistics of each sentence, and a score computed from their sums.

Evaluation, comparison and significance tests are therefore written once for all metrics.
"""

import unicodedata
from abc import ABC, abstractmethod
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from interlinear.alignment.links import GoldAlignment, Link
from interlinear.errors import DataError
from interlinear.metrics.score import Score

Statistics = NDArray[
    np.float64
]  # (N, S): S numbers for each of N sentences; or (R, S): sums over R resampled test sets
Values = NDArray[np.float64]  # (R,): scores

Task = Literal["translation", "summarization", "multimodal", "post-edit"]

# 'none' is for text that is already tokenised.
Tokenization = Literal["13a", "none", "intl", "char", "zh"]


# sacrebleu's tokenizers for languages without spaces between words, in which Moses' tokenizer finds no words.
UNSPACED: dict[str, Tokenization] = {
    "zh": "zh", "yue": "zh", "ja": "char", "th": "char", "km": "char", "lo": "char", "my": "char",
}  # fmt: skip


def is_unspaced(language: str | None) -> Tokenization | None:
    """The tokenizer of a language without spaces, by its code, such as `zh-Hant`; None for another language."""
    return UNSPACED.get((language or "").replace("_", "-").partition("-")[0].lower())


def default_tokenization(language: str | None, tokenised: bool) -> Tokenization:
    """The tokenizer of text in a language: `none` where spaces separate its words, else by the language."""
    return "none" if tokenised else is_unspaced(language) or "13a"


@dataclass(frozen=True)
class Preprocessing:
    """Text preprocessing before comparison.

    lowercase: None uses the metric's default, which is case-sensitive for most. language: ISO code, None if unknown.
    """

    tokenize: Tokenization = "13a"
    lowercase: bool | None = None
    language: str | None = None


@dataclass(frozen=True)
class ReferenceSet:
    """References of a test set in Unicode form NFC; line i of all fields belongs to the same sentence.

    references: one or several texts. sources: the texts that they translate, empty if unknown. gold: gold word
    alignments between source and first reference; `unaligned` is the reason if there are none. task: None if unknown.
    composed: True if normalization to NFC changed a reference.
    """

    references: tuple[tuple[str, ...], ...]
    gold: tuple[GoldAlignment, ...]
    unaligned: str
    task: Task | None
    composed: bool
    sources: tuple[str, ...] = ()

    @classmethod
    def from_lines(
        cls,
        references: Sequence[Sequence[str]],
        task: Task | None = None,
        gold: Sequence[GoldAlignment] = (),
        unaligned: str = "there are no gold alignments",
        sources: Sequence[str] = (),
    ) -> "ReferenceSet":
        """Normalizes references to NFC. Raises DataError if there are none, or their line counts differ."""
        if not references:
            raise DataError("references", "there is no reference to score against")
        for number, reference in enumerate(references[1:], start=2):
            check_line_counts(f"reference {number}", len(reference), "reference 1", len(references[0]))
        composed = tuple(normalize_nfc(reference) for reference in references)
        has_changed = composed != tuple(map(tuple, references))
        return cls(composed, tuple(gold), unaligned, task, has_changed, normalize_nfc(sources))


@dataclass(frozen=True)
class SystemOutputs:
    """Outputs of a system in Unicode form NFC, one line each.

    links: word alignments between source and first reference, may be empty. composed: True if normalization to NFC
    changed an output. by: the attention kind that the links were read from.
    """

    hypotheses: tuple[str, ...]
    links: tuple[frozenset[Link], ...]
    composed: bool
    by: str = ""

    @classmethod
    def from_lines(
        cls, hypotheses: Sequence[str], links: Sequence[frozenset[Link]] = (), by: str = ""
    ) -> "SystemOutputs":
        """Normalizes outputs to NFC. Raises DataError if there are none."""
        if not hypotheses:
            raise DataError("hypotheses", "there are no lines to score")
        composed = normalize_nfc(hypotheses)
        return cls(composed, tuple(links), composed != tuple(hypotheses), by)

    @classmethod
    def concatenate(cls, systems: Collection["SystemOutputs"]) -> "SystemOutputs":
        """The outputs of several systems, concatenated, to compute one signature for all."""
        return cls(
            tuple(line for outputs in systems for line in outputs.hypotheses),
            tuple(links for outputs in systems for links in outputs.links),
            any(outputs.composed for outputs in systems),
            ",".join(sorted({outputs.by for outputs in systems} - {""})),
        )


def normalize_nfc(lines: Sequence[str]) -> tuple[str, ...]:
    """Lines in Unicode form NFC, where a composed letter is one character."""
    return tuple(unicodedata.normalize("NFC", line) for line in lines)


def check_line_counts(name: str, lines: int, other: str, expected: int) -> None:
    """Raises DataError if `lines` differs from `expected`."""
    if lines != expected:
        raise DataError(
            name, f"it has {lines} lines, and {other} has {expected}", "line i of each must belong together"
        )


class Metric(ABC):
    """An evaluation metric. `better` says which direction is an improvement."""

    better: Literal["higher", "lower", "neither"] = "higher"

    def __init__(self, name: str, preprocessing: Preprocessing | None = None) -> None:
        self.name = name

    def missing_requirement(self, reference_set: ReferenceSet) -> str:
        """Why the metric cannot be computed for these references; empty if it can."""
        return ""

    @abstractmethod
    def statistics(self, outputs: SystemOutputs, reference_set: ReferenceSet) -> Statistics:
        """Additive statistics of each sentence, (N, S)."""

    @abstractmethod
    def values(self, sums: Statistics) -> Values:
        """Scores of summed statistics, (R, S) -> (R,)."""

    @abstractmethod
    def signature_settings(self, reference_set: ReferenceSet) -> str:
        """The metric's settings as the main part of the signature."""

    def signature(self, outputs: SystemOutputs, reference_set: ReferenceSet) -> str:
        """The signature: all settings needed to reproduce the score."""
        return self.signature_settings(reference_set) + (
            "|form:nfc" if outputs.composed or reference_set.composed else ""
        )

    def score(self, outputs: SystemOutputs, reference_set: ReferenceSet) -> Score:
        """Score of a test set. Raises DataError if line counts differ or a requirement of the metric is missing."""
        check_line_counts("the hypotheses", len(outputs.hypotheses), "reference 1", len(reference_set.references[0]))
        if reason := self.missing_requirement(reference_set):
            raise DataError(self.name, reason)
        return self.report(self.statistics(outputs, reference_set), self.signature(outputs, reference_set))

    def report(self, statistics: Statistics, signature: str) -> Score:
        """Corpus-level score from the statistics of all sentences."""
        return Score(score=float(self.values(statistics.sum(0, keepdims=True))[0]), signature=signature)


def percentage(sums: Statistics) -> Values:
    """100 x first column / second column; 0 where the second is 0."""
    return 100 * np.divide(sums[:, 0], sums[:, 1], out=np.zeros(len(sums)), where=sums[:, 1] != 0)
