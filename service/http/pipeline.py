"""From what a request gives to its answer: the one road of every route that searches."""

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TypeVar

import numpy as np
from pydantic import BaseModel
from starlette.responses import Response

from seq2seq.explain import Explanation
from seq2seq.generate import Answer, Request
from seq2seq.search import SearchOptions
from service.engine.admission import Reserved
from service.engine.engine import SHORT, RefusedError, here_or_aside
from service.http.dependencies import Caller, Service
from service.http.requests import SearchRequest, TextsRequest
from service.http.streaming import Stream
from service.inference import segmentation
from service.inference.markup import escaped
from service.models import Served
from service.problems import Problem

T = TypeVar("T")

TEXT = 1000  # tokens x beam that a quota and a rate count as a text
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
        write = written(request)
        return Found(
            [
                write(found[0].text if found else next(iter(item.texts.values())))
                for found, item in zip(candidates, asked, strict=True)
            ],
            [[write(c.text) for c in others[1:]] for others in candidates] if request.alternatives else None,
            [[c.score for c in all_of_it] for all_of_it in candidates] if request.alternatives else None,
            [a.explanation or NOTHING if a else NOTHING for a in answers] if request.explain else None,
        )


def written(request: SearchRequest) -> Callable[[str], str]:
    """How a request has texts written."""
    return escaped if request.html else str


def own(values: list[T], many: bool) -> T | list[T]:
    """What belongs to the only item, or to every item in a list."""
    return values if many else values[0]


@asynccontextmanager
async def admitted(service: Service, caller: Caller, request: SearchRequest) -> AsyncIterator[Reserved]:
    """Room for a request in the queue, before any work is done on its texts, and its share of its caller's quota and
    rate: its texts, or where that is more its tokens x beam, 1,000 of which count as a text. Raises Problem."""
    most = service.settings.sentences
    if request.fewest(request.written, most) > most:
        raise segmentation.too_many(most)
    with service.engine.admit(
        caller.name, request.written, lambda texts: request.fewest(texts, most), request.beam_size or 1
    ) as reserved:
        await service.gate.charge(caller.request, request.count)
        reserved.charge = lambda tokens: service.gate.charge(caller.request, -(-tokens // TEXT))
        yield reserved


async def answer(
    service: Service,
    reserved: Reserved,
    request: SearchRequest,
    asked: Sequence[Item],
    respond: Callable[[Found], BaseModel],
    stream: Stream | None = None,
) -> Response:
    """Search every item with its model, in the room that is reserved, and write what `respond` makes of it; `stream` is
    told of it meanwhile.

    Raises Problem.
    """
    options = {model: search_options(request, model) for model in {item.model for item in asked}}
    searched = [item for item in asked if not item.blank]
    searches = [
        Request(dict(item.texts), options[item.model], explain=bool(request.explain), images=dict(item.images))
        for item in searched
    ]
    wanted = list(zip([item.model for item in searched], searches, strict=True))
    texts = await segmentation.split(service.engine, reserved, wanted)
    if stream:
        stream.follow([i for i, item in enumerate(asked) if not item.blank], texts, written(request))
    try:
        found = await segmentation.answers(service.engine, reserved, texts, stream)
    except RefusedError as refused:
        place = searched[refused.index].fields.get(refused.error.where, refused.error.where)
        remedy = f"; {refused.error.remedy}" if refused.error.remedy else ""
        raise Problem.in_field(place, f"cannot be {request.done}: {refused.error.problem}{remedy}") from None
    one_by_one = iter(found)
    answers = [None if item.blank else next(one_by_one) for item in asked]

    def respond_in_json() -> Response:
        body = respond(Found.of(request, asked, answers)).model_dump_json(exclude_none=True)
        return Response(body, media_type="application/json")

    characters = sum(len(text) for item in asked for text in item.texts.values())
    return await here_or_aside(characters <= (EXPLAINED if request.explain else SHORT), respond_in_json)


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
