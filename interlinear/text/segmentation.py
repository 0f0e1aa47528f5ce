"""Splitting text into words: patterns of words and punctuation, Moses' tokenizer, longest-match segmentation."""

import re
import unicodedata
from functools import lru_cache
from typing import Any

from tokenizers import Regex, pre_tokenizers

from interlinear.text.normalization import MappedText, align_characters, replace_matches
from interlinear.text.words import UNSPACED_RANGES, WORD, Span

LONGEST_PIECE = 20  # characters, for longest-match segmentation

ONLY_WORD = pre_tokenizers.Split(Regex(rf"\A{WORD}\z"), "removed", invert=True)


def moses_tokenize(mapped: MappedText, language: str | None) -> MappedText:
    """Separate words and punctuation by spaces with Moses' tokenizer."""
    text = "".join(" " if unicodedata.category(letter) == "Cc" else letter for letter in mapped.text)
    joined = " ".join(moses(language)[0].tokenize(text, escape=False))
    return mapped.then(joined, align_characters(joined, text))


def segment(mapped: MappedText, known: frozenset[str], joiner: str | None) -> MappedText:
    """Segment words into the longest known pieces, after removing spaces between characters of unspaced scripts.

    Pieces of unspaced scripts have no joiner; the pieces of other words end with `joiner` where the word continues.
    Without `joiner` other words stay whole.
    """
    joined = replace_matches(mapped, re.compile(rf"(?<=[{UNSPACED_RANGES}]) (?=[{UNSPACED_RANGES}])"), "")
    parts: list[str] = []
    spans: list[Span] = []
    for match in re.finditer(rf"([{UNSPACED_RANGES}]+)|[^ {UNSPACED_RANGES}]+", joined.text):
        position = match.start()
        word, marker = match.group(), "" if match.group(1) else joiner
        for piece, size in [(word, len(word))] if marker is None else longest_pieces(word, known, marker):
            parts.append(piece + " ")
            spans += [(i, i + 1) for i in range(position, position + size)]
            position += size
            spans += [(position, position)] * (len(piece) + 1 - size)
    return joined.then("".join(parts), spans)


def longest_pieces(word: str, known: frozenset[str], joiner: str) -> list[tuple[str, int]]:
    """Greedy longest-match segmentation of a word into known pieces, each with its number of characters in the word.

    `joiner`: the suffix of a piece that is continued. If known pieces do not cover the word, returns it whole; with an
    empty joiner, characters without a piece become pieces of their own instead.
    """
    pieces = []
    start = 0
    while start < len(word):
        for end in range(min(len(word), start + LONGEST_PIECE), start, -1):
            piece = word[start:end] + (joiner if end < len(word) else "")
            if piece in known:
                break
        else:
            if joiner:
                return [(word, len(word))]
            end, piece = start + 1, word[start]
        pieces.append((piece, end - start))
        start = end
    return pieces


@lru_cache
def moses(language: str | None) -> tuple[Any, Any]:
    """Moses' tokenizer and detokenizer, needed only for raw text in a tokenised model, and the reverse."""
    from sacremoses import MosesDetokenizer, MosesTokenizer

    return MosesTokenizer(language or "en"), MosesDetokenizer(language or "en")
