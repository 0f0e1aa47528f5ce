"""`POST /translate/multimodal`: a text and its picture, and what every word looked at in both."""

from functools import partial
from typing import Annotated

from fastapi import APIRouter, Depends
from starlette.responses import Response

from service.engine.admission import Reservation
from service.http.dependencies import TIMEOUT_PARAMETER, Caller, CallerDep, Service, ServiceDep
from service.http.parsing import openapi_body, parsed_body
from service.http.pipeline import ModelInput, PipelineResult, admit_request, search_and_respond
from service.http.requests import MultimodalRequest, with_limits
from service.http.responses import TranslateResponse
from service.http.routes.translation import detect_language
from service.inference.markup import SHORT, unescape_html
from service.models import ServedModel, ServedModels
from service.problems import FieldProblem, Problem, problem_responses
from service.settings import Settings

MULTIMODAL_PATH = "/translate/multimodal"


def router(settings: Settings) -> APIRouter:
    """The route, with the limits of these settings."""
    routes = APIRouter(tags=["translation"])
    kind = with_limits(MultimodalRequest, settings)

    @routes.post(
        MULTIMODAL_PATH,
        response_model=TranslateResponse,
        responses=problem_responses(422, 503, 504),
        openapi_extra={**openapi_body(kind), "parameters": [TIMEOUT_PARAMETER]},
    )
    async def translate_multimodal(
        caller: CallerDep, service: ServiceDep, request: Annotated[MultimodalRequest, Depends(parsed_body(kind))]
    ) -> Response:
        """Translate a text that goes with a picture. Either may be absent, not both."""
        return await caller.wait_for(translate_input(service, caller, request))

    return routes


async def translate_input(service: Service, caller: Caller, request: MultimodalRequest) -> Response:
    """Have the request admitted, and answer it. Raises Problem."""
    async with admit_request(service, caller, request) as reservation:
        return await translate_admitted(service, reservation, request)


async def translate_admitted(service: Service, reservation: Reservation, request: MultimodalRequest) -> Response:
    """Choose the model by languages and by whether there is a picture, decode that, and answer. Raises Problem."""
    if request.q is None and request.image is None:
        missing = [FieldProblem(field=name, problem="is missing") for name in ("q", "image")]
        raise Problem(400, "q and image are missing: one of them may be absent, not both", fields=missing)
    text = request.q
    if text is not None and request.html:
        read = partial(unescape_html, place="q")
        (text,) = await service.engine.preparation.map(reservation.caller, read, [text], len, SHORT)
        if not text.strip():
            raise Problem.in_field("q", "must not be blank")
    source, detected = request.source, None
    if source == "auto":
        possible = service.models.source_languages("multimodal", request.target, request.model)
        if text is None:
            source = min(possible)  # nothing is read in it
        else:
            look = partial(detect_language, service, possible)
            (detected,) = await service.engine.preparation.map(reservation.caller, look, [text], len)
            source = detected.language
    fitting = service.models.for_languages("multimodal", source, request.target, request.model)
    texts, images, fields = {}, {}, {}
    if request.image is None:
        model = fitting[0]
    else:
        model, name, size = image_reader(service.models, fitting)
        images[name] = await service.image_decoder.decode(request.image, size, "image")
        fields[name] = "image"
    if text is not None:
        texts[model.source] = text
        fields[model.source] = "q"

    def respond(found: PipelineResult) -> TranslateResponse:
        return TranslateResponse(
            translatedText=found.texts[0],
            alternatives=found.alternatives and found.alternatives[0],
            scores=found.scores and found.scores[0],
            detectedLanguage=detected,
            model=model.identity,
            explanations=found.explanations,
        )

    return await search_and_respond(service, reservation, request, [ModelInput(model, texts, fields, images)], respond)


def image_reader(models: ServedModels, fitting: list[ServedModel]) -> tuple[ServedModel, str, int]:
    """The first of the models that reads pictures, the name of that source, and pixels a side. Raises Problem."""
    for model in fitting:
        if model.image_source:
            name, network = model.image_source
            return model, name, network.size
    first, others = fitting[0], [str(model) for model in models.for_task("multimodal") if model.image_source]
    reads = "reads features that another program made, not pictures" if first.bundle.card.model.images else "reads text"
    there = f"served for pictures: {', '.join(others)}" if others else "no model that is served reads pictures"
    raise Problem.in_field("image", f"cannot be read: {first} {reads}; {there}")
