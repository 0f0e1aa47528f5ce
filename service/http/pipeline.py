"""From what a request gives to its answer: the one road of every route that searches."""

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TypeVar

import numpy as np
from pydantic import BaseModel
from starlette.responses import Response

from seq2seq.explain import Explanation
from seq2seq.generate import GenerationResult, Request
from seq2seq.search import SearchOptions
from service.engine.admission import Reservation
from service.engine.engine import INLINE_CHARACTERS, InvalidTextError, run_inline_or_in_thread
from service.http.dependencies import Caller, Service
from service.http.requests import GenerateRequest, TextsRequest
from service.http.streaming import OutputStream
from service.inference import segmentation
from service.inference.markup import escape_html
from service.models import ServedModel
from service.problems import Problem

T = TypeVar("T")

TOKENS_PER_UNIT = 1000  # tokens x beam that a quota and a rate count as a text
INLINE_EXPLAINED_CHARACTERS = 300  # characters whose explanation is written in less time than a thread takes to wake

EMPTY_EXPLANATION = Explanation(source=[], target=[], matrices={}, alignment=[])


@dataclass(frozen=True)
class ModelInput:
    """What one answer is made of: the model, what it reads by the name of the source, and in which field that came."""

    model: ServedModel
    texts: Mapping[str, str]
    fields: Mapping[str, str]
    images: Mapping[str, np.ndarray] = field(default_factory=dict)

    @property
    def blank(self) -> bool:
        """Whether there is nothing to search: such a text is answered by itself."""
        return not self.images and not any(text.strip() for text in self.texts.values())


def model_inputs(request: TextsRequest, models: Sequence[ServedModel], texts: Sequence[str]) -> list[ModelInput]:
    """Every text of a request, as it is to be read, with its model."""
    places = [f"{request.text_field}[{i}]" if request.many else request.text_field for i in range(len(models))]
    return [
        ModelInput(model, {model.source: text}, {model.source: place})
        for model, text, place in zip(models, texts, places, strict=True)
    ]


@dataclass(frozen=True)
class PipelineResult:
    """What a request is answered with: of every item its text, the next best, what ranked them, what was looked at."""

    texts: list[str]
    alternatives: list[list[str]] | None
    scores: list[list[float]] | None
    explanations: list[Explanation] | None

    @staticmethod
    def of(
        request: GenerateRequest, inputs: Sequence[ModelInput], answers: Sequence[GenerationResult | None]
    ) -> "PipelineResult":
        """From the answer to every item; None is a blank one's."""
        candidates = [one.candidates if one else [] for one in answers]
        write = response_writer(request)
        return PipelineResult(
            [
                write(found[0].text if found else next(iter(item.texts.values())))
                for found, item in zip(candidates, inputs, strict=True)
            ],
            [[write(c.text) for c in others[1:]] for others in candidates] if request.alternatives else None,
            [[c.score for c in all_of_it] for all_of_it in candidates] if request.alternatives else None,
            [a.explanation or EMPTY_EXPLANATION if a else EMPTY_EXPLANATION for a in answers]
            if request.explain
            else None,
        )


def response_writer(request: GenerateRequest) -> Callable[[str], str]:
    """How a request has texts written."""
    return escape_html if request.html else str


def unwrap(values: list[T], many: bool) -> T | list[T]:
    """What belongs to the only item, or to every item in a list."""
    return values if many else values[0]


@asynccontextmanager
async def admit_request(service: Service, caller: Caller, request: GenerateRequest) -> AsyncIterator[Reservation]:
    """Room for a request in the queue, before any work is done on its texts, and its share of its caller's quota and
    rate: its texts, or where that is more its tokens x beam, 1,000 of which count as a text. Raises Problem."""
    max_sentences = service.settings.sentences
    if request.min_sentences(request.input_texts, max_sentences) > max_sentences:
        raise segmentation.too_many_sentences(max_sentences)
    with service.engine.admit(
        caller.name,
        request.input_texts,
        lambda texts: request.min_sentences(texts, max_sentences),
        request.beam_size or 1,
    ) as reservation:
        await service.auth.charge(caller.request, request.units)
        reservation.charge = lambda tokens: service.auth.charge(caller.request, -(-tokens // TOKENS_PER_UNIT))
        yield reservation


async def search_and_respond(
    service: Service,
    reservation: Reservation,
    request: GenerateRequest,
    inputs: Sequence[ModelInput],
    respond: Callable[[PipelineResult], BaseModel],
    stream: OutputStream | None = None,
) -> Response:
    """Search every item with its model, in the room that is reserved, and write what `respond` makes of it; `stream` is
    told of it meanwhile.

    Raises Problem.
    """
    options = {model: search_options(request, model) for model in {item.model for item in inputs}}
    searched = [item for item in inputs if not item.blank]
    searches = [
        Request(dict(item.texts), options[item.model], explain=bool(request.explain), images=dict(item.images))
        for item in searched
    ]
    wanted = list(zip([item.model for item in searched], searches, strict=True))
    texts = await segmentation.segment(service.engine, reservation, wanted)
    if stream:
        stream.start([i for i, item in enumerate(inputs) if not item.blank], texts, response_writer(request))
    try:
        found = await segmentation.search(service.engine, reservation, texts, stream)
    except InvalidTextError as rejected:
        place = searched[rejected.index].fields.get(rejected.error.where, rejected.error.where)
        remedy = f"; {rejected.error.remedy}" if rejected.error.remedy else ""
        raise Problem.in_field(place, f"cannot be {request.past_tense}: {rejected.error.problem}{remedy}") from None
    one_by_one = iter(found)
    answers = [None if item.blank else next(one_by_one) for item in inputs]

    def respond_in_json() -> Response:
        body = respond(PipelineResult.of(request, inputs, answers)).model_dump_json(exclude_none=True)
        return Response(body, media_type="application/json")

    characters = sum(len(text) for item in inputs for text in item.texts.values())
    return await run_inline_or_in_thread(
        characters <= (INLINE_EXPLAINED_CHARACTERS if request.explain else INLINE_CHARACTERS), respond_in_json
    )


def search_options(request: GenerateRequest, model: ServedModel) -> SearchOptions:
    """The model's own options, changed as the request asks. Raises Problem."""
    defaults, longest = model.bundle.card.search, model.bundle.card.limits.target_length
    n_best = (request.alternatives or 0) + 1
    beam = request.beam_size or max(defaults.beam, n_best)
    if beam > model.width:
        raise Problem.in_field("beam_size", f"must be at most {model.width} for {model}")
    if n_best > beam:
        raise Problem.in_field("alternatives", f"must be fewer than beam_size, which is {beam}")
    if request.max_length and request.max_length > longest:
        raise Problem.in_field("max_length", f"must be at most {longest}, the model's limit")
    if request.max_length and request.max_length < defaults.min_length:
        raise Problem.in_field("max_length", f"must be at least {defaults.min_length}: the model writes no less")
    changed = {
        "beam": beam,
        "n_best": n_best,
        "length_penalty": request.length_penalty,
        "max_length": request.max_length,
    }
    overrides = {name: value for name, value in changed.items() if value is not None}
    return SearchOptions.model_validate(defaults.model_dump() | overrides)
