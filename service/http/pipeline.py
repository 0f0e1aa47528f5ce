"""The steps that every generating route shares, from a request's body to its response: parsing, admission,
segmentation, search, and formatting or streaming."""

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any, TypeVar

from fastapi import APIRouter, Depends
from pydantic import BaseModel
from starlette.responses import Response

from interlinear.explanation import EMPTY_EXPLANATION, Explanation
from interlinear.generation.request import GenerationResult
from interlinear.generation.terms import TermOptions
from interlinear.generation.terms.term import TERMS
from interlinear.source_names import CONTEXT
from interlinear.translation.answer_fields import answer_fields
from interlinear.translation.paths import ModelPath
from service.auth.rate_limits import units_of_tokens
from service.engine.admission import Reservation
from service.engine.engine import INLINE_CHARACTERS, InvalidTextError
from service.engine.preparation import run_inline_or_in_thread
from service.http.dependencies import Caller, CallerDep, Service, ServiceDep
from service.http.kept_glossaries import with_kept_entries
from service.http.openapi import body_documentation
from service.http.parsing import parsed_body
from service.http.requests import GenerateRequest, MultimodalRequest, TextsRequest, with_limits
from service.http.responses import ResponseWarning
from service.http.search_inputs import ModelInput, SearchInput, reserve_second_searches, split
from service.http.streaming import EVENT_RESPONSES, OutputStream, respond_or_stream
from service.inference import segmentation
from service.inference.markup import (
    INLINE_HTML_CHARACTERS,
    ReadFormat,
    SourceText,
    escape_html,
    read_source,
    reading_cost,
)
from service.inference.terms import RequestTerms
from service.models import ServedModel
from service.problems import Problem, problem_responses
from service.settings import Settings

T = TypeVar("T")
G = TypeVar("G", bound=GenerateRequest)

INLINE_EXPLAINED_CHARACTERS = 300  # characters whose explanation is serialised faster than a thread wakes up


def field_names(request: TextsRequest | MultimodalRequest) -> list[str]:
    """The request field of every text, such as `q` or `q[3]`."""
    name = request.text_field
    return [f"{name}[{i}]" if request.many else name for i in range(len(request.input_texts))]


async def read_texts(
    service: Service,
    reservation: Reservation,
    request: TextsRequest | MultimodalRequest,
    plain: ReadFormat | None = None,
) -> list[SourceText]:
    """The texts of a request, read in its format. Raises Problem, also once its documents have too many sentences:
    further ones are not parsed. `plain`: the reader of texts without markup."""
    markup, most, found = request.markup or plain, service.settings.sentences, 0
    if markup is None or not request.input_texts:
        return [SourceText(text) for text in request.input_texts]

    def read(text: str, field: str) -> SourceText:
        nonlocal found
        if found <= most:
            source = read_source(text, field, markup)
            found += len(source.document.segments) if source.document else 0
        if found > most:
            raise segmentation.too_many_sentences(most)
        return source

    texts = await service.engine.preparation.map(
        reservation.caller,
        lambda pair: read(*pair),
        list(zip(request.input_texts, field_names(request), strict=True)),
        lambda pair: reading_cost(pair[0], markup),
        INLINE_HTML_CHARACTERS,
    )
    if all(text.blank for text in texts):
        raise Problem.in_field(request.text_field, "must not be blank")
    return texts


def model_inputs(
    request: TextsRequest,
    paths: Sequence[ModelPath[ServedModel]],
    texts: Sequence[SourceText],
    kept: Sequence[bool] | None = None,
) -> list[ModelInput]:
    """One `ModelInput` for each text of a request and its models. `kept`: whether it is in the target language already.
    Raises Problem for a context that is not read."""
    inputs = []
    for i, (path, source, field_name) in enumerate(zip(paths, texts, field_names(request), strict=True)):
        as_sent = request.input_texts[i] if kept and kept[i] else None
        model = path.first
        own, fields = {model.source: source.text}, {model.source: field_name}
        if request.context_text:
            if CONTEXT not in model.facts.texts:
                raise Problem.in_field(CONTEXT, f"is not read by {model}, which was trained without: leave it out")
            own[CONTEXT], fields[CONTEXT] = request.context_text, CONTEXT
        inputs.append(ModelInput(model, own, fields, document=source.document, second=path.second, kept=as_sent))
    return inputs


