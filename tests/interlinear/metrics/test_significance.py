"""Significance tests: worked out by hand, equal to sacrebleu, and with the stated error rates."""

import random
from math import comb, sqrt

import numpy as np
import pytest
import sacrebleu
from hypothesis import given
from hypothesis import strategies as st
from sacrebleu.significance import PairedTest

from interlinear.errors import UsageError
from interlinear.metrics.catalogue import select_metrics
from interlinear.metrics.metric import Preprocessing, ReferenceSet, SystemOutputs
from interlinear.metrics.significance import TESTS, adjust_p_values, compare, correct_p_values, shuffled_sums, sign_test

(BLEU,) = select_metrics(["bleu"], Preprocessing(tokenize="none"))
(MATCH,) = select_metrics(["exact-match"], Preprocessing())


def sentences(count: int, spoiled: float, seed: int) -> list[str]:
    """The same seeded sentences with a share of their words replaced."""
    content, noise = random.Random(1), random.Random(seed)
    return [
        " ".join(word if noise.random() >= spoiled else "?" for word in content.choices("abcdefghij", k=12))
        for _ in range(count)
    ]


def statistics(metric, *runs):
    answers = ReferenceSet.from_lines([sentences(len(runs[0]), 0.0, 0)])
    return [metric.statistics(SystemOutputs.from_lines(run), answers) for run in runs]


def matches(*rows):
    """Outputs of a system in which every sentence is right (1) or wrong (0), for exact match."""
    return [np.array([[right, 1.0] for right in row]) for row in rows]


DRAWN = {"bootstrap": "bs:300|seed:12345", "randomisation": "ar:300|seed:12345", "sign": "sign"}


@pytest.mark.parametrize("test", TESTS)
def test_a_difference_is_told_from_chance(test):
    systems = {
        "base": statistics(BLEU, sentences(120, 0.3, 2)),
        "equal": statistics(BLEU, sentences(120, 0.3, 3)),
        "better": statistics(BLEU, sentences(120, 0.1, 4)),
    }
    comparison = compare(BLEU, systems, test, "signature", samples=300)
    base, equal, better = comparison.systems
    assert [base.system, equal.system, better.system] == ["base", "equal", "better"]
    assert base.p_value is None and base.score == base.runs[0]
    assert better.score > base.score and better.p_value < 0.01
    assert equal.p_value > 0.05
    assert comparison.signature == f"signature|{DRAWN[test]}"
    assert (base.interval is not None) == (test == "bootstrap")
    assert (better.more is not None) == (test == "sign")


@pytest.mark.parametrize("name", ["bleu", "chrf", "ter"])
@pytest.mark.parametrize(("test", "theirs"), [("bootstrap", "bs"), ("randomisation", "ar")])
def test_p_values_equal_sacrebleus_within_sampling_noise(name, test, theirs):
    (metric,) = select_metrics([name], Preprocessing())
    references = [sentences(80, 0.0, 0)]
    outputs = {"base": sentences(80, 0.3, 2), "a": sentences(80, 0.28, 3), "b": sentences(80, 0.25, 4)}
    answers = ReferenceSet.from_lines(references)
    found = compare(
        metric,
        {k: [metric.statistics(SystemOutputs.from_lines(v), answers)] for k, v in outputs.items()},
        test,
        "",
        500,
    )
    own = {"bleu": sacrebleu.BLEU(), "chrf": sacrebleu.CHRF(), "ter": sacrebleu.TER()}[name]
    _, columns = PairedTest(list(outputs.items()), {name: own}, references, test_type=theirs, n_samples=500)()
    (column,) = (results for header, results in columns.items() if header != "System")
    for ours, expected in zip(found.systems, column, strict=True):
        assert ours.score == pytest.approx(expected.score, abs=1e-9)
        if expected.p_value is not None:
            noise = sqrt(2 * max(expected.p_value * (1 - expected.p_value), 0.01) / 500)
            assert ours.p_value == pytest.approx(expected.p_value, abs=4 * noise)
        if test == "bootstrap":
            assert ours.mean == pytest.approx(expected.mean, rel=0.02)
            assert ours.interval == pytest.approx(expected.ci, rel=0.25)
            assert ours.low < ours.mean < ours.high


# Worked by hand.


def test_the_sign_test_is_binomial():
    """8 against 2: 2 (C(10,8) + C(10,9) + C(10,10)) / 1024 = 112 / 1024."""
    assert sign_test(8, 2) == pytest.approx(0.109375)
    assert sign_test(2, 8) == sign_test(8, 2)
    assert sign_test(5, 5) == 1
    assert sign_test(0, 0) == 1
    assert sign_test(6, 0) == pytest.approx(2 / 64)


@given(st.integers(0, 60), st.integers(0, 60))
def test_the_sign_test_sums_the_tail(more, less):
    count = more + less
    tail = sum(comb(count, k) for k in range(max(more, less), count + 1)) / 2**count
    assert sign_test(more, less) == pytest.approx(min(1, 2 * tail))


def test_the_sign_test_counts_sentences_that_change_the_baselines_score():
    """Sentences 0 to 7 become right, 8 and 9 wrong, the others do not change."""
    base = matches([0] * 8 + [1] * 2 + [1] * 5)
    system = matches([1] * 8 + [0] * 2 + [1] * 5)
    _, other = compare(MATCH, {"base": base, "system": system}, "sign", "").systems
    assert (other.more, other.less, other.p_value) == (8, 2, pytest.approx(0.109375))


