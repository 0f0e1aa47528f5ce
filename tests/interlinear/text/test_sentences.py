"""Sentence splitting: offsets are right, and as many leading sentences are returned as fit."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from interlinear.text.sentences import LeadingText, leading_sentences, split_sentences, split_sentences_by_line

TEXTS = st.lists(
    st.sampled_from(
        ["Dr. Smith ran", "He slept", "z. B. Bier", "x", "3.5 km", ".", "!", "? ", " ", "\n", "。", "\u2028", "é"]
    )
).map("".join)


def cut(text, language=None):
    return [text[start:end] for start, end in split_sentences(text, language)]


@pytest.mark.parametrize(
    ("language", "text", "expected"),
    [
        ("en", "Dr. Smith ran. He slept!  Did he? Yes.", ["Dr. Smith ran.", "He slept!", "Did he?", "Yes."]),
        ("en", "It cost 3.5 dollars. Cheap.", ["It cost 3.5 dollars.", "Cheap."]),
        ("de", "Er trinkt z.B. Bier. Sie nicht.", ["Er trinkt z.B. Bier.", "Sie nicht."]),
        ("zh", "你好。再见！", ["你好。", "再见！"]),
        ("en", "A heading\n\nA sentence that\ngoes on. \n", ["A heading", "A sentence that\ngoes on."]),
        ("en", "A \ud800 dog. A cat.", ["A \ud800 dog.", "A cat."]),
        (None, "One. Two.", ["One.", "Two."]),
        ("tlh", "One. Two.", ["One.", "Two."]),
        ("en", " \n ", []),
    ],
)
def test_sentences_by_hand(language, text, expected):
    assert cut(text, language) == expected


@given(TEXTS, st.sampled_from(["en", "de", "zh", None, "no such"]))
def test_every_letter_is_in_a_sentence(text, language):
    found = split_sentences(text, language)
    assert all(one[1] <= other[0] for one, other in pairwise(found))
    covered = {place for start, end in found for place in range(start, end)}
    assert not any(text[place].isalpha() for place in range(len(text)) if place not in covered)
    assert all(text[start:end].strip() == text[start:end] != "" for start, end in found)


def test_line_ends_end_sentences_in_line_mode():
    text = "One line\nanother. A third\r\n\n 😀 last\u2028"
    assert [text[start:end] for start, end in split_sentences_by_line(text, "en")] == [
        "One line",
        "another.",
        "A third",
        "last",
    ]


@given(TEXTS)
def test_line_mode_leaves_out_no_letter(text):
    found = split_sentences_by_line(text, "en")
    covered = {place for start, end in found for place in range(start, end)}
    assert not any(text[place].isalpha() for place in range(len(text)) if place not in covered)
    assert all(one[1] <= other[0] for one, other in pairwise(found))
    assert not any("\n" in text[start:end] or "\u2028" in text[start:end] for start, end in found)


def test_leading_sentences_by_hand():
    text = " Dr. Smith ran.  He slept! Did he?\n"
    assert leading_sentences(text, "en", lambda part: len(part) < 100) == LeadingText(text, 3, 3)
    assert leading_sentences(text, "en", lambda part: len(part) <= 26) == LeadingText(
        " Dr. Smith ran.  He slept!", 2, 3
    )
    assert leading_sentences(text, "en", lambda part: len(part) <= 25) == LeadingText(" Dr. Smith ran.", 1, 3)
    assert leading_sentences(text, "en", lambda part: len(part) <= 14) == LeadingText("", 0, 3)
    assert leading_sentences("", "en", bool) == LeadingText("", 0, 0)
    cut = leading_sentences(text, "en", lambda part: len(part) <= 25)
    assert cut.characters == 15 and not cut.whole


@given(TEXTS, st.integers(0, 40))
def test_as_many_sentences_as_fit_and_no_fewer(text, limit):
    found = leading_sentences(text, "en", lambda part: len(part) <= limit)
    assert text.startswith(found.text) and found.characters <= limit
    ends = [end for _, end in split_sentences(text, "en")]
    assert found.of == len(ends)
    if len(text) <= limit:
        assert found.text == text and found.whole
    else:
        assert found.sentences == sum(end <= limit for end in ends)


def test_a_long_text_is_not_measured_once_per_sentence():
    asked = []

    def fits(part: str) -> bool:
        asked.append(len(part))
        return len(part) <= 5000

    assert leading_sentences("A dog runs. " * 2000, "en", fits).sentences == 416
    assert len(asked) < 15
