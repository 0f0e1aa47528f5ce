"""METEOR equals cases worked out by hand from its definition; its alignments are optimal."""

from itertools import chain, combinations, permutations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from interlinear.metrics.catalogue import select_metrics
from interlinear.metrics.meteor import LANGUAGE_PARAMETERS, Meteor, align, function_words, snowball_stemmer
from interlinear.metrics.metric import Preprocessing, ReferenceSet, SystemOutputs

WORDS = st.lists(st.sampled_from("abc"), max_size=6)


def score(hypotheses, references, language=None, **reading):
    (metric,) = select_metrics(["meteor"], Preprocessing(language=language, **reading))
    return metric.score(SystemOutputs.from_lines(hypotheses), ReferenceSet.from_lines(references))


def value(hypothesis, *references, language=None, **reading):
    return score([hypothesis], [[reference] for reference in references], language, **reading).score


# Alignments.


@pytest.mark.parametrize(
    ("hypothesis", "reference", "links"),
    [
        ("a b a c", "a c a b", ((0, 2), (1, 3), (2, 0), (3, 1))),
        ("the the cat", "the cat", ((1, 0), (2, 1))),
        ("the cat", "the the cat", ((0, 1), (1, 2))),
        ("a x a", "a y a", ((0, 0), (2, 2))),
        ("a", "b", ()),
        ("", "a", ()),
    ],
)
def test_alignments_by_hand(hypothesis, reference, links):
    assert align(hypothesis.split(), reference.split()) == links


def chunks_of(links):
    return sum(link not in {(i + 1, j + 1) for i, j in links} for link in links)


def every_alignment(hypothesis, reference):
    for size in range(min(len(hypothesis), len(reference)) + 1):
        for ours in combinations(range(len(hypothesis)), size):
            for theirs in permutations(range(len(reference)), size):
                if all(hypothesis[i] == reference[j] for i, j in zip(ours, theirs, strict=True)):
                    yield tuple(zip(ours, theirs, strict=True))


@settings(max_examples=60)
@given(WORDS, WORDS)
def test_alignments_are_optimal(hypothesis, reference):
    def cost(links):
        return -len(links), chunks_of(links), sum(abs(i - j) for i, j in links)

    found = align(hypothesis, reference)
    assert found in every_alignment(hypothesis, reference)
    assert cost(found) == min(map(cost, every_alignment(hypothesis, reference)))


def test_words_with_the_same_stem_match():
    english, german = snowball_stemmer("english"), snowball_stemmer("german")
    assert align(["dogs", "ran"], ["a", "dog"], english) == ((0, 1),)
    assert align(["häuser"], ["haus"], german) == ((0, 0),)
    assert align(["dogs"], ["dog"]) == ()


# Scores: alpha, beta, gamma, delta of English are 0.85, 0.2, 0.6, 0.75; a stem match weighs 0.6.


def test_the_fragmentation_penalty():
    """Six matches in three chunks: the cat / sat / on the mat."""
    found = value("the cat sat on the mat", "on the mat sat the cat")
    assert found == pytest.approx(100 * (1 - 0.3 * (3 / 6) ** 1.4))
    english = value("the cat sat on the mat", "on the mat sat the cat", language="en")
    assert english == pytest.approx(100 * (1 - 0.6 * (3 / 6) ** 0.2))


def test_a_segment_equal_to_its_reference_adds_matches_and_no_chunk():
    assert value("the cat", "the cat", language="en") == pytest.approx(100)
    assert score(["the cat"] * 5, [["the cat"] * 5], "en").score == pytest.approx(100)
    both = score(["the cat", "on the mat sat the cat"], [["the cat", "the cat sat on the mat"]], "en")
    assert both.score == pytest.approx(100 * (1 - 0.6 * (3 / 8) ** 0.2))


def test_precision_and_recall_are_weighted():
    """dogs bark / the dog barks loudly: two stems. P = 1.2 / 2, R = 1.2 / 4; one chunk of two matches."""
    precision, recall = 0.6, 0.3
    mean = precision * recall / (0.85 * precision + 0.15 * recall)
    expected = 100 * mean * (1 - 0.6 * (1 / 2) ** 0.2)
    assert value("dogs bark", "the dog barks loudly", language="en") == pytest.approx(expected)
    assert value("dogs bark", "the dog barks loudly") == 0


def test_function_words_weigh_less():
    """the dogs / a dog: content words have 1 stem match of 1 and 1, function words none of 1 and 1."""
    metric = Meteor("meteor", Preprocessing(language="en"))
    ours = metric.sentence_statistics(["the", "dogs"], ["a", "dog"], frozenset(["the", "a"]))
    assert ours == pytest.approx([0.75 * 0.6, 0.75 + 0.25, 0.75 * 0.6, 0.75 + 0.25, 1, 1])
    swapped = metric.sentence_statistics(["the", "dog"], ["the", "dog"], frozenset(["the"]))
    assert swapped == pytest.approx([1, 1, 1, 1, 0, 2])


def test_function_words_are_frequent():
    lines = [["the"] * 2, [f"w{number}" for number in range(1998)]]
    assert function_words(lines) == {"the"}
    assert function_words([["a", "b"]]) == {"a", "b"}
    assert function_words([]) == frozenset()


def test_the_best_reference_counts():
    one, other = "a small cat sat", "a dog barks"
    best = value("a dog barked", other, language="en")
    assert value("a dog barked", one, other, language="en") == pytest.approx(best)
    assert value("a dog barked", other, one, language="en") == pytest.approx(best)
    assert best > value("a dog barked", one, language="en")


def test_case_is_ignored_unless_requested():
    assert value("The Cat", "the cat") == pytest.approx(100)
    assert value("The Cat", "the cat", lowercase=False) == 0


@given(
    st.lists(st.tuples(WORDS, WORDS.filter(bool)), min_size=1, max_size=4),
    st.sampled_from([*LANGUAGE_PARAMETERS, None]),
)
@settings(max_examples=60)
def test_scores_are_between_0_and_100(lines, language):
    hypotheses, references = ([" ".join(words) for words in column] for column in zip(*lines, strict=True))
    found = score(hypotheses, [references], language).score
    assert 0 <= found <= 100 + 1e-9
    if not set(chain(*(line[0] for line in lines))) & set(chain(*(line[1] for line in lines))):
        assert found == 0


def test_the_signature_names_version_and_parameters():
    assert score(["a"], [["a"]], "de").signature == (
        "meteor:exact+stem:german|like:METEOR-1.5|lang:de|parameters:0.95,1,0.55,0.55,0.8|nrefs:1|case:lc|tok:13a|"
        "function:0.001-of-references"
    )
    assert "meteor:exact|" in score(["a"], [["a"]], "ja").signature
    assert "lang:other|parameters:0.7,1.4,0.3,0.7|" in score(["a"], [["a"]], "ja").signature
