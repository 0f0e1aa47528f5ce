"""Scores equal cases worked out by hand and sacrebleu's results; statistics add up; irrelevant changes have no
effect."""

import math
import random
import unicodedata

import numpy as np
import pytest
import sacrebleu
from hypothesis import given, settings
from hypothesis import strategies as st

from interlinear.alignment.links import GoldAlignment
from interlinear.errors import DataError, UsageError
from interlinear.metrics.catalogue import GROUPS, METRICS, select_metrics
from interlinear.metrics.metric import Preprocessing, ReferenceSet, SystemOutputs

TASKS = {"hter": "post-edit"}  # scores that are defined for one task only


def score(name, hypotheses, references, task=None, **reading):
    (metric,) = select_metrics([name], Preprocessing(**reading))
    return metric.score(SystemOutputs.from_lines(hypotheses), ReferenceSet.from_lines(references, task))


def value(name, hypotheses, references, **reading):
    return score(name, hypotheses, references, TASKS.get(name), **reading).score


# BLEU, by hand.


def test_bleu_equals_the_papers_definition():
    """the cat sat on the mat / the cat sat on a mat: precisions 5/6, 3/5, 2/4, 1/3, no brevity penalty."""
    found = value("bleu", ["the cat sat on a mat"], [["the cat sat on the mat"]])
    assert found == pytest.approx(100 * (5 / 6 * 3 / 5 * 2 / 4 * 1 / 3) ** 0.25)


def test_short_output_gets_the_brevity_penalty():
    found = value("bleu", ["the cat sat on the"], [["the cat sat on the mat"]])
    assert found == pytest.approx(100 * math.exp(1 - 6 / 5))


def test_several_references_count_their_best_match():
    references = [["the cat sat on the mat"], ["a cat was on the mat today"]]
    assert value("bleu", ["a cat was on the mat today"], references) == pytest.approx(100)


def test_the_signature_says_how_text_was_compared():
    exact = score("bleu", ["The cat sat on the mat."], [["the cat sat on the mat."]])
    folded = score("bleu", ["The cat sat on the mat."], [["the cat sat on the mat."]], lowercase=True)
    assert exact.score < folded.score == pytest.approx(100)
    assert "case:mixed" in exact.signature and "tok:13a" in exact.signature
    assert "case:lc" in folded.signature
    assert "tok:none" in score("bleu", ["a b c d"], [["a b c d"]], tokenize="none").signature


def test_text_without_spaces_is_compared_by_characters():
    output, references = ["一只狗看见那棵大树。"], [["一只狗看见这棵大树。"]]
    assert score("bleu", output, references).score == 0.0 and score("ter", output, references).score == 100.0
    compared = score("bleu", output, references, tokenize="zh")
    assert compared.score > 50 and "tok:zh" in compared.signature
    compared = score("ter", output, references, tokenize="zh")
    assert compared.score == pytest.approx(10.0) and "asian:yes" in compared.signature


def test_bleu_of_the_multi30k_literature_is_of_normalised_tokenised_lower_cased_text():
    """The text of the corpus' own files `*.lc.norm.tok.*` is BLEU's input: quotes are one form, hyphens stay."""
    hypotheses = ["Ein „Mann“, der in der U-Bahn steht.", "L'homme s'assied."]
    references = [["ein Mann, der in einer U-Bahn steht.", "L'homme s'assied à côté."]]
    prepared = ['ein " mann " , der in der u-bahn steht .', "l ' homme s ' assied ."]
    answers = [["ein mann , der in einer u-bahn steht .", "l ' homme s ' assied à côté ."]]
    found = score("multi-bleu-lc", hypotheses, references, language="de")
    assert found.score == pytest.approx(sacrebleu.corpus_bleu(prepared, answers, tokenize="none", force=True).score)
    assert "case:lc|" in found.signature and "|norm:moses|tok:moses-de|" in found.signature
    louder = score("multi-bleu-lc", [line.upper() for line in answers[0]], answers, tokenize="none")
    assert louder.score == pytest.approx(100) and "tok:none" in louder.signature