def test_the_sign_test_of_bleu_substitutes_each_sentence_into_the_baseline():
    """Collins et al. 2005, literally: the whole corpus is scored again for each sentence."""
    references = sentences(40, 0.0, 0)
    base, system = sentences(40, 0.4, 2), sentences(40, 0.3, 3)

    def bleu(lines):
        return sacrebleu.corpus_bleu(lines, [references], tokenize="none", force=True).score

    changes = [bleu([*base[:i], system[i], *base[i + 1 :]]) - bleu(base) for i in range(40)]
    _, other = compare(BLEU, {"base": statistics(BLEU, base), "system": statistics(BLEU, system)}, "sign", "").systems
    assert other.more == sum(change > 1e-9 for change in changes)
    assert other.less == sum(change < -1e-9 for change in changes)


def test_randomisation_of_three_sentences_by_enumeration():
    """The baseline has none right, the system all three: of the 8 permutations, 2 differ by as much. p = 1/4."""
    systems = {"base": matches([0, 0, 0]), "system": matches([1, 1, 1])}
    _, other = compare(MATCH, systems, "randomisation", "", samples=4000).systems
    assert other.p_value == pytest.approx(0.25, abs=0.03)


def test_randomisation_assigns_every_output_once():
    """In any permutation, the runs of a trial add up to all outputs, sentence by sentence."""
    draw = np.random.default_rng(1)
    for count in (2, 3, 5):
        runs = draw.integers(0, 9, size=(count, 7, 2)).astype(float)
        (sums,) = shuffled_sums(runs, 50, draw)
        assert sums.shape == (count, 50, 2)
        np.testing.assert_allclose(sums.sum(0), np.broadcast_to(runs.sum((0, 1)), (50, 2)))
        assert len(np.unique(sums[0], axis=0)) > 10


def test_the_bootstrap_draws_sentences_with_replacement():
    """A share of 0.5 over 400 sentences: its deviation over test sets is sqrt(0.25 / 400) = 2.5 points."""
    systems = {"base": matches([0, 1] * 200), "same": matches([1, 0] * 200)}
    base, other = compare(MATCH, systems, "bootstrap", "", samples=2000).systems
    assert base.mean == pytest.approx(50, abs=0.3)
    assert base.interval == pytest.approx(1.96 * 2.5, rel=0.1)
    assert base.low == pytest.approx(base.mean - base.interval, abs=0.5)
    assert other.score == base.score and other.p_value == 1


@pytest.mark.parametrize("test", TESTS)
def test_equal_systems_do_not_differ(test):
    run = sentences(60, 0.3, 2)
    _, other = compare(BLEU, {"a": statistics(BLEU, run), "b": statistics(BLEU, run)}, test, "", samples=200).systems
    assert other.p_value == 1


@pytest.mark.parametrize("test", TESTS)
def test_the_same_call_gives_the_same_values(test):
    systems = {"a": statistics(BLEU, sentences(60, 0.3, 2)), "b": statistics(BLEU, sentences(60, 0.25, 3))}
    assert compare(BLEU, systems, test, "", 200) == compare(BLEU, systems, test, "", 200)


# Over seeds.


@pytest.mark.parametrize("test", TESTS)
def test_several_runs_are_compared_by_their_mean(test):
    base = statistics(BLEU, *(sentences(100, 0.3, seed) for seed in (2, 3, 4)))
    better = statistics(BLEU, *(sentences(100, 0.1, seed) for seed in (5, 6)))
    comparison = compare(BLEU, {"base": base, "better": better}, test, "", samples=300)
    first, other = comparison.systems
    assert len(first.runs) == 3 and len(other.runs) == 2
    assert first.score == pytest.approx(np.mean(first.runs)) and other.p_value < 0.02
    assert comparison.signature.endswith("|runs:3")


def test_differing_runs_widen_the_interval():
    """Two runs, all right and all wrong: resampling the test set changes nothing, resampling the runs everything."""
    apart = matches([1] * 50, [0] * 50)
    (found, _) = compare(MATCH, {"apart": apart, "other": matches([1, 0] * 25)}, "bootstrap", "", 400).systems
    assert (found.low, found.high) == (0, 100)


# Many comparisons.


def test_corrections_by_hand():
    """Of 0.01, 0.04, 0.03: Bonferroni times 3; Holm 3 x 0.01, 2 x 0.03, and 1 x 0.04 is raised to 0.06."""
    assert adjust_p_values([0.01, 0.04, 0.03], "bonferroni") == pytest.approx([0.03, 0.12, 0.09])
    assert adjust_p_values([0.01, 0.04, 0.03], "holm") == pytest.approx([0.03, 0.06, 0.06])
    assert adjust_p_values([0.9, 0.5], "bonferroni") == [1, 1]


@given(st.lists(st.floats(0, 1), min_size=1, max_size=12))
def test_holm_lies_between_no_correction_and_bonferroni(values):
    holm = adjust_p_values(values, "holm")
    for raw, one, other in zip(values, holm, adjust_p_values(values, "bonferroni"), strict=True):
        assert raw <= one <= other + 1e-12
    assert [holm[i] for i in np.argsort(values, kind="stable")] == sorted(holm)


def test_all_comparisons_of_a_test_are_corrected_together():
    systems = {name: statistics(BLEU, sentences(80, 0.3 - 0.1 * n, n + 2)) for n, name in enumerate("abc")}
    found = [compare(BLEU, systems, "randomisation", "m", 100), compare(BLEU, systems, "randomisation", "n", 100)]
    after = correct_p_values(found, "bonferroni")
    for before, each in zip(found, after, strict=True):
        assert each.signature == f"{before.signature}|bonferroni:4"
        assert [one.corrected for one in each.systems] == [
            None, *(min(1, 4 * one.p_value) for one in before.systems[1:])
        ]  # fmt: skip
    assert correct_p_values(found, None) == found


def test_a_single_system_cannot_be_compared():
    with pytest.raises(UsageError, match="two or more"):
        compare(MATCH, {"a": matches([1])}, "bootstrap", "")
