"""The exact text of terms in an output, in place of the tokens that were generated for them.

A tokenizer may lack characters of a term, and decoding may change its spaces. So its tokens are decoded to a stand-in,
one character, and this is replaced at the end.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from unicodedata import category

from interlinear.generation.terms.term import Term
from interlinear.text.detokenizer import Decoded
from interlinear.text.words import Span, is_unspaced

STAND_IN = "\ufdd2"  # a noncharacter; no text contains it
OPENING = {"Ps", "Pi"}  # Unicode's categories of opening brackets and quotes


@dataclass(frozen=True)
class PlacedTerm:
    """A term, and the positions [first, last] of its tokens in an output."""

    term: Term
    first: int
    last: int


def placed_terms(constraints: Sequence[int | None], terms: Sequence[Term]) -> list[PlacedTerm]:
    """The terms of an output in its order. `constraints`: for each token the index of the term that it writes."""
    placed: list[PlacedTerm] = []
    positions: dict[int, list[int]] = {}
    for position, index in enumerate(constraints):
        if index is not None:
            positions.setdefault(index, []).append(position)
    for index, own in positions.items():
        placed.append(PlacedTerm(terms[index], own[0], own[-1]))
    return placed


def stand_ins(placed: Sequence[PlacedTerm]) -> dict[int, str]:
    """The text of each token of a term while an output is decoded: the stand-in for its first token, empty for the
    others."""
    return {
        position: STAND_IN if position == each.first else ""
        for each in placed
        for position in range(each.first, each.last + 1)
    }


def substitute(decoded: Decoded, placed: Sequence[PlacedTerm], source: str) -> tuple[Decoded, list[Span]]:
    """The text with every stand-in replaced by its term, and the terms' spans in it. Every token of a term has the
    term's span.

    Spaces stay as the tokens have them, except that there is none behind an opening bracket or quote, between
    characters of scripts without spaces, and beside a mark or a term that is beside the term in the source text too.
    """
    text, spans = "", []
    moved: list[int] = []  # the new position of each character
    done, last = 0, None
    for each in placed:
        at = decoded.offsets[each.first][0]
        text, moved = append(text, moved, decoded.text[done:at])
        touches = last is not None and last == each.term.start and text[spans[-1][1] :] == " "
        if text.endswith(" ") and (touches or joins_before(text[:-1], source, each.term)):
            text = text[:-1]
        start = len(text)
        text += each.term.target
        moved.append(start)
        done = at + 1
        if decoded.text[done : done + 1] == " " and joins_behind(decoded.text[done + 1 :], source, each.term):
            moved.append(len(text))
            done += 1
        spans.append((start, len(text)))
        last = each.term.end
    text, moved = append(text, moved, decoded.text[done:])
    moved.append(len(text))
    offsets = [(moved[start], moved[end]) for start, end in decoded.offsets]
    for each, span in zip(placed, spans, strict=True):
        offsets[each.first : each.last + 1] = [span] * (each.last + 1 - each.first)
    return Decoded(text, offsets), spans


def append(text: str, moved: list[int], more: str) -> tuple[str, list[int]]:
    """The text with another appended, and the positions of its characters."""
    return text + more, [*moved, *range(len(text), len(text) + len(more))]


def joins_before(text: str, source: str, term: Term) -> bool:
    """Whether a term follows a text without a space."""
    if not text:
        return True
    beside = source[term.start - 1 : term.start] if term.start else ""
    if is_unspaced(text[-1]) and is_unspaced(term.target[0]):
        return True
    return category(text[-1]) in OPENING or (text[-1] == beside and not beside.isalnum())


def joins_behind(text: str, source: str, term: Term) -> bool:
    """Whether a text follows a term without a space."""
    beside = source[term.end : term.end + 1]
    if is_unspaced(text[:1]) and is_unspaced(term.target[-1]):
        return True
    return text[:1] == beside and bool(beside) and not beside.isalnum()
