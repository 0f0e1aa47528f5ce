"""Terms of a source text, their checks, and the terms of a sentence."""

import re
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, replace
from operator import attrgetter

from interlinear.errors import RequestError
from interlinear.text.words import Span

TERMS = "terms"  # location of errors
MULTILINE = re.compile(r"[\r\n\v\f\x1c-\x1e\x85\u2028\u2029]")


@dataclass(frozen=True)
class Term:
    """The characters [start, end) of a source text, and the exact text that stands for them in the output.

    plain_number: whether it is a number or code without a unit that was found by its form. A model whose vocabularies
    have it as a word translates it itself ("2 Hunde", "two dogs").
    """

    start: int
    end: int
    target: str
    plain_number: bool = False


def check_terms(text: str, terms: Sequence[Term]) -> None:
    """Raises RequestError for terms that are not in the order of the text, overlap, or have no target."""
    position = 0
    for term in terms:
        if not position <= term.start < term.end <= len(text):
            raise RequestError(
                TERMS,
                f"the term at characters {term.start} to {term.end} overlaps another, or is outside the text",
                "give terms that follow each other in the text",
            )
        check_target(TERMS, text[term.start : term.end], term.target)
        position = term.end


def check_target(where: str, source: str, target: str) -> None:
    """Raises RequestError, located at `where`, for a target without text or of several lines."""
    if not target.strip():
        raise RequestError(where, f"the target of '{source}' is empty", "give the text that stands for it")
    if MULTILINE.search(target):
        raise RequestError(where, f"the target of '{source}' has a line break", "give it as one line")


def only_terms(text: str, terms: Sequence[Term]) -> bool:
    """Whether a text has no letter outside terms that stay unchanged, so that it is its own translation."""
    unchanged = all(text[term.start : term.end] == term.target for term in terms)
    return unchanged and not any(character.isalpha() for part in between(text, terms) for character in part)


def between(text: str, terms: Sequence[Term]) -> list[str]:
    """The parts of a text before, between and after its terms."""
    ends = [0, *(term.end for term in terms)]
    starts = [*(term.start for term in terms), len(text)]
    return [text[end:start] for end, start in zip(ends, starts, strict=True)]


term_start, term_end = attrgetter("start"), attrgetter("end")


def join_divided(spans: Sequence[Span], terms: Sequence[Term]) -> list[Span]:
    """The spans of sentences; sentences that one term spans are joined. Both are in the order of the text."""
    joined: list[Span] = []
    for start, end in spans:
        i = bisect_right(terms, start, key=term_end)  # the first term that ends after this
        if joined and i < len(terms) and terms[i].start < joined[-1][1]:
            joined[-1] = (joined[-1][0], end)
        else:
            joined.append((start, end))
    return joined


def terms_within(terms: Sequence[Term], start: int, end: int) -> tuple[Term, ...]:
    """The terms of a sentence, with their positions in it. `terms` are in the order of the text."""
    first, last = bisect_left(terms, start, key=term_start), bisect_right(terms, end, key=term_end)
    return tuple(replace(term, start=term.start - start, end=term.end - start) for term in terms[first:last])
