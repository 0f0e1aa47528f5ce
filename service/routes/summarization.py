"""`POST /summarize`: headlines, and what every word of them looked at."""

import asyncio
from collections.abc import Sequence
from typing import Annotated

from fastapi import APIRouter, Depends
from starlette.responses import Response

from seq2seq.sentences import leading
from service.answering import Found, answer, items, own
from service.bodies import body, described
from service.dependencies import TIMEOUT_PARAMETER, Asking, Running, Service
from service.models import Served
from service.problems import problems
from service.requests import SummarizeRequest, search_request
from service.schemas import Reduction, SummarizeResponse
from service.settings import Settings
from service.streaming import EVENTS, Stream, streamed


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
        return await streamed(caller, service, lambda stream: summarized(service, request, stream))

    return routes


async def summarized(service: Service, request: SummarizeRequest, stream: Stream | None) -> Response:
    """Choose the model by its task, and answer. Raises Problem."""
    model = service.models.summarizer(request.model)
    texts, reductions = request.texts, None
    if request.long == "lead":
        texts, reductions = await asyncio.to_thread(reduced, model, request.texts)

    def respond(found: Found) -> SummarizeResponse:
        return SummarizeResponse(
            summaries=own(found.texts, request.many),
            alternatives=found.alternatives and own(found.alternatives, request.many),
            scores=found.scores and own(found.scores, request.many),
            reduced=reductions and own(reductions, request.many),
            model=model.identity,
            explanations=found.explanations,
        )

    return await answer(service, request, items(request, [model] * len(texts), texts), respond, stream)


def reduced(model: Served, texts: Sequence[str]) -> tuple[list[str], list[Reduction | None] | None]:
    """The texts as far as a model reads them, and what was done to each; None where every one is whole.

    One whose first sentence is too long already stays as it is, and is refused with the limit.
    """
    read = list(texts)
    reductions: list[Reduction | None] = [None] * len(texts)
    for i, text in enumerate(texts):
        found = leading(text, model.bundle.card.languages.get(model.source), model.reads)
        if found.sentences and not found.whole:
            read[i] = found.text
            reductions[i] = Reduction(sentences=found.sentences, of=found.of, characters=found.characters)
    return read, reductions if any(reductions) else None
