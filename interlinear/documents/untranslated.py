"""Finds the text of a segment that is not translated, in every format: addresses, template tags, mentions, and text
without letters beside words."""

import re
from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from interlinear.documents.document import Segment
from interlinear.documents.inline import CharacterSpan, InlineTag, Template
from interlinear.documents.invisible import with_invisible
from interlinear.documents.placement import CLOSING_MARKS
from interlinear.documents.protection import is_combining
from interlinear.generation.terms.placeholders import ADDRESS, PLACEHOLDER

# {{ x }}, {{{ x }}}, {{< x >}}, {% x %}, {# x #}, <%= x %>, also over lines; each ends before the next begins, so that
# the time is linear in the text.
TEMPLATE_TAG = (
    r"\{\{\{?[^{}]*\}\}\}?|\{%(?:[^%{]|%(?!\})|\{(?!%))*%\}|\{#(?:[^#{]|#(?!\})|\{(?!#))*#\}"
    r"|<%(?:[^%<]|%(?!>)|<(?!%))*%>"
)
MASKED = "[\U000f0000-\U0010fffd]+"  # `interlinear.documents.masks`, and the icons of fonts
KEPT = re.compile("|".join((ADDRESS, TEMPLATE_TAG, PLACEHOLDER, MASKED)))
TRIGGER = re.compile(r"[@#{<:%$&(*\[_\]\U000f0000-\U0010fffd]|www\.")  # in each of them
LIST_MARK = re.compile(r"\(?\d[\d.]*[.):]\)?|[^\w\s]+")  # "1.", "(2)", "3.1.", "•"
PUNCTUATION = frozenset("\"'„“‚‘«‹([{¿¡-–—") | CLOSING_MARKS


def has_letters(text: str) -> bool:
    """Whether there is something to translate: numbers, marks and symbols alone stay unchanged."""
    return any(character.isalpha() for character in text)


def protect_untranslated(segment: Segment, written: Callable[[int], Template], escape: Callable[[str], str]) -> Segment:
    """The segment with protected tags around its text that is not translated. `written`: the original markup of a tag,
    by its index."""
    tags = protect_elements(segment.text, segment.tags, written) if segment.tags else ()
    spans = untranslated_spans(segment.text)
    if spans:
        pieces = divide_at_edges(spans, sorted({edge for tag in tags for edge in (tag.start, tag.end)}))
        text = segment.text
        markup = [(start, end, escape(with_invisible(text[start:end], segment.forms))) for start, end in pieces]
        tags = insert_protected(tags, markup)
    return replace(segment, tags=tuple(tags))


def untranslated_spans(text: str) -> list[CharacterSpan]:
    """The spans of the patterns and, of a text of several lines, of the lines without letters, in order."""
    if "\n" not in text and not TRIGGER.search(text):
        return []
    lines = [line.span() for line in re.finditer(r"[^\n]+", text)]
    spans: list[CharacterSpan] = []
    for start, end in lines:
        found = [match.span() for match in KEPT.finditer(text, start, end)]
        spans += [(start, end)] if len(lines) > 1 and not has_letters(outside(text, start, end, found)) else found
    return spans


def outside(text: str, start: int, end: int, spans: Sequence[CharacterSpan]) -> str:
    """The characters [start, end) of a text that are in none of the spans."""
    edges = [start, *(edge for span in spans for edge in span), end]
    return "".join(text[a:b] for a, b in zip(edges[::2], edges[1::2], strict=True))


class Positions:
    """The places of the characters of a kind in a text."""

    def __init__(self, text: str, is_kind: Callable[[str], bool]) -> None:
        self._places = [n for n, character in enumerate(text) if is_kind(character)]

    def any_in(self, start: int, end: int) -> bool:
        return bisect_left(self._places, start) < bisect_left(self._places, end)


def protect_elements(text: str, tags: Sequence[InlineTag], written: Callable[[int], Template]) -> list[InlineTag]:
    """The tags, with each element that has no letters and is not a word as one protected tag: the number of a note,
    `m<sup>3</sup>`, the number of a list's item."""
    letters = Positions(text, lambda character: character.isalpha() or character == "\n")
    signs = Positions(text, lambda character: not (character.isspace() or character in PUNCTUATION))
    kept: list[InlineTag] = []
    numbers: dict[int | None, int | None] = {None: None}  # new ones, by the old; of protected elements -1
    for n, tag in enumerate(tags):
        if numbers[tag.parent] == -1:
            numbers[n] = -1
            continue
        is_element = tag.closing and tag.start < tag.end and not (tag.protected or tag.line_break)
        has_only_signs = is_element and signs.any_in(tag.start, tag.end) and not letters.any_in(tag.start, tag.end)
        new = replace(tag, parent=numbers[tag.parent])
        start = tag.start + (text[tag.start : tag.start + 1] == " ")  # the space before it
        if has_only_signs and is_mark(text, start, tag.end):
            numbers[n] = -1
            new = replace(new, start=start, opening=written(n), closing="", protected=True)
        else:
            numbers[n] = len(kept)
        kept.append(new)
    return kept


def is_mark(text: str, start: int, end: int) -> bool:
    """Whether characters without letters are a mark at a word or of a list item, and not a word."""
    before, after = text[start - 1 : start], text[end : end + 1]
    if before.isalnum() or is_combining(before) or (before and before in CLOSING_MARKS):
        return not after.isalnum()  # the 2 of H2O stays in its word
    if after.isupper() and not before.strip():
        return True
    return before in ("", "\n") and after in ("", " ") and LIST_MARK.fullmatch(text, start, end) is not None


def divide_at_edges(spans: Sequence[CharacterSpan], edges: Sequence[int]) -> Iterator[CharacterSpan]:
    """The spans in parts that have no edge inside."""
    for start, end in spans:
        for edge in edges[bisect_left(edges, start + 1) : bisect_left(edges, end)]:
            yield start, edge
            start = edge
        yield start, end


def insert_protected(tags: Sequence[InlineTag], pieces: Sequence[tuple[int, int, str]]) -> list[InlineTag]:
    """The tags with protected ones around pieces of text, each with its markup, in the order in which they open. A
    piece has no edge of a tag inside; one in a tag that is protected is left out."""
    inserted: list[InlineTag] = []
    numbers: list[int] = []  # new ones of the tags
    around: list[int] = []  # the tags that are open, by their new numbers
    remaining = iter(pieces)
    piece = next(remaining, None)

    def add_pieces(before: int) -> None:
        nonlocal piece
        while piece is not None and piece[0] < before:
            start, end, markup = piece
            while around and inserted[around[-1]].end <= start:
                around.pop()
            parent = around[-1] if around else None
            if parent is None or not (inserted[parent].protected or inserted[parent].line_break):
                inserted.append(InlineTag(start, end, (markup,), parent=parent, protected=True))
            piece = next(remaining, None)

    for tag in tags:
        add_pieces(tag.start)
        numbers.append(len(inserted))
        if tag.start < tag.end:
            while around and inserted[around[-1]].end <= tag.start:
                around.pop()
            around.append(len(inserted))
        inserted.append(replace(tag, parent=None if tag.parent is None else numbers[tag.parent]))
    add_pieces(max((start for start, _, _ in pieces), default=0) + 1)
    return inserted
