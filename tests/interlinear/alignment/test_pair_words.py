"""The words of pairs, as every aligner and command compares them."""

import pytest

from interlinear.alignment.pair_batches import normalize_words, normalized_words, split_words


@pytest.mark.parametrize(
    ("text", "tokenised", "words"),
    [
        ("Isn't it 10,000?", False, ["isn't", "it", "10", ",", "000", "?"]),
        ("Is n't  it 10,000 ?", True, ["is", "n't", "it", "10,000", "?"]),
        ("我爱ÄPFEL。", False, ["我", "爱", "äpfel", "。"]),
        ("我爱 Äpfel 。", True, ["我爱", "äpfel", "。"]),
        (" ", False, []),
        (" ", True, []),
    ],
)
def test_words_of_raw_and_of_tokenised_text_in_lower_case(text: str, tokenised: bool, words: list[str]):
    assert normalized_words(text, tokenised) == words
    assert [text[start:end].lower() for start, end in split_words(text, tokenised)] == words


def test_a_word_of_segmented_text_has_no_spaces():
    """Files of words between spaces would count it as two."""
    assert normalize_words(["Haus@@ boot", "."]) == ["haus@@boot", "."]
