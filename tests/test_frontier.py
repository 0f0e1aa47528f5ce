"""Parts of the comparison of quality and speed (benchmarks/frontier.py) that compute something."""

from collections import defaultdict

import pytest

from benchmarks.frontier_figure import Point, frontier
from benchmarks.peers.vocabulary_map import ITERATIONS, lexical_probabilities


def test_the_frontier_has_the_points_that_no_other_beats() -> None:
    def point(rate: float, bleu: float) -> Point:
        return Point("family", "label", 1, rate, bleu, greedy=False)

    points = [point(10, 40), point(20, 40), point(30, 39), point(5, 41), point(30, 38), point(20, 39.5)]
    assert frontier(points) == [point(30, 39), point(20, 40), point(5, 41)]


def test_the_lexical_probabilities_are_those_of_ibm_model_1() -> None:
    """Brown et al. 1993, equations 13 to 17 without the empty word, as loops over the pairs' words."""
    sources, targets = [[0, 1], [0, 2, 2], [1]], [[0, 1], [0, 2], [1, 1]]
    t = defaultdict(lambda: 1.0)
    for _ in range(ITERATIONS):
        count, total = defaultdict(float), defaultdict(float)
        for source, target in zip(sources, targets, strict=True):
            for e in target:
                normaliser = sum(t[e, f] for f in source)
                for f in source:
                    count[e, f] += t[e, f] / normaliser
                    total[f] += t[e, f] / normaliser
        t = defaultdict(float, {(e, f): count[e, f] / total[f] for e, f in count})
    found = {(int(e), int(f)): p for f, e, p in zip(*lexical_probabilities(sources, targets, 3), strict=True)}
    assert found == pytest.approx(dict(t))
