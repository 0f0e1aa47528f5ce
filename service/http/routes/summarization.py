"""`POST /summarize`: summarizes one or several texts."""

from functools import partial
from typing import Annotated

from fastapi import APIRouter, Depends
from starlette.responses import Response

from seq2seq.text.sentences import leading_sentences
from service.engine.admission import Reservation
from service.http.dependencies import TIMEOUT_PARAMETER, Caller, CallerDep, Service, ServiceDep
from service.http.parsing import openapi_body, parsed_body
from service.http.pipeline import PipelineResult, admit_request, model_inputs, search_and_respond, unwrap
from service.http.requests import SummarizeRequest, with_limits
from service.http.responses import ModelIdentity, Reduction, SummarizeResponse
from service.http.streaming import EVENT_RESPONSES, OutputStream, respond_or_stream
from service.models import ServedModel
from service.problems import problem_responses
from service.settings import Settings


def router(settings: Settings) -> APIRouter:
    """The route, with the limits of the settings."""
    routes = APIRouter(tags=["summarization"])
    kind = with_limits(SummarizeRequest, settings)

    @routes.post(
        "/summarize",
        response_model=SummarizeResponse,
        responses=EVENT_RESPONSES | problem_responses(503, 504),
        openapi_extra={**openapi_body(kind), "parameters": [TIMEOUT_PARAMETER]},
    )
    async def summarize(
        caller: CallerDep, service: ServiceDep, request: Annotated[SummarizeRequest, Depends(parsed_body(kind))]
    ) -> Response:
        """Summarize a text or a list of texts."""
        return await respond_or_stream(
            caller, service, lambda stream: summarize_texts(service, caller, request, stream)
        )

    return routes


async def summarize_texts(
    service: Service, caller: Caller, request: SummarizeRequest, stream: OutputStream | None
) -> Response:
    """Admit the request and answer it. Raises Problem."""
    async with admit_request(service, caller, request) as reservation:
        return await summarize_admitted(service, reservation, request, stream)


async def summarize_admitted(
    service: Service, reservation: Reservation, request: SummarizeRequest, stream: OutputStream | None
) -> Response:
    """Choose the model and answer. Raises Problem."""
    model = service.models.summarizer(request.model)
    texts = request.texts
    reductions: list[Reduction | None] | None = None
    if request.long == "lead":
        preparation = service.engine.preparation
        read = await preparation.map(reservation.caller, partial(truncate_to_lead, model), request.texts, len)
        texts = [text for text, _ in read]
        if any(reduction for _, reduction in read):
            reductions = [reduction for _, reduction in read]

    def respond(result: PipelineResult) -> SummarizeResponse:
        return SummarizeResponse(
            summaries=unwrap(result.texts, request.many),
            alternatives=result.alternatives and unwrap(result.alternatives, request.many),
            scores=result.scores and unwrap(result.scores, request.many),
            reduced=reductions and unwrap(reductions, request.many),
            model=ModelIdentity.of(model),
            explanations=result.explanations,
        )

    return await search_and_respond(
        service, reservation, request, model_inputs(request, [model] * len(texts), texts), respond, stream
    )


def truncate_to_lead(model: ServedModel, text: str) -> tuple[str, Reduction | None]:
    """The leading sentences of a text that the model can read, and how much that is (None if it is all of the text).

    A text whose first sentence is already too long is returned unchanged; the search refuses it with the limit.
    """
    lead = leading_sentences(text, model.bundle.card.languages.get(model.source), model.fits)
    if not lead.sentences or lead.whole:
        return text, None
    return lead.text, Reduction(sentences=lead.sentences, of=lead.of, characters=lead.characters)