def test_bleu_of_moses_words_is_left_out_for_text_without_spaces():
    with pytest.raises(DataError, match="finds no words in 'zh'"):
        score("multi-bleu-lc", ["猫"], [["猫"]], language="zh")
    assert score("multi-bleu-lc", ["猫 a b c"], [["猫 a b c"]], language="zh", tokenize="none").score > 99


def test_tokenised_text_is_not_tokenised_again(caplog):
    assert value("bleu", ["it ' s a dog"] * 100, [["it's a dog"] * 100], tokenize="none") < 100
    assert not caplog.records


# TER and the rest, by hand.


def test_ter_ignores_case_unless_requested():
    """One word of four differs: 25 %."""
    assert value("ter", ["a small Dog barks"], [["a small cat barks"]]) == pytest.approx(25)
    assert value("ter", ["A small cat barks"], [["a small cat barks"]]) == 0
    assert value("ter", ["A small cat barks"], [["a small cat barks"]], lowercase=False) == pytest.approx(25)


def test_hter_is_case_sensitive_ter_for_post_edits_only():
    assert value("hter", ["A small cat barks"], [["a small cat barks"]]) == pytest.approx(25)
    assert value("hter", ["A small cat barks"], [["a small cat barks"]], lowercase=True) == 0
    with pytest.raises(DataError, match="only a post-edit is what a person made"):
        score("hter", ["a"], [["a"]], "translation")


def test_exact_match_counts_whole_lines_of_any_reference():
    references = [["a dog.", "a cat", "x"], ["the dog.", "the cat", "y"]]
    assert value("exact-match", ["the dog.", "a  cat", "z"], references) == pytest.approx(200 / 3)
    assert value("exact-match", ["The dog.", "q", "q"], references) == 0
    assert value("exact-match", ["The dog.", "q", "q"], references, lowercase=True) == pytest.approx(100 / 3)


def test_repetition_rate_is_the_share_of_repeated_ngrams():
    """a b a b: unigrams 2 of 4, bigrams ab ba ab 1 of 3, trigrams 0 of 2, 0 of 1: 3 of 10. One word alone: 0 of 1."""
    assert value("repetition-rate", ["a b a b"], [["x"]]) == pytest.approx(30)
    assert value("repetition-rate", ["a b a b", "c"], [["x", "x"]]) == pytest.approx(300 / 11)
    assert value("repetition-rate", [""], [["x"]]) == 0


def test_length_ratio_uses_the_nearest_reference():
    """3 words beside 2 or 5: 2; 4 beside 3 or 5: the shorter one."""
    assert value("length-ratio", ["a b c", "a b c d"], [["a b", "a b c"], ["a b c d e"] * 2]) == pytest.approx(7 / 5)


def test_over_translation_counts_repeated_words():
    """man twice where the reference has it once: 1; very three times where the reference has none: 2; two dogs are
    allowed."""
    found = value("over-translation", ["the man man saw very very very dog dog"], [["the man saw dog dog"]])
    assert found == 1 + 2
    assert value("over-translation", ["the man man"], [["the man"], ["man man"]]) == 0


def test_under_translation_counts_words_missing_from_the_nearest_reference():
    assert value("under-translation", ["a dog"], [["a big dog and a cat"]]) == 4
    assert value("under-translation", ["a dog"], [["a big dog and a cat"], ["the dog"]]) == 1


# Comparison with sacrebleu on a thousand pairs.


def corpus(size, seed, references=1):
    draw = random.Random(seed)
    words = "The the a cat Cat sat, on mat. mat it's 3,000 über 猫 - of in a-b (end) ! ?".split()
    lines = [[" ".join(draw.choices(words, k=draw.randint(0, 9))) for _ in range(size)] for _ in range(references + 1)]
    return lines[0], lines[1:]


