"""`POST /post-edit`: edits a machine translation and lists the edit operations."""

from fastapi import APIRouter

from interlinear.source_names import MT
from interlinear.text.edits import diff
from service.engine.admission import Reservation
from service.http.dependencies import Service
from service.http.pipeline import Generation, PipelineResult, generating_route
from service.http.requests import PostEditRequest
from service.http.responses import ModelIdentity, Operation, PostEditResponse
from service.http.search_inputs import ModelInput
from service.settings import Settings

SOURCE = "source"  # name of a post-editing model's source beside the machine translation


def router(settings: Settings) -> APIRouter:
    """The route, with the limits of the settings."""
    return generating_route("/post-edit", "post-editing", PostEditRequest, PostEditResponse, post_edit, settings)


async def post_edit(service: Service, _reservation: Reservation, request: PostEditRequest) -> Generation:
    """Edit a machine translation, with or without its source text."""
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

    return Generation([ModelInput(model, texts, {MT: "translation", SOURCE: "source_text"})], respond)
