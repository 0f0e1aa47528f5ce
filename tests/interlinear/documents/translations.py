"""Translations that are functions of the text, with known links: words are kept, or moved, or looked up."""

from collections.abc import Callable

from interlinear.documents import AlignedText, Document
from interlinear.text.words import word_spans
from research.quality.markup import moved


def same(text: str) -> AlignedText:
    """The text itself."""
    words = word_spans(text)
    return AlignedText(text, words, words, [(i, i) for i in range(len(words))])


def in_capitals(text: str) -> AlignedText:
    """Every word in capital letters, in its place."""
    words = word_spans(text)
    return AlignedText(text.upper(), words, word_spans(text.upper()), [(i, i) for i in range(len(words))])


def backwards(text: str) -> AlignedText:
    """The words of every line from last to first."""
    return moved(text, lambda words: words[::-1])


def by_word(text: str, look_up: Callable[[str], str]) -> AlignedText:
    """Every word translated in its place."""
    return moved(text, lambda words: words, look_up)


def rendered(document: Document, translate: Callable[[str], AlignedText]) -> str:
    """The document with every segment translated."""
    return document.render([translate(segment.text) for segment in document.segments])