THEIRS = {"bleu": sacrebleu.BLEU, "chrf": sacrebleu.CHRF, "ter": sacrebleu.TER}


@pytest.mark.parametrize("name", THEIRS)
def test_a_thousand_pairs_score_as_in_sacrebleu(name):
    """Each pair alone, and all together."""
    hypotheses, references = corpus(1000, 1)
    (metric,), theirs = select_metrics([name], Preprocessing()), THEIRS[name]()
    outputs, answers = SystemOutputs.from_lines(hypotheses), ReferenceSet.from_lines(references)
    statistics = metric.statistics(outputs, answers)
    expected = [theirs.corpus_score([a], [[b]]).score for a, b in zip(hypotheses, references[0], strict=True)]
    np.testing.assert_allclose(metric.values(statistics), expected, atol=1e-9)
    together = metric.report(statistics, metric.signature(outputs, answers))
    assert together.score == pytest.approx(theirs.corpus_score(hypotheses, references).score, abs=1e-9)
    assert together.signature == theirs.get_signature().format()


def test_case_and_references_are_treated_as_in_sacrebleu():
    hypotheses, references = corpus(60, 2, references=3)
    lower = {"bleu": {"lowercase": True}, "chrf": {"lowercase": True}, "ter": {"case_sensitive": False}}
    for name, theirs in THEIRS.items():
        found, metric = score(name, hypotheses, references, lowercase=True), theirs(**lower[name])
        assert found.score == pytest.approx(metric.corpus_score(hypotheses, references).score, abs=1e-9)
        assert found.signature == metric.get_signature().format()
        assert "nrefs:3|case:lc" in found.signature


# Properties of every score.

TEXT = st.lists(
    st.sampled_from(["dog", "Dog", "dogs", "café", "naïve", "the", "a", "ångström", ".", "running"]), max_size=8
)
LINES = st.lists(st.tuples(TEXT, TEXT, TEXT), min_size=1, max_size=5)


def plain(name, hypotheses, references, **reading):
    """The score without its confidence interval, which takes longest."""
    (metric,) = select_metrics([name], Preprocessing(**reading))
    return metric.values(
        metric.statistics(SystemOutputs.from_lines(hypotheses), ReferenceSet.from_lines(references)).sum(
            0, keepdims=True
        )
    )[0]


OF_TEXT = [name for name in METRICS if name not in GROUPS["alignment"]]


def columns(lines):
    return [[" ".join(words) for words in column] for column in zip(*lines, strict=True)]


@pytest.mark.parametrize("name", OF_TEXT)
@settings(max_examples=15)
@given(lines=LINES)
def test_the_order_of_references_changes_nothing(name, lines):
    """An exception is sacrebleu's chrF, which adds up the counts of the first of equally good references."""
    hypotheses, *references = columns(lines[:1] if name == "chrf" else lines)
    references = [[f"{line} x" for line in reference] for reference in references]
    assert plain(name, hypotheses, references) == pytest.approx(plain(name, hypotheses, references[::-1]))


@pytest.mark.parametrize("name", OF_TEXT)
@settings(max_examples=15)
@given(lines=LINES)
def test_unicode_normalization_does_not_change_scores(name, lines):
    hypotheses, *references = columns(lines)
    references = [[f"{line} x" for line in reference] for reference in references]
    apart = [unicodedata.normalize("NFD", line) for line in hypotheses]
    assert plain(name, hypotheses, references) == pytest.approx(plain(name, apart, references))


@pytest.mark.parametrize("name", OF_TEXT)
@settings(max_examples=15)
@given(lines=LINES)
def test_case_does_not_change_case_insensitive_scores(name, lines):
    hypotheses, *references = columns(lines)
    references = [[f"{line} x" for line in reference] for reference in references]
    louder = [line.upper() for line in hypotheses]
    quiet = plain(name, hypotheses, references, lowercase=True)
    assert quiet == pytest.approx(plain(name, louder, references, lowercase=True))


