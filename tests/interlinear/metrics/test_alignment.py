"""Alignment scores equal cases worked out by hand."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from interlinear.alignment.links import read_gold_alignment
from interlinear.errors import DataError
from interlinear.metrics.catalogue import ALIGNMENT, select_metrics
from interlinear.metrics.metric import Preprocessing, ReferenceSet, SystemOutputs


def scores(links, gold):
    outputs = SystemOutputs.from_lines(["x"] * len(links), [frozenset(each) for each in links])
    answers = ReferenceSet.from_lines(
        [["x"] * len(links)], gold=[read_gold_alignment(line, "gold", 9, 9) for line in gold]
    )
    return {metric.name: metric.score(outputs, answers) for metric in select_metrics(ALIGNMENT, Preprocessing())}


def values(links, gold):
    return [score.score for score in scores(links, gold).values()]


def test_och_and_neys_error_rate():
    """A = {00, 11, 22, 33}, S = {00, 11, 24}, P = S + {22, 23}: |A and S| = 2, |A and P| = 3, |A| = 4, |S| = 3.

    AER 1 - 5/7, precision 3/4, recall 2/3; of the target words 0 to 4, which P links, 0, 1 and 2 are right.
    """
    found = values([{(0, 0), (1, 1), (2, 2), (3, 3)}], ["0-0 1-1 2-4 2?2 2?3"])
    assert found == pytest.approx([100 * 2 / 7, 75, 200 / 3, 60])


def test_counts_are_summed_over_pairs_not_averaged():
    found = values([{(0, 0)}, {(0, 0), (1, 1), (2, 2)}], ["0-0", "0-1 1-0 2-2"])
    assert found == pytest.approx([50, 50, 50, 50])


def test_possible_links_are_neither_errors_nor_hits():
    assert values([{(0, 0)}], ["0-0 1?1"])[:3] == pytest.approx([0, 100, 100])
    assert values([{(0, 0), (1, 1)}], ["0-0 1?1"]) == pytest.approx([0, 100, 100, 100])
    assert values([{(0, 0), (1, 1)}], ["0-0"])[0] == pytest.approx(100 / 3)


def test_a_word_with_several_links_counts_by_its_share_of_right_links():
    assert values([{(0, 0), (1, 0), (1, 1)}], ["0-0 1-1"])[3] == pytest.approx(75)


def test_words_without_a_gold_link_are_not_counted():
    assert values([{(0, 0), (1, 1)}], ["0-0"])[3] == 100
    assert values([set()], ["0-0"])[3] == 0


def test_empty_alignments():
    assert values([set()], ["0-0"]) == [100, 0, 0, 0]
    assert values([set(), set()], ["", "0?0"]) == [0, 0, 0, 0]
    with pytest.raises(DataError, match="the gold alignments have no link"):
        values([{(0, 0)}], [""])


def test_the_signature_names_the_gold_and_the_attention_kind():
    assert scores([{(0, 0)}], ["0-0 1?1"])["aer"].signature == "pairs:1|gold:sure+possible"
    assert scores([{(0, 0)}], ["0-0"])["aer"].signature == "pairs:1|gold:sure"
    (aer,) = select_metrics(["aer"], Preprocessing())
    answers = ReferenceSet.from_lines([["x"]], gold=[read_gold_alignment("0-0", "gold", 9, 9)])
    own, other, none = (SystemOutputs.from_lines(["x"], [frozenset()], by) for by in ("gated", "attention", ""))
    assert aer.signature(own, answers) == "pairs:1|gold:sure|by:gated"
    assert (
        aer.signature(SystemOutputs.concatenate([own, other, own, none]), answers)
        == "pairs:1|gold:sure|by:attention,gated"
    )


LINKS = st.frozensets(st.tuples(st.integers(0, 8), st.integers(0, 8)), max_size=12)


@given(links=LINKS, sure=LINKS.filter(bool), possible=LINKS)
def test_the_bounds_of_the_error_rate(links, sure, possible):
    """Without possible links the AER is 1 - F1. It is 0 if gold has all links of A and A has all sure links."""
    line = " ".join(f"{i}-{j}" for i, j in sure)
    error, precision, recall, _ = values([links], [line])
    f1 = 2 * precision * recall / (precision + recall) if precision + recall else 0
    assert error == pytest.approx(100 - f1)
    assert 0 <= values([links], [line + "".join(f" {i}?{j}" for i, j in possible)])[0] <= error + 1e-9
    assert values([sure | possible], [line + "".join(f" {i}?{j}" for i, j in possible)])[0] == pytest.approx(0)
