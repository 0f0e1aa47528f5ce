"""Sentences by hand, and what holds of any text."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from seq2seq.sentences import sentence_spans


@pytest.mark.parametrize(
    ("language", "text", "expected"),
    [
        ("de", "Dr. Müller kam um 3.5 Uhr. Dann ging er.", ["Dr. Müller kam um 3.5 Uhr.", "Dann ging er."]),
        ("de", "Das ist z. B. so. Ja!", ["Das ist z. B. so.", "Ja!"]),
        ("en", "Mr. Smith left.  Why?\n\n  Nobody knows", ["Mr. Smith left.", "Why?", "Nobody knows"]),
        ("en", "one line\nanother line\r\na third", ["one line", "another line", "a third"]),
        ("en", "😀 One. 😀 Two.", ["😀 One.", "😀 Two."]),
        ("zh", "你好。再见！", ["你好。", "再见！"]),
        ("zh-Hans", "你好。再见！", ["你好。", "再见！"]),
        ("en", "No end", ["No end"]),
        ("en", " \n ", []),
        ("xx", "A language. Nobody knows it.", ["A language.", "Nobody knows it."]),
    ],
)
def test_by_hand(language: str, text: str, expected: list[str]):
    assert [text[start:end] for start, end in sentence_spans(text, language)] == expected


@given(
    st.text(alphabet=st.one_of(st.sampled_from(" \n.?!\"'“”()。Aa1z\r\u2028\xa0"), st.characters())),
    st.sampled_from(["de", "en", "zh", "ar"]),
)
def test_only_white_space_lies_outside_sentences(text: str, language: str):
    spans, at = sentence_spans(text, language), 0
    for start, end in spans:
        assert at <= start < end
        assert not text[at:start].strip()
        assert text[start:end] == text[start:end].strip()
        at = end
    assert not text[at:].strip()