def test_composed_text_is_noted_in_the_signature():
    composed, apart = "ein Café", unicodedata.normalize("NFD", "ein Café")
    assert "form" not in score("chrf", [composed], [[composed]]).signature
    for hypothesis, reference in ((apart, composed), (composed, apart)):
        found = score("chrf", [hypothesis], [[reference]])
        assert found.score == pytest.approx(100) and found.signature.endswith("|form:nfc")


@pytest.mark.parametrize("name", METRICS)
def test_statistics_add_up(name):
    """The sums of two halves equal those of the whole set, which the significance tests rely on."""
    hypotheses, references = corpus(40, 3, references=2)
    links = [frozenset({(0, 0), (1, n % 3)}) for n in range(40)]
    gold = [GoldAlignment(frozenset({(0, 0), (1, 1)}), frozenset({(1, 2)}))] * 40
    (metric,) = select_metrics([name], Preprocessing())
    answers = ReferenceSet.from_lines(references, TASKS.get(name), gold)
    whole = metric.statistics(SystemOutputs.from_lines(hypotheses, links), answers)
    parts = [
        metric.statistics(
            SystemOutputs.from_lines(hypotheses[rows], links[rows]),
            ReferenceSet.from_lines([lines[rows] for lines in references], gold=gold[rows]),
        )
        for rows in (slice(0, 15), slice(15, 40))
    ]
    assert len(whole) == 40
    np.testing.assert_array_equal(whole, np.concatenate(parts))
    found = metric.score(SystemOutputs.from_lines(hypotheses, links), answers).score
    assert found == pytest.approx(metric.values(whole.sum(0, keepdims=True))[0])


# Errors.


@pytest.mark.parametrize(
    ("hypotheses", "references", "words"),
    [
        ([], [[]], "no lines"),
        (["a"], [], "no reference"),
        (["a", "b"], [["a", "b"], ["a"]], "reference 2: it has 1 lines, and reference 1 has 2"),
        (["a"], [["a", "b"]], "the hypotheses: it has 1 lines"),
    ],
)
def test_missing_lines_are_an_error(hypotheses, references, words):
    with pytest.raises(DataError, match=words):
        score("bleu", hypotheses, references)


@pytest.mark.parametrize("name", OF_TEXT)
def test_an_empty_output_is_scored(name):
    found = value(name, ["", "a dog"], [["a cat", "a dog"]])
    assert math.isfinite(found)
    assert math.isfinite(value(name, [""], [["a dog"]]))


def test_an_unknown_score_is_named_with_similar_ones():
    with pytest.raises(UsageError, match=r"'rogue' is no score\. Did you mean rouge"):
        select_metrics(["bleu", "rogue"], Preprocessing())


def test_groups_of_scores_expand_without_duplicates():
    assert [metric.name for metric in select_metrics(["rouge-l", "rouge"], Preprocessing())] == [
        "rouge-l",
        "rouge-1",
        "rouge-2",
    ]
    assert [metric.name for metric in select_metrics(["all"], Preprocessing())] == list(METRICS)


def test_score_names_are_case_insensitive():
    assert [metric.name for metric in select_metrics(["BLEU", "Rouge-L"], Preprocessing())] == ["bleu", "rouge-l"]


@pytest.mark.parametrize(
    ("name", "task", "references", "words"),
    [
        ("rouge-1-recall-75", "translation", ["a"], "summaries"),
        ("under-translation", "summarization", ["a"], "leaves out"),
        ("rouge-l", "summarization", ["猫が いる 。"], "letters a-z"),
        ("aer", "translation", ["a"], "no gold"),
    ],
)
def test_a_score_names_its_missing_inputs(name, task, references, words):
    with pytest.raises(DataError, match=words):
        score(name, ["a"], [references], task)
