"""`POST /summarize`: headlines, and what every word of them looked at."""

from functools import partial
from typing import Annotated

from fastapi import APIRouter, Depends
from starlette.responses import Response

from seq2seq.text.sentences import leading
from service.engine.admission import Reserved
from service.http.dependencies import TIMEOUT_PARAMETER, Asking, Caller, Running, Service
from service.http.parsing import body, described
from service.http.pipeline import Found, admitted, answer, items, own
from service.http.requests import SummarizeRequest, search_request
from service.http.responses import Reduction, SummarizeResponse
from service.http.streaming import EVENTS, Stream, streamed
from service.models import Served
from service.problems import problems
from service.settings import Settings


def router(settings: Settings) -> APIRouter:
    """The route, with the limits of these settings."""
    routes = APIRouter(tags=["summarization"])
    kind = search_request(SummarizeRequest, settings)

    @routes.post(
        "/summarize",
        response_model=SummarizeResponse,
        responses=EVENTS | problems(503, 504),
        openapi_extra={**described(kind), "parameters": [TIMEOUT_PARAMETER]},
    )
    async def summarize(
        caller: Asking, service: Running, request: Annotated[SummarizeRequest, Depends(body(kind))]
    ) -> Response:
        """Summarize a text or a list of texts."""
        return await streamed(caller, service, lambda stream: summarized(service, caller, request, stream))

    return routes


async def summarized(service: Service, caller: Caller, request: SummarizeRequest, stream: Stream | None) -> Response:
    """Have the request admitted, and answer it. Raises Problem."""
    async with admitted(service, caller, request) as reserved:
        return await summarized_in(service, reserved, request, stream)


async def summarized_in(
    service: Service, reserved: Reserved, request: SummarizeRequest, stream: Stream | None
) -> Response:
    """Choose the model by its task, and answer. Raises Problem."""
    model = service.models.summarizer(request.model)
    texts = request.texts
    reductions: list[Reduction | None] | None = None
    if request.long == "lead":
        preparation = service.engine.preparation
        read = await preparation.each(reserved.caller, partial(reduced, model), request.texts, len)
        texts = [text for text, _ in read]
        if any(reduction for _, reduction in read):
            reductions = [reduction for _, reduction in read]

    def respond(found: Found) -> SummarizeResponse:
        return SummarizeResponse(
            summaries=own(found.texts, request.many),
            alternatives=found.alternatives and own(found.alternatives, request.many),
            scores=found.scores and own(found.scores, request.many),
            reduced=reductions and own(reductions, request.many),
            model=model.identity,
            explanations=found.explanations,
        )

    return await answer(service, reserved, request, items(request, [model] * len(texts), texts), respond, stream)


def reduced(model: Served, text: str) -> tuple[str, Reduction | None]:
    """A text as far as a model reads it, and what was done to it; None where it is whole.

    One whose first sentence is too long already stays as it is, and is refused with the limit.
    """
    found = leading(text, model.bundle.card.languages.get(model.source), model.reads)
    if not found.sentences or found.whole:
        return text, None
    return found.text, Reduction(sentences=found.sentences, of=found.of, characters=found.characters)
