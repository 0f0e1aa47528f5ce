"""Doubtful words: what a reader of a translation wants to be told, and what not."""

import re

import pytest

from interlinear.alignment.doubts import DoubtThresholds, find_doubts, with_doubts
from interlinear.explanation import Doubt, Explanation, Span, to_spans

THRESHOLDS = DoubtThresholds(probability=0.2, attended=0.3, attended_letters=4, repeated=0.5, repeated_letters=3)


def explanation(
    source: str,
    target: str,
    links: list[tuple[int, int]],
    confidence: list[float | None] | None = None,
    **further: object,
) -> Explanation:
    """An explanation of words separated by spaces; a link's target word attends to its source word with 0.9."""
    rows = [
        [0.9 if (i, j) in links else 0.0 for i, _ in enumerate(source.split())] for j, _ in enumerate(target.split())
    ]
    fields = {"matrices": {"attention": rows}, "alignment": links, "aligned_by": "attention"} | further
    confidence = confidence or [0.95] * len(target.split())
    return Explanation(source=spans(source), target=spans(target), confidence=confidence, **fields)


def spans(text: str) -> list[Span]:
    """Its words between spaces."""
    return to_spans(text, [word.span() for word in re.finditer(r"\S+", text)])


def doubts(explained: Explanation, complete: bool = True) -> list[tuple[str, str]]:
    """The reason and the word of every doubt."""
    found = find_doubts(explained, complete, THRESHOLDS)
    return [(doubt.reason, getattr(explained, doubt.side)[doubt.word].text) for doubt in found]


def test_nothing_is_said_of_a_sure_translation_of_every_word():
    assert doubts(explanation("ein Hund schläft .", "a dog sleeps .", [(0, 0), (1, 1), (2, 2), (3, 3)])) == []


def test_an_improbable_word_is_named():
    links = [(0, 0), (1, 1), (2, 2), (3, 3)]
    assert doubts(explanation("ein Hund schläft .", "a horse sleeps !", links, [0.9, 0.05, 0.2, 0.01])) == [
        ("low_probability", "horse")
    ], "neither a word at the threshold nor a mark"


def test_a_word_without_a_probability_is_not_doubtful():
    assert doubts(explanation("Anna schläft", "Anna sleeps", [(0, 0), (1, 1)], [None, 0.9])) == []


def test_a_content_word_that_nothing_attended_to_is_untranslated():
    links = [(0, 0), (2, 1), (3, 2), (5, 3)]
    assert doubts(explanation("ein kleiner Hund schläft im Garten", "a dog sleeps garden", links)) == [
        ("untranslated", "kleiner")
    ], "the preposition is short"


def test_a_mark_is_never_untranslated_however_long():
    assert doubts(explanation("Ruhe !!!!!! .....", "silence", [(0, 0)])) == []


def test_weights_of_several_words_add_up_to_a_translation():
    links = [(0, 0), (2, 1)]
    rows = [[0.8, 0.2, 0.0], [0.0, 0.2, 0.8]]
    assert doubts(explanation("der große Hund", "big dog", links, matrices={"attention": rows})) == []
    half = [[0.8, 0.1, 0.0], [0.0, 0.1, 0.8]]
    explained = explanation("der große Hund", "big dog", links, matrices={"attention": half})
    assert doubts(explained) == [("untranslated", "große")]


def test_a_summary_may_leave_words_out():
    explained = explanation("gestern schlief der Hund", "dog slept", [(3, 0), (1, 1)])
    assert doubts(explained) == [("untranslated", "gestern")]
    assert doubts(explained, complete=False) == []


def test_a_word_said_twice_of_one_source_word_is_named_with_the_first():
    explained = explanation("der Hund schläft", "the dog sleeps dog", [(0, 0), (1, 1), (2, 2), (1, 3)])
    assert find_doubts(explained, True, THRESHOLDS) == [
        Doubt(reason="repeated", side="target", word=3, earlier=1),
    ]
    capital = explanation("der Hund schläft", "Dog sleeps dog", [(1, 0), (2, 1), (1, 2)])
    assert ("repeated", "dog") in doubts(capital), "in upper and lower case"


@pytest.mark.parametrize(
    ("source", "target", "links"),
    [
        ("ein Hund und noch ein Hund", "a dog and another dog", [(0, 0), (1, 1), (2, 2), (3, 3), (1, 4), (5, 4)]),
        ("Fußballspieler laufen", "soccer players run", [(0, 0), (0, 1), (1, 2)]),
        ("dieser Hund , jene Katze", "this dog , that cat ,", [(0, 0), (1, 1), (2, 2), (3, 3), (4, 4), (2, 5)]),
        ("sobald er geht", "as soon as he goes", [(0, 0), (0, 1), (0, 2), (1, 3), (2, 4)]),
    ],
    ids=["the source says it twice", "two words for a compound", "marks", "a word that is two words"],
)
def test_what_is_no_repetition(source, target, links):
    assert [found for found in doubts(explanation(source, target, links)) if found[0] == "repeated"] == []


def test_a_repetition_needs_weight():
    links = [(0, 0), (1, 1), (1, 2)]
    rows = [[0.9, 0.0], [0.0, 0.9], [0.3, 0.4]]
    assert doubts(explanation("der Hund", "the dog dog", links, matrices={"attention": rows})) == []


def test_without_a_text_source_only_probabilities_count():
    alone = Explanation(source=[], target=spans("a dog"), matrices={}, alignment=[], confidence=[0.9, 0.1])
    assert doubts(alone) == [("low_probability", "dog")]


def test_without_probabilities_an_explanation_makes_no_claim():
    links = [(0, 0), (1, 1)]
    explained = explanation("Anna schläft", "Anna sleeps", links).model_copy(update={"confidence": None})
    assert with_doubts(explained, True).doubts is None
    assert with_doubts(explanation("Anna schläft", "Anna sleeps", links), True).doubts == []


def test_words_that_the_model_has_never_seen_are_named_but_no_marks():
    explained = with_doubts(explanation("der Quark ♥", "the dog", [(0, 0), (1, 1)]), True, unseen=[1, 2])
    assert explained.doubts == [Doubt(reason="unseen", side="source", word=1)]
