"""From what a request gives to its answer: the one road of every route that searches."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

import numpy as np
from pydantic import BaseModel
from starlette.responses import Response

from seq2seq.generation import Answer, Request
from seq2seq.looks import Explanation
from seq2seq.search import SearchOptions
from service import passages
from service.dependencies import Service
from service.engine import SHORT, RefusedError, here_or_aside
from service.models import Served
from service.problems import Problem
from service.requests import SearchRequest, TextsRequest
from service.streaming import Stream

T = TypeVar("T")

EXPLAINED = 300  # characters whose explanation is written in less time than a thread takes to wake

NOTHING = Explanation(source=[], target=[], matrices={}, alignment=[])


@dataclass(frozen=True)
class Item:
    """What one answer is made of: the model, what it reads by the name of the source, and in which field that came."""

    model: Served
    texts: Mapping[str, str]
    fields: Mapping[str, str]
    images: Mapping[str, np.ndarray] = field(default_factory=dict)

    @property
    def blank(self) -> bool:
        """Whether there is nothing to search: such a text is answered by itself."""
        return not self.images and not any(text.strip() for text in self.texts.values())


def items(request: TextsRequest, models: Sequence[Served], texts: Sequence[str]) -> list[Item]:
    """Every text of a request, as it is to be read, with its model."""
    places = [f"{request.field}[{i}]" if request.many else request.field for i in range(len(models))]
    return [
        Item(model, {model.source: text}, {model.source: place})
        for model, text, place in zip(models, texts, places, strict=True)
    ]


@dataclass(frozen=True)
class Found:
    """What a request is answered with: of every item its text, the next best, what ranked them, what was looked at."""

    texts: list[str]
    alternatives: list[list[str]] | None
    scores: list[list[float]] | None
    explanations: list[Explanation] | None

    @staticmethod
    def of(request: SearchRequest, asked: Sequence[Item], answers: Sequence[Answer | None]) -> "Found":
        """From the answer to every item; None is a blank one's."""
        candidates = [answer.candidates if answer else [] for answer in answers]
        return Found(
            [c[0].text if c else next(iter(item.texts.values())) for c, item in zip(candidates, asked, strict=True)],
            [[c.text for c in others[1:]] for others in candidates] if request.alternatives else None,
            [[c.score for c in all_of_it] for all_of_it in candidates] if request.alternatives else None,
            [a.explanation or NOTHING if a else NOTHING for a in answers] if request.explain else None,
        )


def own(values: list[T], many: bool) -> T | list[T]:
    """What belongs to the only item, or to every item in a list."""
    return values if many else values[0]


async def answer(
    service: Service,
    request: SearchRequest,
    asked: Sequence[Item],
    respond: Callable[[Found], BaseModel],
    stream: Stream | None = None,
) -> Response:
    """Search every item with its model, and write what `respond` makes of it; `stream` is told of it meanwhile.

    Raises Problem.
    """
    options = {model: search_options(request, model) for model in {item.model for item in asked}}
    searched = [item for item in asked if not item.blank]
    searches = [
        Request(dict(item.texts), options[item.model], explain=bool(request.explain), images=dict(item.images))
        for item in searched
    ]
    wanted = list(zip([item.model for item in searched], searches, strict=True))
    texts = await passages.split(wanted, service.settings.sentences, service.settings.explained)
    if stream:
        stream.follow([i for i, item in enumerate(asked) if not item.blank], texts)
    try:
        found = await passages.answers(service.engine, texts, stream)
    except RefusedError as refused:
        place = searched[refused.index].fields.get(refused.error.where, refused.error.where)
        remedy = f"; {refused.error.remedy}" if refused.error.remedy else ""
        raise Problem.in_field(place, f"cannot be {request.done}: {refused.error.problem}{remedy}") from None
    one_by_one = iter(found)
    answers = [None if item.blank else next(one_by_one) for item in asked]

    def written() -> Response:
        body = respond(Found.of(request, asked, answers)).model_dump_json(exclude_none=True)
        return Response(body, media_type="application/json")

    characters = sum(len(text) for item in asked for text in item.texts.values())
    return await here_or_aside(characters <= (EXPLAINED if request.explain else SHORT), written)


def search_options(request: SearchRequest, model: Served) -> SearchOptions:
    """The model's own options, changed as the request asks. Raises Problem."""
    own, longest = model.bundle.card.search, model.bundle.card.limits.target_length
    n_best = (request.alternatives or 0) + 1
    beam = request.beam_size or max(own.beam, n_best)
    if beam > model.width:
        raise Problem.in_field("beam_size", f"must be at most {model.width} for {model}")
    if n_best > beam:
        raise Problem.in_field("alternatives", f"must be fewer than beam_size, which is {beam}")
    if request.max_length and request.max_length > longest:
        raise Problem.in_field("max_length", f"must be at most {longest}, the model's limit")
    if request.max_length and request.max_length < own.min_length:
        raise Problem.in_field("max_length", f"must be at least {own.min_length}: the model writes no less")
    changed = {
        "beam": beam,
        "n_best": n_best,
        "length_penalty": request.length_penalty,
        "max_length": request.max_length,
    }
    given = {name: value for name, value in changed.items() if value is not None}
    return SearchOptions.model_validate(own.model_dump() | given)
