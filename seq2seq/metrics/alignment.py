"""Word alignments against gold: Och and Ney's error rate, precision and recall, and accuracy by target word."""

from collections import defaultdict

import numpy as np

from seq2seq.alignment import GoldAlignment, Link
from seq2seq.metrics.metric import Metric, ReferenceSet, Statistics, SystemOutputs, Values, percentage


class AlignmentMetric(Metric):
    """A score of the links A of all pairs, given the sure links S and the possible ones P, of which S is part."""

    def missing_requirement(self, answers: ReferenceSet) -> str:
        if not answers.gold:
            return answers.unaligned
        return "" if any(gold.sure or gold.possible for gold in answers.gold) else "the gold alignments have no link"

    def statistics(self, outputs: SystemOutputs, answers: ReferenceSet) -> Statistics:
        pairs = zip(outputs.links, answers.gold, strict=True)
        return np.array([self.counts(links, gold) for links, gold in pairs], dtype=np.float64)

    def counts(self, links: frozenset[Link], gold: GoldAlignment) -> tuple[float, ...]:
        """|A and S|, |A and P|, |A|, |S| of one pair."""
        return len(links & gold.sure), len(links & (gold.sure | gold.possible)), len(links), len(gold.sure)

    def signature_settings(self, answers: ReferenceSet) -> str:
        possible = any(gold.possible for gold in answers.gold)
        return f"pairs:{len(answers.gold)}|gold:{'sure+possible' if possible else 'sure'}"

    def signature(self, outputs: SystemOutputs, answers: ReferenceSet) -> str:
        """By which looks, too; not in which form of Unicode, since links are of words, whatever their form."""
        return self.signature_settings(answers) + (f"|by:{outputs.by}" if outputs.by else "")


class ErrorRate(AlignmentMetric):
    """AER = 1 - (|A and S| + |A and P|) / (|A| + |S|) (Och and Ney 2003), in per cent."""

    better = "lower"

    def values(self, sums: Statistics) -> Values:
        right = percentage(np.stack([sums[:, 0] + sums[:, 1], sums[:, 2] + sums[:, 3]], 1))
        return np.where(sums[:, 2] + sums[:, 3] > 0, 100 - right, 0.0)


class Precision(AlignmentMetric):
    """|A and P| / |A|, in per cent."""

    def values(self, sums: Statistics) -> Values:
        return percentage(sums[:, [1, 2]])


class Recall(AlignmentMetric):
    """|A and S| / |S|, in per cent."""

    def values(self, sums: Statistics) -> Values:
        return percentage(sums[:, [0, 3]])


class Accuracy(AlignmentMetric):
    """Of the target words that gold links, how many are linked to a source word that gold links them to (Kiyono et al.
    2018, table 3), in per cent. A word with several links counts by the share of them that is right."""

    def counts(self, links: frozenset[Link], gold: GoldAlignment) -> tuple[float, ...]:
        """Words that are right, and words that have an answer."""
        answers, found = sources_by_target(gold.sure | gold.possible), sources_by_target(links)
        right = sum(len(found[j] & places) / len(found[j]) for j, places in answers.items() if j in found)
        return right, len(answers)

    def values(self, sums: Statistics) -> Values:
        return percentage(sums)


def sources_by_target(links: frozenset[Link]) -> dict[int, set[int]]:
    """For every target word that is linked, its source words."""
    places: dict[int, set[int]] = defaultdict(set)
    for i, j in links:
        places[j].add(i)
    return dict(places)
