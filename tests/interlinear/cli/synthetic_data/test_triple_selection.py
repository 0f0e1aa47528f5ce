"""Selection of artificial post-edits: the distribution of their edit rates becomes that of real ones."""

import random

import numpy as np
import pytest

from interlinear.cli.synthetic_data.round_trip import BINS, count_edits, histogram_bin, hter, select_triples

WORDS = 20


def edits_of(rates: list[float]) -> np.ndarray:
    return np.array([[rate * WORDS, WORDS] for rate in rates])


def test_edits_are_those_of_hter() -> None:
    mts = ["das ist ein Test .", "das ist Test ein .", "Das ist ein .", "x y z"]
    edits = count_edits(mts, ["das ist ein Test ."] * 4, tokenize="none", label="counting")
    assert edits.tolist() == [[0, 5], [1, 5], [2, 5], [5, 5]]  # equal; one shift; one change and one insertion; nothing
    assert hter(edits) == pytest.approx(100 * 8 / 20)
    assert histogram_bin(edits).tolist() == [0, 4, 8, 20]
    assert histogram_bin(edits_of([0.05, 0.0501, 1.0, 1.0001, 3.0])).tolist() == [1, 2, 20, 21, 21] and BINS == 22


def test_the_distribution_of_the_selected_is_that_of_the_real() -> None:
    """Round trips are edited more than real translations, and a share of them is like these."""
    drawn = random.Random(1)
    real = edits_of([max(0.0, drawn.gauss(0.25, 0.15)) for _ in range(2000)])
    artificial = edits_of([max(0.0, drawn.gauss(0.6, 0.3)) for _ in range(20_000)])
    chosen = select_triples(artificial, real)
    assert len(set(chosen)) == len(chosen) > 2000 and (np.diff(chosen) > 0).all()
    assert hter(artificial) > 50
    assert hter(artificial[chosen]) == pytest.approx(hter(real), abs=2)
    shares = [np.bincount(histogram_bin(edits), minlength=BINS) / len(edits) for edits in (artificial[chosen], real)]
    assert abs(shares[0] - shares[1]).sum() < 0.25  # a tenth may be missing where artificial ones are rare
    assert select_triples(artificial, real).tolist() == chosen.tolist()


def test_a_number_of_triples_can_be_wanted() -> None:
    real, artificial = edits_of([0.0, 0.5] * 10), edits_of([0.5] * 100 + [0.0] * 30 + [0.9] * 50)
    rates = [artificial[select_triples(artificial, real, wanted)][:, 0].tolist() for wanted in (40, 100)]
    assert [(own.count(0.0), own.count(10.0), own.count(18.0)) for own in rates] == [(20, 20, 0), (30, 50, 0)]
    largest = select_triples(artificial, real)  # of 37, 30 and 37 / 2 are there: 30 of 33 are nine tenths
    assert len(largest) >= 60


def test_nothing_is_selected_where_nothing_is_alike() -> None:
    assert select_triples(edits_of([0.9] * 5), edits_of([0.1] * 5)).tolist() == []
