"""Inline tags of a segment in its translation: their places, and the white space around them."""

from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import TYPE_CHECKING

from interlinear.documents.inline import AlignedText, CharacterSpan, InlineTag

if TYPE_CHECKING:
    from interlinear.alignment.projection import TagEdge, TagSpan

Edge = tuple[InlineTag, bool]  # a tag, and whether it opens here
Piece = str | Edge

LARGEST_PROJECTION = 2_000_000  # tags times words that are projected by alignment, which takes about 100 bytes for each
CLOSING_MARKS = frozenset(",.;:!?)]}»”’%、。，；：！？）」』】…")  # not preceded by a space


def place_tags(text: str, tags: Sequence[InlineTag], translation: AlignedText) -> list[Piece]:
    """The translation of a segment's text in pieces: text, and the edges of every tag in document order, nested.

    Edges stand at the edges of words, white space outside the tags. A tag with an edge inside a word encloses the same
    part of a word that stays unchanged in the translation, such as the 2 of H2O; otherwise it encloses the whole word.
    Of two adjacent tags in one word, the first encloses it.
    """
    if not tags:
        return [translation.text]
    from interlinear.alignment.projection import project, tag_edges  # imports numpy

    source, source_index = with_line_breaks(text, translation.source_words)
    target, target_index = with_line_breaks(translation.text, translation.target_words)
    links = [(source_index[i], target_index[j]) for i, j in translation.links]
    links += zip(line_breaks(text, source), line_breaks(translation.text, target), strict=False)
    source, target, links = split_copied_words(text, translation.text, tags, source, target, links)
    spans = word_spans(tags, source)
    if len(spans) * len(target) <= LARGEST_PROJECTION:
        projected = project(spans, links, len(source), len(target))
    else:
        projected = scaled(spans, len(source), len(target))
    edges = tag_edges(projected)
    return write(translation.text, tags, edges, edge_offsets(translation.text, target, projected, edges))


def with_line_breaks(text: str, words: Sequence[CharacterSpan]) -> tuple[list[CharacterSpan], list[int]]:
    """The words of a text with its line feeds as further words, and the new index of each word."""
    breaks = [(i, i + 1) for i, character in enumerate(text) if character == "\n"]
    if not breaks:
        return list(words), list(range(len(words)))
    order = sorted([(span, n) for n, span in enumerate(words)] + [(span, -1) for span in breaks])
    index = [0] * len(words)
    for place, (_, n) in enumerate(order):
        if n >= 0:
            index[n] = place
    return [span for span, _ in order], index


def line_breaks(text: str, words: Sequence[CharacterSpan]) -> list[int]:
    """The indices of the words that are line feeds."""
    return [n for n, (start, end) in enumerate(words) if text[start:end] == "\n"]


def split_copied_words(
    text: str,
    translation: str,
    tags: Sequence[InlineTag],
    source: Sequence[CharacterSpan],
    target: Sequence[CharacterSpan],
    links: Sequence[tuple[int, int]],
) -> tuple[list[CharacterSpan], list[CharacterSpan], list[tuple[int, int]]]:
    """The words and links, with the words in parts that have an edge of a tag inside, and whose only link is to the
    same word in the translation."""
    edges = sorted({edge for tag in tags for edge in (tag.start, tag.end)})
    cuts = [edges[bisect_right(edges, start) : bisect_left(edges, end)] for start, end in source]
    of_source, of_target = Counter(i for i, _ in links), Counter(j for _, j in links)
    copies = {
        i: j
        for i, j in links
        if cuts[i] and of_source[i] == of_target[j] == 1 and text[slice(*source[i])] == translation[slice(*target[j])]
    }
    if not copies:
        return list(source), list(target), list(links)
    offsets = {i: [cut - source[i][0] for cut in cuts[i]] for i in copies}
    source_parts, source_first = cut_words(source, offsets)
    target_parts, target_first = cut_words(target, {j: offsets[i] for i, j in copies.items()})
    new_links = [
        (source_first[i] + part, target_first[j] + part)
        for i, j in links
        for part in range(len(offsets[i]) + 1 if i in copies else 1)
    ]
    return source_parts, target_parts, new_links


def cut_words(
    words: Sequence[CharacterSpan], offsets: Mapping[int, Sequence[int]]
) -> tuple[list[CharacterSpan], list[int]]:
    """The words, some of them cut at offsets from their start, and the index of each word's first part."""
    parts: list[CharacterSpan] = []
    first: list[int] = []
    for n, (start, end) in enumerate(words):
        first.append(len(parts))
        parts += pairwise([start, *(start + offset for offset in offsets.get(n, ())), end])
    return parts, first


