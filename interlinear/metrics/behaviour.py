"""Metrics of output behaviour beyond n-gram overlap: exact matches, repetition, length ratio, over- and
under-translation."""

from abc import abstractmethod
from collections import Counter
from collections.abc import Iterable, Sequence

import numpy as np

from interlinear.components import METRICS
from interlinear.metrics.metric import (
    Metric,
    Preprocessing,
    ReferenceSet,
    Statistics,
    SystemOutputs,
    Values,
    percentage,
)
from interlinear.metrics.translation import WordTokenizer

ORDERS = range(1, 5)  # n-gram orders for the repetition rate


class BehaviourMetric(Metric):
    """Base of the metrics that are computed from the words of each output and its references."""

    def __init__(self, name: str, preprocessing: Preprocessing) -> None:
        super().__init__(name)
        self.words = WordTokenizer(preprocessing)

    def statistics(self, outputs: SystemOutputs, reference_set: ReferenceSet) -> Statistics:
        return np.array(
            [
                self.counts(self.words(hypothesis), [self.words(reference) for reference in references])
                for hypothesis, *references in zip(outputs.hypotheses, *reference_set.references, strict=True)
            ],
            dtype=np.float64,
        )

    @abstractmethod
    def counts(self, hypothesis: Sequence[str], references: Sequence[Sequence[str]]) -> tuple[float, ...]:
        """The statistics of one sentence."""

    def values(self, sums: Statistics) -> Values:
        return percentage(sums)

    def signature_settings(self, reference_set: ReferenceSet) -> str:
        return f"nrefs:{len(reference_set.references)}|{self.words.signature_settings}"


@METRICS.register("exact-match")
class ExactMatch(BehaviourMetric):
    """Share of the outputs that equal one of their references word for word, in per cent."""

    def counts(self, hypothesis: Sequence[str], references: Sequence[Sequence[str]]) -> tuple[float, ...]:
        return hypothesis in references, 1


@METRICS.register("repetition-rate")
class RepetitionRate(BehaviourMetric):
    """Share of the outputs' n-grams (n = 1 to 4 together) that occurred earlier in the same output, in per cent.

    That is 1 - unique / all (See et al. 2017, figure 4; seq-rep-n of Welleck et al. 2020). References repeat n-grams
    too, so compare the rate with the references' or another system's rate.
    """

    better = "lower"

    def counts(self, hypothesis: Sequence[str], references: Sequence[Sequence[str]]) -> tuple[float, ...]:
        ngrams = [list(zip(*(hypothesis[i:] for i in range(n)), strict=False)) for n in ORDERS]
        return sum(len(order_ngrams) - len(set(order_ngrams)) for order_ngrams in ngrams), sum(map(len, ngrams))

    def signature_settings(self, reference_set: ReferenceSet) -> str:
        return f"n:1-4|{self.words.signature_settings}"


@METRICS.register("length-ratio")
class LengthRatio(BehaviourMetric):
    """Output words divided by reference words; of several references the closest in length counts, as in BLEU."""

    better = "neither"

    def counts(self, hypothesis: Sequence[str], references: Sequence[Sequence[str]]) -> tuple[float, ...]:
        length = len(hypothesis)
        return length, min(map(len, references), key=lambda other: (abs(other - length), other))

    def values(self, sums: Statistics) -> Values:
        return percentage(sums) / 100


class TranslationCount(BehaviourMetric):
    """A total number of words. Not defined for summarization, since a summary leaves words out by design."""

    better = "lower"

    def missing_requirement(self, reference_set: ReferenceSet) -> str:
        return "a summary leaves out and condenses by design" if reference_set.task == "summarization" else ""

    def values(self, sums: Statistics) -> Values:
        return sums[:, 0]


@METRICS.register("over-translation")
class OverTranslation(TranslationCount):
    """Repeated words: every n-th occurrence of a word in an output, n > 1, where no reference has n occurrences.

    The unigram counts of OTEM (Yang et al. 2018).
    """

    def counts(self, hypothesis: Sequence[str], references: Sequence[Sequence[str]]) -> tuple[float, ...]:
        allowed = max_counts(Counter(reference) for reference in references)
        return (sum(max(0, count - max(1, allowed[word])) for word, count in Counter(hypothesis).items()),)


@METRICS.register("under-translation")
class UnderTranslation(TranslationCount):
    """Missing words: occurrences in the reference that the output lacks; the minimum over several references.

    The unigram counts of UTEM (Yang et al. 2018). A word that was translated by a synonym counts as missing too.
    """

    def counts(self, hypothesis: Sequence[str], references: Sequence[Sequence[str]]) -> tuple[float, ...]:
        output_counts = Counter(hypothesis)
        return (min((Counter(reference) - output_counts).total() for reference in references),)


def max_counts(counts: Iterable[Counter[str]]) -> Counter[str]:
    """Element-wise maximum of several word counts."""
    largest: Counter[str] = Counter()
    for each in counts:
        largest |= each
    return largest
