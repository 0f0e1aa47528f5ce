"""Inline tags over the text of a segment, and a translation with the words that are linked."""

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass

Template = tuple[str | int, ...]  # markup as written, and indices of the segments whose translations it contains
CharacterSpan = tuple[int, int]  # [start, end)


@dataclass(frozen=True)
class InlineTag:
    """A tag around the characters [start, end) of a segment's text; start == end for a tag that encloses no characters.

    opening, closing: the markup that is written before and after; without closing a tag is one piece of markup.
    parent: the index of the innermost tag around this one; None at the top.
    line_break: the tag is a line break, and its character is a line feed.
    protected: the tag's text is not translated; `opening` is the whole tag with its text. space_before, space_after:
    white space separates a displayed tag without characters (an image) from its neighbours. extra_space: the tag is the
    second of two spaces between words.
    divides: a tag without characters stands between two words in place of the space that the text has there.
    """

    start: int
    end: int
    opening: Template
    closing: str = ""
    parent: int | None = None
    line_break: bool = False
    protected: bool = False
    space_before: bool = False
    space_after: bool = False
    divides: bool = False
    extra_space: bool = False


@dataclass(frozen=True)
class AlignedText:
    """The translation of a segment's text, the words of both, and their links.

    source_words, target_words: character spans in the segment's text and in `text`, in order, not overlapping.
    links: pairs of indices of a source word and a target word.
    """

    text: str
    source_words: Sequence[CharacterSpan] = ()
    target_words: Sequence[CharacterSpan] = ()
    links: Sequence[tuple[int, int]] = ()

    @classmethod
    def of_parts(cls, text: str, source: Sequence[CharacterSpan], target: Sequence[CharacterSpan]) -> "AlignedText":
        """A translation by parts, such as sentences, without word alignment: each part is linked as one word."""
        return cls(text, source, target, [(i, i) for i in range(min(len(source), len(target)))])


def join_aligned(parts: Sequence[AlignedText], separators: Sequence[str], offsets: Sequence[int]) -> AlignedText:
    """The translation of a text, joined from its sentences' translations, which begin at these offsets.

    separators: the text before, between and after the translations, one more than there are sentences.
    """
    written: list[str] = []
    source_words: list[CharacterSpan] = []
    target_words: list[CharacterSpan] = []
    links: list[tuple[int, int]] = []
    position = 0
    for separator, offset, part in zip(separators, offsets, parts, strict=False):
        position += len(separator)
        links += ((i + len(source_words), j + len(target_words)) for i, j in part.links)
        source_words += ((start + offset, end + offset) for start, end in part.source_words)
        target_words += ((start + position, end + position) for start, end in part.target_words)
        position += len(part.text)
        written += [separator, part.text]
    return AlignedText("".join([*written, separators[-1]]), source_words, target_words, links)


def is_edge_inside(text: str, edges: Sequence[int], start: int, end: int) -> bool:
    """Whether an edge of a tag lies between the words in the characters [start, end): after the start of the first, and
    before the end of the last. `edges` are in order."""
    part = text[start:end]
    first, last = start + len(part) - len(part.lstrip()), start + len(part.rstrip())
    return bisect_right(edges, first) < bisect_left(edges, last)
