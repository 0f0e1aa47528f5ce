"""`POST /summarize`: headlines, and what every word of them looked at."""

from typing import Annotated

from fastapi import APIRouter, Depends
from starlette.responses import Response

from service.answering import Found, answer, items, own
from service.bodies import body, described
from service.dependencies import TIMEOUT_PARAMETER, Asking, Running, Service
from service.problems import problems
from service.requests import SummarizeRequest, search_request
from service.schemas import SummarizeResponse
from service.settings import Settings
from service.streaming import EVENTS, Stream, streamed


def router(settings: Settings) -> APIRouter:
    """The route, with the limits of these settings."""
    routes = APIRouter(tags=["summarization"])
    kind = search_request(SummarizeRequest, settings)

    @routes.post(
        "/summarize",
        response_model=SummarizeResponse,
        responses=EVENTS | problems(400, 408, 413, 415, 429, 503, 504),
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

    def respond(found: Found) -> SummarizeResponse:
        return SummarizeResponse(
            summaries=own(found.texts, request.many),
            alternatives=found.alternatives and own(found.alternatives, request.many),
            scores=found.scores and own(found.scores, request.many),
            model=model.identity,
            explanations=found.explanations,
        )

    return await answer(service, request, items(request, [model] * len(request.texts)), respond, stream)