@dataclass(frozen=True)
class PipelineResult:
    """The results of a request, item by item: the text, and on request the alternatives, their scores, the
    explanations and further fields."""

    texts: list[str]
    alternatives: list[list[str]] | None
    scores: list[list[float]] | None
    explanations: list[Explanation] | None
    warnings: list[ResponseWarning] | None = None
    fields: list[Mapping[str, Any]] | None = None

    @staticmethod
    def of(
        request: GenerateRequest,
        inputs: Sequence[ModelInput],
        answers: Sequence[GenerationResult | None],
        warnings: list[ResponseWarning],
    ) -> "PipelineResult":
        """Build the results from the answer to each input; the answer to a blank input is None."""
        write = response_writer(request)
        outputs = [output_texts(item, answer, write) for item, answer in zip(inputs, answers, strict=True)]
        return PipelineResult(
            [best for best, *_ in outputs],
            [others for _, *others in outputs] if request.alternatives else None,
            [[c.score for c in answer.candidates] if answer else [] for answer in answers]
            if request.alternatives
            else None,
            [a.explanation or EMPTY_EXPLANATION if a else EMPTY_EXPLANATION for a in answers]
            if request.explain
            else None,
            warnings or None,
            [a.fields if a else answer_fields(request.answer_fields) for a in answers]
            if request.answer_fields
            else None,
        )


def output_texts(item: ModelInput, answer: GenerationResult | None, write: Callable[[str], str]) -> list[str]:
    """The outputs for an input, best first, as written in the response; a blank input's output is its text. Outputs of
    a document are rendered already."""
    if item.kept is not None:
        return [item.kept]
    if item.document is not None:
        return [candidate.text for candidate in answer.candidates] if answer else [item.document.render([])]
    texts = [candidate.text for candidate in answer.candidates] if answer else [next(iter(item.texts.values()))]
    return [write(text) for text in texts]


def response_writer(request: GenerateRequest) -> Callable[[str], str]:
    """The function that escapes output texts in the format of the request."""
    return escape_html if request.markup else str


def unwrap(values: list[T], many: bool) -> T | list[T]:
    """The list of values, or its only value if the request has one item."""
    return values if many else values[0]


@dataclass(frozen=True)
class Generation:
    """A request as its route prepares it: the inputs to search, and the function that builds the response."""

    inputs: Sequence[ModelInput]
    respond: Callable[[PipelineResult], BaseModel]


def generating_route(
    path: str,
    tag: str,
    request_type: type[G],
    response_type: type[BaseModel],
    prepare: Callable[[Service, Reservation, G], Awaitable[Generation]],
    settings: Settings,
    streams: bool = False,
    statuses: Sequence[int] = (503, 504),
) -> APIRouter:
    """A router with one POST route, which parses the body with the limits of the settings, admits the request, has
    `prepare` choose models and inputs, searches, and responds.

    In OpenAPI the route has the name and the docstring of `prepare`. `streams`: whether clients can ask for events;
    `statuses`: the errors beside the errors of authentication and parsing.
    """
    kind = with_limits(request_type, settings)

    async def endpoint(
        caller: CallerDep, service: ServiceDep, request: Annotated[G, Depends(parsed_body(kind))]
    ) -> Response:
        async def work(stream: OutputStream | None = None) -> Response:
            async with admit_request(service, caller, request) as reservation:
                generation = await prepare(service, reservation, request)
                terms = RequestTerms(await find_term_options(service, caller, request, generation))
                return await search_and_respond(service, reservation, request, generation, terms, stream)

        return await (respond_or_stream(caller, service, work) if streams else caller.wait_for(work()))

    router = APIRouter(tags=[tag])
    router.add_api_route(
        path,
        endpoint,
        methods=["POST"],
        name=prepare.__name__,
        description=prepare.__doc__,
        response_model=response_type,
        responses=(EVENT_RESPONSES if streams else {}) | problem_responses(*statuses),
        openapi_extra=body_documentation(kind),
    )
    return router


