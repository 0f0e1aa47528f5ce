"""Scores equal cases worked out by hand, and significance tells a difference from chance."""

import math
import random

import pytest

from seq2seq.errors import CallError, DataError
from seq2seq.metrics.bleu import corpus_bleu
from seq2seq.metrics.significance import compare_bleu


def test_bleu_is_the_papers():
    """the cat sat on the mat / the cat sat on a mat: precisions 5/6, 3/5, 2/4, 1/3, no brevity penalty."""
    score = corpus_bleu(["the cat sat on a mat"], [["the cat sat on the mat"]])
    assert score.score == pytest.approx(100 * (5 / 6 * 3 / 5 * 2 / 4 * 1 / 3) ** 0.25)


def test_short_output_pays_the_brevity_penalty():
    score = corpus_bleu(["the cat sat on the"], [["the cat sat on the mat"]])
    assert score.score == pytest.approx(100 * math.exp(1 - 6 / 5))


def test_several_references_count_their_best_match():
    references = [["the cat sat on the mat"], ["a cat was on the mat today"]]
    assert corpus_bleu(["a cat was on the mat today"], references).score == pytest.approx(100)


def test_signature_tells_how_the_text_was_compared():
    exact = corpus_bleu(["The cat sat on the mat."], [["the cat sat on the mat."]])
    folded = corpus_bleu(["The cat sat on the mat."], [["the cat sat on the mat."]], lowercase=True)
    assert exact.score < folded.score == pytest.approx(100)
    assert "case:mixed" in exact.signature and "tok:13a" in exact.signature
    assert "case:lc" in folded.signature
    assert "tok:none" in corpus_bleu(["a b c d"], [["a b c d"]], tokenize="none").signature


def test_tokenised_text_is_not_tokenised_again(caplog):
    assert corpus_bleu(["it ' s a dog"], [["it's a dog"]], tokenize="none").score < 100
    assert not caplog.records


@pytest.mark.parametrize(
    ("hypotheses", "references", "words"),
    [([], [[]], "no lines"), (["a"], [], "no reference"), (["a", "b"], [["a", "b"], ["a"]], "reference 2")],
)
def test_lines_that_are_missing_are_said(hypotheses, references, words):
    with pytest.raises(DataError, match=words):
        corpus_bleu(hypotheses, references)


def sentences(count: int, spoiled: float, seed: int) -> list[str]:
    """The same seeded sentences; a share of their words is replaced."""
    content, noise = random.Random(1), random.Random(seed)
    return [
        " ".join(word if noise.random() >= spoiled else "?" for word in content.choices("abcdefghij", k=12))
        for _ in range(count)
    ]


@pytest.mark.parametrize("test", ["bootstrap", "randomisation"])
def test_significance_tells_a_difference_from_chance(test):
    references = [sentences(120, 0.0, 0)]
    systems = {"base": sentences(120, 0.3, 2), "equal": sentences(120, 0.3, 3), "better": sentences(120, 0.1, 4)}
    comparison = compare_bleu(systems, references, test, samples=300, tokenize="none")
    base, equal, better = comparison.systems
    assert [base.system, equal.system, better.system] == ["base", "equal", "better"]
    assert base.p_value is None
    assert better.score > base.score and better.p_value < 0.01
    assert equal.p_value > 0.05
    assert base.score == corpus_bleu(systems["base"], references, tokenize="none").score
    assert ("bs:300" if test == "bootstrap" else "ar:300") in comparison.signature
    assert (base.interval is not None) == (test == "bootstrap")


def test_one_system_is_no_comparison():
    with pytest.raises(CallError, match="two or more"):
        compare_bleu({"a": ["x"]}, [["x"]], "bootstrap")
