"""Edges of outputs: marks, bullets and the first letter as in the source."""

from collections.abc import Callable

import pytest

from interlinear.text import TextConfig, Tokenizer
from interlinear.text.formatting import Edges, is_usually_small

LINES = ["the dog sees a dog in the park", "The dog in Berlin", "I see a dog", "Berlin is in the north"] * 5


@pytest.fixture(scope="module")
def is_small() -> Callable[[str], bool]:
    tokenizer = Tokenizer.train(LINES, TextConfig(units="bpe", vocabulary=330, language="en"))
    return lambda word: is_usually_small(word, tokenizer, "en")


@pytest.mark.parametrize(
    ("source", "output", "expected"),
    [
        ("der Hund,", "The dog.", "the dog,"),  # a part of a sentence
        ("der Hund", "The dog.", "the dog"),
        ("Der Hund!", "the dog", "The dog!"),
        ("Der Hund ...", "The dog...", "The dog..."),  # the same marks: as the model writes them
        ("in Berlin.", "Berlin.", "Berlin."),  # a name stays
        ("ich sehe", "I see.", "I see"),
        ("ein Hund", "A dog", "a dog"),
        ("- Der Hund", "The dog", "- The dog"),
        ("Der Hund", "- The dog", "The dog"),
        ("„der Hund", "“The dog", "“the dog"),
        ("狗在公园里，", "The dog.", "The dog,"),  # a script without cases
        ("Der Hund.", ".", "."),  # nothing but marks
    ],
)
def test_an_output_begins_and_ends_as_its_source(is_small, source, output, expected):
    assert Edges().apply(source, output, is_small, "en").text == expected


def test_marks_are_in_the_script_of_the_output(is_small):
    assert Edges().apply("The dog,", "狗。", is_small, "zh").text == "狗，"
    assert Edges().apply("The dog.", "狗。", is_small, "zh").text == "狗。"
    assert Edges().apply("Where?", "أين", is_small, "ar").text == "أين؟"


def test_each_edge_is_changed_alone(is_small):
    assert Edges(end=False).apply("der Hund,", "The dog.", is_small, "en").text == "the dog."
    assert Edges(begin=False).apply("der Hund,", "The dog.", is_small, "en").text == "The dog,"
    assert Edges(begin=False, end=False).apply("der Hund,", "The dog.", is_small, "en").text == "The dog."


def test_terms_stay_as_they_are(is_small):
    assert Edges().apply("der Hund", "The Inc.", is_small, "en", [(4, 8)]).text == "the Inc."
    assert Edges().apply("der Hund", "The dog.", is_small, "en", [(0, 3)]).text == "The dog"
    assert Edges().apply("Hund", "- dog", is_small, "en", [(0, 5)]).text == "- dog"


def test_what_is_certain_of_an_output_that_goes_on():
    for incomplete in ("", "-", "- ", "- Th", "Th", "“Th", "...", "The."):
        assert Edges().certain(incomplete) == ""
    for text in ("The d", "- The dog", "“The,dog"):
        assert Edges().certain(text) == text
    assert Edges().certain("The dog.") == "The dog"
    assert Edges(begin=False).certain("Th.") == "Th"
    assert Edges(end=False).certain("The dog.") == "The dog."


@pytest.mark.parametrize("run", [" ", ".", " .", ". "])
def test_no_text_takes_quadratic_time(is_small, run):
    """A search from every character of a run would not end before the test's time is over."""
    text = "a" + run * 200_000 + "b"
    assert Edges().apply(text, "The dog.", is_small, "en").text == "the dog"
    assert Edges().certain(text) == text
    assert Edges().apply("der Hund,", text, is_small, "en").text == f"{text},"
