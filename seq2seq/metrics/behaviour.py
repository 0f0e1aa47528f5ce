"""What a system's outputs are like, beyond their overlap with a reference: equal, repetitive, long, too much, too
little."""

from abc import abstractmethod
from collections import Counter
from collections.abc import Iterable, Sequence

import numpy as np

from seq2seq.metrics.metric import Metric, Preprocessing, ReferenceSet, Statistics, SystemOutputs, Values, percentage
from seq2seq.metrics.translation import WordTokenizer

ORDERS = range(1, 5)  # of the n-grams that repetition is counted by


class BehaviourMetric(Metric):
    """A metric over the words of each output and of its references."""

    def __init__(self, name: str, reading: Preprocessing) -> None:
        super().__init__(name)
        self.words = WordTokenizer(reading)

    def statistics(self, outputs: SystemOutputs, answers: ReferenceSet) -> Statistics:
        return np.array(
            [
                self.counts(self.words(hypothesis), [self.words(reference) for reference in references])
                for hypothesis, *references in zip(outputs.hypotheses, *answers.references, strict=True)
            ],
            dtype=np.float64,
        )

    @abstractmethod
    def counts(self, hypothesis: Sequence[str], references: Sequence[Sequence[str]]) -> tuple[float, ...]:
        """What one sentence adds."""

    def values(self, sums: Statistics) -> Values:
        return percentage(sums)

    def signature_settings(self, answers: ReferenceSet) -> str:
        return f"nrefs:{len(answers.references)}|{self.words.signature_settings}"


class ExactMatch(BehaviourMetric):
    """The share of outputs that are, word for word, one of their references, in per cent."""

    def counts(self, hypothesis: Sequence[str], references: Sequence[Sequence[str]]) -> tuple[float, ...]:
        return hypothesis in references, 1


class RepetitionRate(BehaviourMetric):
    """The share of the outputs' n-grams, n = 1 to 4 together, that stood in the same output before, in per cent.

    That is 1 - unique / all (See et al. 2017, figure 4; Welleck et al. 2020's seq-rep-n). References repeat too: it is
    to be read beside theirs, or beside another system's.
    """

    better = "lower"

    def counts(self, hypothesis: Sequence[str], references: Sequence[Sequence[str]]) -> tuple[float, ...]:
        grams = [list(zip(*(hypothesis[i:] for i in range(n)), strict=False)) for n in ORDERS]
        return sum(len(each) - len(set(each)) for each in grams), sum(map(len, grams))

    def signature_settings(self, answers: ReferenceSet) -> str:
        return f"n:1-4|{self.words.signature_settings}"


class LengthRatio(BehaviourMetric):
    """Words of the outputs over words of the references; of several, that of the nearest length (as in BLEU)."""

    better = "neither"

    def counts(self, hypothesis: Sequence[str], references: Sequence[Sequence[str]]) -> tuple[float, ...]:
        length = len(hypothesis)
        return length, min(map(len, references), key=lambda other: (abs(other - length), other))

    def values(self, sums: Statistics) -> Values:
        return percentage(sums) / 100


class TranslationCount(BehaviourMetric):
    """A number of words in all. A summary leaves out by design, so it has none."""

    better = "lower"

    def missing_requirement(self, answers: ReferenceSet) -> str:
        return "a summary leaves out and condenses by design" if answers.task == "summarization" else ""

    def values(self, sums: Statistics) -> Values:
        return sums[:, 0]


class OverTranslation(TranslationCount):
    """Words said again: the n-th time that an output has a word, where n > 1 and no reference has it so often.

    What Yang et al. (2018) count for Otem, of single words.
    """

    def counts(self, hypothesis: Sequence[str], references: Sequence[Sequence[str]]) -> tuple[float, ...]:
        allowed = max_counts(Counter(reference) for reference in references)
        return (sum(max(0, count - max(1, allowed[word])) for word, count in Counter(hypothesis).items()),)


class UnderTranslation(TranslationCount):
    """Words missing: those of the reference that an output does not have (as often); the fewest of all references.

    What Yang et al. (2018) count for Utem, of single words: a word translated otherwise is missing too.
    """

    def counts(self, hypothesis: Sequence[str], references: Sequence[Sequence[str]]) -> tuple[float, ...]:
        said = Counter(hypothesis)
        return (min((Counter(reference) - said).total() for reference in references),)


def max_counts(counts: Iterable[Counter[str]]) -> Counter[str]:
    """For every word the largest of several counts."""
    largest: Counter[str] = Counter()
    for each in counts:
        largest |= each
    return largest
