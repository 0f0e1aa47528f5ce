"""Terms of the texts of a request: finding them, and keeping each within one sentence."""

from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache

from seq2seq.errors import RequestError
from seq2seq.generate import Request
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
        self._finders: dict[str, TermFinder] = {}

    @property
    def characters(self) -> int:
        """The length of the texts that an index is made of."""
        return self.options.characters if self.options else 0

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


def join_divided(spans: Sequence[Span], terms: Sequence[Term]) -> list[Span]:
    """The spans of sentences, of which those that a term reaches over are one."""
    joined: list[Span] = []
    for start, end in spans:
        if joined and any(term.start < joined[-1][1] and start < term.end for term in terms):
            joined[-1] = (joined[-1][0], end)
        else:
            joined.append((start, end))
    return joined


def terms_within(terms: Sequence[Term], start: int, end: int) -> tuple[Term, ...]:
    """The terms of a sentence, with their positions in it."""
    return tuple(
        replace(term, start=term.start - start, end=term.end - start)
        for term in terms
        if start <= term.start and term.end <= end
    )
