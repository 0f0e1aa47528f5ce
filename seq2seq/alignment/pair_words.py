"""The words of sentence pairs: how texts are split, and the form in which aligners compare words."""

import sys
from collections.abc import Iterable

from seq2seq.text import word_spans
from seq2seq.text.config import Span
from seq2seq.text.segmentation import spaced_spans


def split_words(text: str, tokenised: bool) -> list[Span]:
    """Spans of a text's words: of tokenised text what spaces separate, of raw text words and punctuation marks."""
    return spaced_spans(text) if tokenised else word_spans(text)


def normalize_words(words: Iterable[str]) -> list[str]:
    """Words as aligners compare them: in lower case, and without spaces, which a word of segmented text may have."""
    return [sys.intern("".join(word.lower().split())) for word in words]  # each once: a corpus repeats them


def normalized_words(text: str, tokenised: bool) -> list[str]:
    """The words of a text as aligners compare them."""
    return normalize_words(text[start:end] for start, end in split_words(text, tokenised))
