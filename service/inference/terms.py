"""Terms of the texts of a request: finding them, and keeping each within one sentence."""

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache
from operator import attrgetter

from seq2seq.errors import RequestError
from seq2seq.generation_request import Request
from seq2seq.terms import Term, TermFinder, TermOptions
from service.models import ServedModel
from service.problems import Problem

Span = tuple[int, int]


class RequestTerms:
    """Finds the terms of a request's texts, with one index for each of their languages. May be used by several
    threads."""

    def __init__(self, options: TermOptions | None) -> None:
        """None: the texts have no terms."""
        self.options = options
        self.characters = options.characters if options else 0  # the length of the texts that an index is made of
        self._finders: dict[str, TermFinder] = {}

    def add_to(self, model: ServedModel, request: Request) -> Request:
        """The request with the terms of its text. Raises Problem for contradictory options.

        Where the model takes no terms, what is protected by its form is left to the model.
        """
        options = self.options
        if options is None or not (options.given or (options.protect and model.bundle.takes_terms)):
            return request
        language, _ = model.language_pair
        try:
            finder = self._finders.get(language) or cached_finder(options, language)
        except RequestError as error:
            raise Problem.in_field(error.where, f"cannot be used: {error.problem}; {error.remedy}") from None
        self._finders[language] = finder
        return replace(request, terms=finder.find(request.texts.get(model.source, "")))


@lru_cache(maxsize=8)
def cached_finder(options: TermOptions, language: str) -> TermFinder:
    """A finder with its index. That of a glossary with 10,000 entries takes 80 ms to make, and serves many requests."""
    return TermFinder(options, language)


term_start, term_end = attrgetter("start"), attrgetter("end")


def join_divided(spans: Sequence[Span], terms: Sequence[Term]) -> list[Span]:
    """The spans of sentences, of which those that a term reaches over are one. Both are in the order of the text."""
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
