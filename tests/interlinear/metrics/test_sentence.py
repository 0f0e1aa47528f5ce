"""Sentence-level scores on ids equal cases worked by hand, sacrebleu, and ROUGE-L's definition."""

import functools
import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from sacrebleu.metrics import BLEU

from interlinear.metrics.sentence import bleu, rouge_l

WORDS = st.lists(st.integers(4, 9), max_size=9)


def scores(metric, candidates: list[list[list[int]]], references: list[list[int]], pad: int = 0) -> torch.Tensor:
    """The metric of candidates (sentences, candidates, words), padded to one length with any id."""
    width = max((len(words) for own in candidates for words in own), default=0) + 1
    longest = max(map(len, references)) + 2
    return metric(
        torch.tensor([[[*words, *[pad] * (width - len(words))] for words in own] for own in candidates]),
        torch.tensor([[len(words) for words in own] for own in candidates]),
        torch.tensor([[*words, *[pad] * (longest - len(words))] for words in references]),
        torch.tensor([len(words) for words in references]),
    )


def test_bleu_by_hand() -> None:
    """The cat sat on the mat, 4 5 6 7 4 8."""
    found = scores(bleu, [[[4, 5, 6, 7, 4, 8], [4, 4, 4], [4, 5, 7, 6, 4, 8, 9], [9, 9], []]], [[4, 5, 6, 7, 4, 8]])
    expected = [
        1.0,
        # 2 of 3 words (two are in the reference), no pair of 2, no triple of 1; exp(1 - 6 / 3)
        math.exp(-1) * (2 / 3 * 1 / 3 * 1 / 2 * 1 / 1) ** 0.25,
        # 6 of 7; pairs 4-5 and 4-8 of 6; none of 5 and of 4
        (6 / 7 * 3 / 7 * 1 / 6 * 1 / 5) ** 0.25,
        0.0,
        0.0,
    ]
    assert found[0].tolist() == pytest.approx(expected, abs=1e-12)


def test_rouge_l_by_hand() -> None:
    """Police killed the gunman, 4 5 6 7; police kill the gunman; the gunman kill police (Lin 2004, section 3.1)."""
    found = scores(rouge_l, [[[4, 8, 6, 7], [6, 7, 8, 4], [4, 5], [9], []]], [[4, 5, 6, 7]])
    assert found[0].tolist() == pytest.approx([3 / 4, 2 / 4, 2 * 2 / 6, 0.0, 0.0], abs=1e-12)


@given(candidates=st.lists(WORDS, min_size=1, max_size=5), reference=WORDS.filter(len))
def test_bleu_equals_sacrebleu(candidates: list[list[int]], reference: list[int]) -> None:
    metric = BLEU(smooth_method="add-k", smooth_value=1, tokenize="none", force=True)
    found = scores(bleu, [candidates], [reference])[0].tolist()
    for ids, ours in zip(candidates, found, strict=True):
        theirs = metric.corpus_score([" ".join(map(str, ids))], [[" ".join(map(str, reference))]]).score
        assert 100 * ours == pytest.approx(theirs, abs=1e-9)


@given(candidates=st.lists(WORDS, min_size=1, max_size=5), reference=WORDS)
def test_rouge_l_equals_its_definition(candidates: list[list[int]], reference: list[int]) -> None:
    found = scores(rouge_l, [candidates], [reference])[0].tolist()
    for ids, ours in zip(candidates, found, strict=True):

        @functools.cache
        def common(i: int, j: int, ids: tuple[int, ...] = tuple(ids)) -> int:
            if not i or not j:
                return 0
            if ids[i - 1] == reference[j - 1]:
                return common(i - 1, j - 1) + 1
            return max(common(i - 1, j), common(i, j - 1))

        longest = common(len(ids), len(reference))
        recall, precision = longest / max(1, len(reference)), longest / max(1, len(ids))
        f1 = 2 * recall * precision / (recall + precision) if longest else 0.0
        assert ours == pytest.approx(f1, abs=1e-12)


@pytest.mark.parametrize("metric", [bleu, rouge_l])
@given(rows=st.lists(st.tuples(st.lists(WORDS, min_size=2, max_size=2), WORDS), min_size=1, max_size=4))
def test_padding_and_other_candidates_change_nothing(metric, rows) -> None:
    candidates, references = [list(own) for own, _ in rows], [reference for _, reference in rows]
    together = scores(metric, candidates, references)
    assert torch.equal(scores(metric, candidates, references, pad=5), together)
    for i, (own, reference) in enumerate(zip(candidates, references, strict=True)):
        for k, words in enumerate(own):
            assert float(scores(metric, [[words]], [reference])) == float(together[i, k])
    assert ((together >= 0) & (together <= 1)).all()
