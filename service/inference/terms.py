"""Terms of the texts of a request: finding them, and keeping each within one sentence."""

from collections.abc import Sequence
from dataclasses import replace

from seq2seq.errors import RequestError
from seq2seq.generate import Request
from seq2seq.terms import Term, TermOptions, term_finder
from service.models import ServedModel
from service.problems import Problem

Span = tuple[int, int]


def with_terms(model: ServedModel, request: Request, options: TermOptions | None) -> Request:
    """The request with the terms of its text. Raises Problem for contradictory options.

    Where the model takes no terms, what is protected by its form is left to the model.
    """
    if options is None or not (options.given or (options.protect and model.bundle.takes_terms)):
        return request
    try:
        finder = term_finder(options, model.language_pair[0])
    except RequestError as error:
        raise Problem.in_field(error.where, f"cannot be used: {error.problem}; {error.remedy}") from None
    return replace(request, terms=finder.find(request.texts.get(model.source, "")))


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
