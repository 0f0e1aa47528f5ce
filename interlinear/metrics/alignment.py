"""Word alignment metrics against a gold alignment: alignment error rate, precision and recall (Och and Ney 2003), and
accuracy by target word."""

from collections import defaultdict

import numpy as np

from interlinear.alignment.links import GoldAlignment, Link
from interlinear.components import METRICS
from interlinear.metrics.metric import Metric, ReferenceSet, Statistics, SystemOutputs, Values, percentage


class AlignmentMetric(Metric):
    """Base of the alignment metrics: compares the links A of all sentence pairs with gold links.

    S are the sure gold links, P the possible ones, which include S.
    """

    def missing_requirement(self, reference_set: ReferenceSet) -> str:
        if not reference_set.gold:
            return reference_set.unaligned
        return (
            "" if any(gold.sure or gold.possible for gold in reference_set.gold) else "the gold alignments have no link"
        )

    def statistics(self, outputs: SystemOutputs, reference_set: ReferenceSet) -> Statistics:
        pairs = zip(outputs.links, reference_set.gold, strict=True)
        return np.array([self.counts(links, gold) for links, gold in pairs], dtype=np.float64)

    def counts(self, links: frozenset[Link], gold: GoldAlignment) -> tuple[float, ...]:
        """|A and S|, |A and P|, |A| and |S| of one sentence pair."""
        return len(links & gold.sure), len(links & (gold.sure | gold.possible)), len(links), len(gold.sure)

    def signature_settings(self, reference_set: ReferenceSet) -> str:
        possible = any(gold.possible for gold in reference_set.gold)
        return f"pairs:{len(reference_set.gold)}|gold:{'sure+possible' if possible else 'sure'}"

    def signature(self, outputs: SystemOutputs, reference_set: ReferenceSet) -> str:
        """Settings and attention kind of the links; without the Unicode form, which does not affect word links."""
        return self.signature_settings(reference_set) + (f"|by:{outputs.by}" if outputs.by else "")


@METRICS.register("aer")
class ErrorRate(AlignmentMetric):
    """AER = 1 - (|A and S| + |A and P|) / (|A| + |S|) (Och and Ney 2003), in per cent."""

    better = "lower"

    def values(self, sums: Statistics) -> Values:
        agreement = percentage(np.stack([sums[:, 0] + sums[:, 1], sums[:, 2] + sums[:, 3]], 1))
        return np.where(sums[:, 2] + sums[:, 3] > 0, 100 - agreement, 0.0)


@METRICS.register("alignment-precision")
class Precision(AlignmentMetric):
    """|A and P| / |A|, in per cent."""

    def values(self, sums: Statistics) -> Values:
        return percentage(sums[:, [1, 2]])


@METRICS.register("alignment-recall")
class Recall(AlignmentMetric):
    """|A and S| / |S|, in per cent."""

    def values(self, sums: Statistics) -> Values:
        return percentage(sums[:, [0, 3]])


@METRICS.register("alignment-accuracy")
class Accuracy(AlignmentMetric):
    """Share of the target words with a gold link that are linked to one of their gold source words, in per cent.

    Defined by Kiyono et al. (2018, table 3). A word with several links counts as the fraction of them that is correct.
    """

    def counts(self, links: frozenset[Link], gold: GoldAlignment) -> tuple[float, ...]:
        """Number of correct target words (a sum of fractions), and of target words with a gold link."""
        gold_sources, linked_sources = sources_by_target(gold.sure | gold.possible), sources_by_target(links)
        correct = sum(
            len(linked_sources[j] & sources) / len(linked_sources[j])
            for j, sources in gold_sources.items()
            if j in linked_sources
        )
        return correct, len(gold_sources)

    def values(self, sums: Statistics) -> Values:
        return percentage(sums)


def sources_by_target(links: frozenset[Link]) -> dict[int, set[int]]:
    """Maps each linked target position to the set of its source positions."""
    sources: dict[int, set[int]] = defaultdict(set)
    for i, j in links:
        sources[j].add(i)
    return dict(sources)
