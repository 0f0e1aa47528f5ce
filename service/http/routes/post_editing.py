"""`POST /post-edit`: a machine translation, edited, and what was done to it."""

from typing import Annotated

from fastapi import APIRouter, Depends
from starlette.responses import Response

from seq2seq.text.edits import diff
from service.http.dependencies import TIMEOUT_PARAMETER, Asking, Caller, Running, Service
from service.http.parsing import body, described
from service.http.pipeline import Found, Item, admitted, answer
from service.http.requests import PostEditRequest, search_request
from service.http.responses import Operation, PostEditResponse
from service.problems import problems
from service.settings import Settings

MT, SOURCE = "mt", "source"  # a post-edit model's sources


def router(settings: Settings) -> APIRouter:
    """The route, with the limits of these settings."""
    routes = APIRouter(tags=["post-editing"])
    kind = search_request(PostEditRequest, settings)

    @routes.post(
        "/post-edit",
        response_model=PostEditResponse,
        responses=problems(503, 504),
        openapi_extra={**described(kind), "parameters": [TIMEOUT_PARAMETER]},
    )
    async def post_edit(
        caller: Asking, service: Running, request: Annotated[PostEditRequest, Depends(body(kind))]
    ) -> Response:
        """Edit a machine translation, beside the text that it was made of or without it."""
        return await caller.wait_for(edited(service, caller, request))

    return routes


async def edited(service: Service, caller: Caller, request: PostEditRequest) -> Response:
    """Choose the model by its task and the languages, and answer. Raises Problem."""
    model, *_ = service.models.fitting("post-edit", request.source, request.target, request.model)
    texts = {MT: request.translation}
    if request.source_text is not None:
        texts[SOURCE] = request.source_text

    def respond(found: Found) -> PostEditResponse:
        (text,) = found.texts
        changes = diff(request.translation, text)
        return PostEditResponse(
            editedText=text,
            operations=[Operation.model_validate({"op": c.op, "from": c.before, "to": c.after}) for c in changes],
            alternatives=found.alternatives and found.alternatives[0],
            scores=found.scores and found.scores[0],
            model=model.identity,
            explanations=found.explanations,
        )

    item = Item(model, texts, {MT: "translation", SOURCE: "source_text"})
    async with admitted(service, caller, request) as reserved:
        return await answer(service, reserved, request, [item], respond)