@asynccontextmanager
async def admit_request(service: Service, caller: Caller, request: GenerateRequest) -> AsyncIterator[Reservation]:
    """Admit a request to the queue before its texts are processed, and charge its caller's quota and rate limit. The
    charge is the number of texts or, if larger, tokens x beam / 1,000. Raises Problem."""
    max_sentences = service.settings.sentences
    if request.min_sentences(request.input_texts, max_sentences) > max_sentences:
        raise segmentation.too_many_sentences(max_sentences)
    with service.engine.admit(
        caller.name,
        request.input_texts,
        request.estimate_sentences,
        request.beam_size or service.models.least_beam,
    ) as reservation:
        service.auth.charge(caller.request, request.units)
        reservation.charge = lambda tokens: service.auth.charge(caller.request, units_of_tokens(tokens))
        yield reservation


async def find_term_options(
    service: Service, caller: Caller, request: GenerateRequest, generation: Generation
) -> TermOptions | None:
    """The term options of a request, with the entries of the glossary that it names. Raises Problem."""
    options = request.term_options
    if options is None or request.kept_glossary is None:
        return options
    pairs = {item.language_pair for item in generation.inputs if item.kept is None}
    return await with_kept_entries(service, caller, options, request.kept_glossary, pairs)


async def search_and_respond(
    service: Service,
    reservation: Reservation,
    request: GenerateRequest,
    generation: Generation,
    terms: RequestTerms,
    stream: OutputStream | None,
) -> Response:
    """Search every input with its model, within the reservation, and serialise the response. `stream` receives partial
    outputs meanwhile. Raises Problem."""
    inputs = generation.inputs
    searched = [item for item in inputs if not item.blank]
    texts = await segmentation.segment(
        service.engine,
        reservation,
        [SearchInput.of(service, request, item) for item in searched],
        partial(split, terms),
        lambda item: item.characters,
        terms.characters,
    )
    reserve_second_searches(service, reservation, request, texts)
    warnings = [
        ResponseWarning.same_language(next(iter(item.fields.values())), item.language_pair[1])
        for item in inputs
        if item.kept is not None
    ]
    warnings += [
        ResponseWarning.long_sentences(next(iter(item.fields.values())), text.divided)
        for item, text in zip(searched, texts, strict=True)
        if text.divided
    ]
    if stream:
        stream.start([i for i, item in enumerate(inputs) if not item.blank], texts, response_writer(request))
    try:
        results = await segmentation.search(service.engine, reservation, texts, stream)
    except InvalidTextError as rejected:
        field_names = {**searched[rejected.index].fields, TERMS: "glossary"}
        field_name = field_names.get(rejected.error.where, rejected.error.where)
        remedy = f"; {rejected.error.remedy}" if rejected.error.remedy else ""
        raise Problem.in_field(
            field_name, f"cannot be {request.past_tense}: {rejected.error.problem}{remedy}"
        ) from None
    remaining = iter(results)
    answers = [None if item.blank else next(remaining) for item in inputs]

    def respond_in_json() -> Response:
        result = PipelineResult.of(request, inputs, answers, warnings)
        body = generation.respond(result).model_dump_json(exclude_none=True)
        return Response(body, media_type="application/json")

    characters = sum(len(text) for item in inputs for text in item.texts.values())
    return await run_inline_or_in_thread(
        characters <= (INLINE_EXPLAINED_CHARACTERS if request.explain else INLINE_CHARACTERS), respond_in_json
    )