def word_spans(tags: Sequence[InlineTag], words: Sequence[CharacterSpan]) -> "list[TagSpan]":
    """The tags over words instead of characters: over each word of which they enclose a character."""
    from interlinear.alignment.projection import TagSpan

    starts, ends = [start for start, _ in words], [end for _, end in words]
    spans: list[TagSpan] = []
    taken: dict[int | None, int] = {}  # by parent: the end of the last tag in it
    last: dict[
        int | None, tuple[int, bool]
    ] = {}  # by parent: where the last tag ends, and whether it belongs to the following text
    for tag in tags:
        parent = TagSpan(0, len(words)) if tag.parent is None else spans[tag.parent]
        start, end = bisect_right(ends, tag.start), bisect_left(starts, tag.end)
        if end <= start:  # between two words, or inside one, after which it stands
            start = end = bisect_left(starts, tag.start)
        start = min(max(start, parent.start, taken.get(tag.parent, 0)), parent.end)
        end = max(min(end, parent.end), start)
        taken[tag.parent] = end
        touches_next = last.get(tag.parent) == (start, True) and not tag.space_before
        belongs_to_next = touches_next or (tag.space_before and not tag.space_after)
        last[tag.parent] = end, belongs_to_next
        spans.append(TagSpan(start, end, tag.parent, "next" if belongs_to_next else "previous"))
    return spans


def scaled(spans: "Sequence[TagSpan]", source: int, target: int) -> "list[TagSpan]":
    """Tags over the corresponding share of the words of the translation."""
    scale = target / max(source, 1)
    return [replace(span, start=round(span.start * scale), end=round(span.end * scale)) for span in spans]


def edge_offsets(
    text: str, words: Sequence[CharacterSpan], spans: "Sequence[TagSpan]", edges: "Sequence[TagEdge]"
) -> list[int]:
    """The character offset of every edge, in order: at the end of the word before, or at the start of the next."""
    closes_later = [False] * len(edges)  # a tag with words is closed at the same position after this edge
    for n in range(len(edges) - 2, -1, -1):
        edge, following = edges[n], edges[n + 1]
        if edge.position == following.position:
            closes_later[n] = closes_later[n + 1] or (not following.opens and not is_empty(spans[following.tag]))
    offsets: list[int] = []
    reached = 0
    for edge, before_close in zip(edges, closes_later, strict=True):
        span, position = spans[edge.tag], edge.position
        end_of_previous = words[position - 1][1] if position else 0
        start_of_next = words[position][0] if position < len(words) else len(text)
        at_end = before_close or (span.attached == "previous" if is_empty(span) else not edge.opens)
        reached = max(reached, end_of_previous if at_end else start_of_next)
        offsets.append(reached)
    return offsets


def is_empty(span: "TagSpan") -> bool:
    return span.start == span.end


def write(text: str, tags: Sequence[InlineTag], edges: "Sequence[TagEdge]", offsets: Sequence[int]) -> list[Piece]:
    """The pieces of a text with edges at these offsets, with spaces around tags that are set off by them."""
    writer = PieceWriter()
    done = 0
    for edge, offset in zip(edges, offsets, strict=True):
        writer.write_text(text[done:offset])
        done = offset
        writer.write_edge(tags[edge.tag], edge.opens)
    writer.write_text(text[done:])
    return writer.pieces


class PieceWriter:
    """Collects pieces of text and edges of tags."""

    def __init__(self) -> None:
        self.pieces: list[Piece] = []
        self._last = ""  # the last character that is seen on this line
        self._needs_space = False
        self._in_line_break = False
        self._divides = False  # the next space belongs to the tag that was opened last

    def write_text(self, text: str) -> None:
        """Add text. A line feed is written by its tag; one without a tag would be a space."""
        text = text.replace("\n", "" if self._in_line_break else " ")
        if not text:
            return
        text = text.removeprefix(" " if self._divides else "")
        self._divides = False
        if not text:
            return
        if self._needs_space and not text[0].isspace() and text[0] not in CLOSING_MARKS:
            self._insert_space()
        self._needs_space = False
        self.pieces.append(text)
        self._last = text[-1]

    def write_edge(self, tag: InlineTag, opens: bool) -> None:
        """Add the edge of a tag."""
        if opens and tag.space_before and self._last and not self._last.isspace():
            self._insert_space()
        self.pieces.append((tag, opens))
        self._divides |= opens and tag.divides
        if tag.line_break:
            self._in_line_break, self._last, self._needs_space = opens, "", False
        elif opens and (tag.space_before or tag.space_after):
            self._last, self._needs_space = "\ufffc", tag.space_after

    def _insert_space(self) -> None:
        """Add a space, before the tags that have been opened just now."""
        place = len(self.pieces)
        while place and not isinstance(self.pieces[place - 1], str) and self.pieces[place - 1][1]:
            place -= 1
        self.pieces.insert(place, " ")
        self._needs_space = False
