"""`POST /translate/multimodal`: translates a text together with a picture."""

from functools import partial
from typing import Annotated

from fastapi import APIRouter, Depends
from starlette.responses import Response

from service.engine.admission import Reservation
from service.http.dependencies import TIMEOUT_PARAMETER, Caller, CallerDep, Service, ServiceDep
from service.http.parsing import openapi_body, parsed_body
from service.http.pipeline import ModelInput, PipelineResult, admit_request, search_and_respond
from service.http.requests import MultimodalRequest, with_limits
from service.http.responses import ModelIdentity, TranslateResponse
from service.http.routes.translation import detect_language
from service.inference.markup import INLINE_HTML_CHARACTERS, unescape_html
from service.models import ServedModel, ServedModels
from service.problems import FieldProblem, Problem, problem_responses
from service.settings import Settings

MULTIMODAL_PATH = "/translate/multimodal"


def router(settings: Settings) -> APIRouter:
    """The route, with the limits of the settings."""
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
    """Admit the request and answer it. Raises Problem."""
    async with admit_request(service, caller, request) as reservation:
        return await translate_admitted(service, reservation, request)


async def translate_admitted(service: Service, reservation: Reservation, request: MultimodalRequest) -> Response:
    """Choose the model by languages and by whether there is a picture, decode the picture, and answer. Raises
    Problem."""
    if request.q is None and request.image is None:
        missing = [FieldProblem(field=name, problem="is missing") for name in ("q", "image")]
        raise Problem(400, "q and image are missing: one of them may be absent, not both", fields=missing)
    text = request.q
    if text is not None and request.html:
        read = partial(unescape_html, field="q")
        (text,) = await service.engine.preparation.map(reservation.caller, read, [text], len, INLINE_HTML_CHARACTERS)
        if not text.strip():
            raise Problem.in_field("q", "must not be blank")
    source, detected = request.source, None
    if source == "auto":
        possible = service.models.source_languages("multimodal", request.target, request.model)
        if text is None:
            source = min(possible)  # any language will do: there is no text
        else:
            detect = partial(detect_language, service, possible)
            (detected,) = await service.engine.preparation.map(reservation.caller, detect, [text], len)
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

    def respond(result: PipelineResult) -> TranslateResponse:
        return TranslateResponse(
            translatedText=result.texts[0],
            alternatives=result.alternatives and result.alternatives[0],
            scores=result.scores and result.scores[0],
            detectedLanguage=detected,
            model=ModelIdentity.of(model),
            explanations=result.explanations,
        )

    return await search_and_respond(service, reservation, request, [ModelInput(model, texts, fields, images)], respond)


def image_reader(models: ServedModels, fitting: list[ServedModel]) -> tuple[ServedModel, str, int]:
    """The first of the models that reads pictures, the name of its picture source, and its side length in pixels.
    Raises Problem."""
    for model in fitting:
        if model.image_source:
            name, network = model.image_source
            return model, name, network.size
    first, image_models = fitting[0], [str(model) for model in models.for_task("multimodal") if model.image_source]
    reads = "reads features that another program made, not pictures" if first.bundle.card.model.images else "reads text"
    alternatives = (
        f"served for pictures: {', '.join(image_models)}" if image_models else "no model that is served reads pictures"
    )
    raise Problem.in_field("image", f"cannot be read: {first} {reads}; {alternatives}")
