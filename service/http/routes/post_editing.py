"""`POST /post-edit`: edits a machine translation and lists the edit operations."""

from typing import Annotated

from fastapi import APIRouter, Depends
from starlette.responses import Response

from seq2seq.text.edits import diff
from service.http.dependencies import TIMEOUT_PARAMETER, Caller, CallerDep, Service, ServiceDep
from service.http.parsing import openapi_body, parsed_body
from service.http.pipeline import ModelInput, PipelineResult, admit_request, search_and_respond
from service.http.requests import PostEditRequest, with_limits
from service.http.responses import ModelIdentity, Operation, PostEditResponse
from service.problems import problem_responses
from service.settings import Settings

MT, SOURCE = "mt", "source"  # source names of a post-editing model


def router(settings: Settings) -> APIRouter:
    """The route, with the limits of the settings."""
    routes = APIRouter(tags=["post-editing"])
    kind = with_limits(PostEditRequest, settings)

    @routes.post(
        "/post-edit",
        response_model=PostEditResponse,
        responses=problem_responses(503, 504),
        openapi_extra={**openapi_body(kind), "parameters": [TIMEOUT_PARAMETER]},
    )
    async def post_edit(
        caller: CallerDep, service: ServiceDep, request: Annotated[PostEditRequest, Depends(parsed_body(kind))]
    ) -> Response:
        """Edit a machine translation, with or without its source text."""
        return await caller.wait_for(edit_translation(service, caller, request))

    return routes


async def edit_translation(service: Service, caller: Caller, request: PostEditRequest) -> Response:
    """Choose the model by languages and answer. Raises Problem."""
    model, *_ = service.models.for_languages("post-edit", request.source, request.target, request.model)
    texts = {MT: request.translation}
    if request.source_text is not None:
        texts[SOURCE] = request.source_text

    def respond(result: PipelineResult) -> PostEditResponse:
        (text,) = result.texts
        changes = diff(request.translation, text)
        return PostEditResponse(
            editedText=text,
            operations=[Operation.model_validate({"op": c.op, "from": c.before, "to": c.after}) for c in changes],
            alternatives=result.alternatives and result.alternatives[0],
            scores=result.scores and result.scores[0],
            model=ModelIdentity.of(model),
            explanations=result.explanations,
        )

    item = ModelInput(model, texts, {MT: "translation", SOURCE: "source_text"})
    async with admit_request(service, caller, request) as reservation:
        return await search_and_respond(service, reservation, request, [item], respond)
