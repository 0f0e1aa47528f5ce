"""Division of long sentences: whole clauses, whole words, whole characters, and terms that stay whole."""

import itertools

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from interlinear.text import TextConfig, Tokenizer, long_sentences
from interlinear.text.long_sentences import divide, grouped, is_surely_within
from interlinear.text.sentences import sentence_separators, split_text

TEXT = st.text(alphabet="ab ,;:-–3.犬猫、e\u0301\u200d👩🔬\n", min_size=1, max_size=80).map(str.strip).filter(bool)


def parts(text: str, longest: int, kept: tuple[tuple[int, int], ...] = ()) -> list[str]:
    spans = divide(text, (0, len(text)), lambda span: span[1] - span[0] <= longest, kept)
    return [text[start:end] for start, end in spans]


@given(TEXT, st.integers(1, 30))
def test_no_character_is_lost_and_all_parts_are_in_order(text, longest):
    spans = divide(text, (0, len(text)), lambda span: span[1] - span[0] <= longest)
    assert all(start < end for start, end in spans)
    assert all(text[start:end] == text[start:end].strip() for start, end in spans)
    assert all(before <= after for (_, before), (after, _) in itertools.pairwise(spans))
    assert "".join("".join(text[start:end].split()) for start, end in spans) == "".join(text.split())


@given(TEXT, st.integers(4, 30), st.data())
def test_terms_stay_whole(text, longest, data):
    start = data.draw(st.integers(0, len(text) - 1))
    end = data.draw(st.integers(start + 1, min(len(text), start + longest)))
    assume(text[start:end] == text[start:end].strip())  # as that of a term
    kept = ((start, end),)
    spans = divide(text, (0, len(text)), lambda span: span[1] - span[0] <= longest, kept)
    assert not any(start < edge < end for span in spans for edge in span)


@pytest.mark.parametrize(
    ("text", "longest", "expected"),
    [
        ("ein Hund läuft, eine Katze schläft heute", 30, ["ein Hund läuft,", "eine Katze schläft heute"]),
        ("ein Hund - eine Katze", 14, ["ein Hund -", "eine Katze"]),
        ("es sind 3,5 km bis zum Haus", 16, ["es sind 3,5", "km bis zum Haus"]),
        ("ein Hund läuft sehr schnell", 16, ["ein Hund läuft", "sehr schnell"]),
        ("狗在公园里跑，猫在河边睡觉", 8, ["狗在公园里跑，", "猫在河边睡觉"]),
        ("狗在公园里跑步", 4, ["狗在公", "园里跑步"]),
        ("hund/katze/maus", 12, ["hund/", "katze/maus"]),
        ("Donaudampfschiff", 8, ["Donaudam", "pfschiff"]),
        ("ee\u0301", 2, ["e", "e\u0301"]),
    ],
)
def test_a_sentence_is_divided_at_clauses_then_words_then_characters(text, longest, expected):
    assert parts(text, longest) == expected


def test_what_cannot_be_divided_stays_whole():
    assert parts("ein sehr langer Name", 4, ((0, 20),)) == ["ein sehr langer Name"]
    assert parts("x", 0) == ["x"]


def test_parts_of_a_word_are_joined_without_a_space():
    assert sentence_separators("Donaudampfschiff", [(0, 8), (8, 16)], "en") == ["", "", ""]
    assert sentence_separators("hund/katze", [(0, 5), (5, 10)], "en") == ["", "", ""]
    assert sentence_separators("狗在公园里", [(0, 2), (2, 5)], "en") == ["", " ", ""]
    assert sentence_separators("Gut.Gut", [(0, 4), (4, 7)], "en") == ["", " ", ""]


@pytest.fixture(scope="module")
def small_tokenizer() -> Tokenizer:
    return Tokenizer.train(["a b c"], TextConfig(units="bpe", vocabulary=300))


@given(st.text(max_size=40) | st.text("aé ½İ\ud800\U0001d160\u0390▁", max_size=40), st.integers(0, 200))
def test_a_text_that_is_surely_within_the_limit_is(small_tokenizer, text, limit):
    if is_surely_within(text, limit):
        assert len(small_tokenizer.encode(text, raw=True).ids) <= limit


def test_a_short_text_is_surely_within_a_limit():
    assert is_surely_within("a", 200) and not is_surely_within("a" * 300, 2)


def test_the_modes_of_splitting():
    text = " One. Two\nthree. "
    found = {mode: [text[a:b] for a, b in split_text(text, "en", mode)] for mode in ("0", "1", "nonewlines")}
    assert found == {
        "0": ["One. Two\nthree."],
        "1": ["One.", "Two", "three."],
        "nonewlines": ["One.", "Two\nthree."],
    }
    assert split_text("  \n ", "en", "0") == []


def test_neighbouring_sentences_are_grouped_as_long_as_they_fit():
    spans = [(0, 4), (5, 9), (10, 30), (31, 33)]
    assert grouped(spans, lambda span: span[1] - span[0] <= 10) == [(0, 9), (10, 30), (31, 33)]


@given(TEXT, st.integers(1, 30), st.integers(1, 3))
def test_the_place_is_that_nearest_to_the_middle_however_near_it_is_sought_first(text, longest, reach):
    expected = parts(text, longest)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(long_sentences, "REACH", reach)
        assert parts(text, longest) == expected


@pytest.mark.parametrize("text", ["." * 100_000 + "a", "ab " * 30_000, "a" * 100_000, "a" + "\u0301" * 100_000])
def test_texts_of_any_length_are_divided_in_linear_time(text):
    """In quadratic time this would take minutes, and reach the time limit of a test."""
    assert "".join(parts(text, 100)).replace(" ", "") == text.replace(" ", "")
