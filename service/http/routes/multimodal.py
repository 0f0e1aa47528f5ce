"""`POST /translate/multimodal`: a text and its picture, and what every word looked at in both."""

from functools import partial
from typing import Annotated

from fastapi import APIRouter, Depends
from starlette.responses import Response

from service.engine.admission import Reserved
from service.http.dependencies import TIMEOUT_PARAMETER, Asking, Caller, Running, Service
from service.http.parsing import body, described
from service.http.pipeline import Found, Item, admitted, answer
from service.http.requests import MultimodalRequest, search_request
from service.http.responses import TranslateResponse
from service.http.routes.translation import likeliest
from service.inference.markup import SHORT, read_html
from service.models import Models, Served
from service.problems import FieldProblem, Problem, problems
from service.settings import Settings

PATH = "/translate/multimodal"


def router(settings: Settings) -> APIRouter:
    """The route, with the limits of these settings."""
    routes = APIRouter(tags=["translation"])
    kind = search_request(MultimodalRequest, settings)

    @routes.post(
        PATH,
        response_model=TranslateResponse,
        responses=problems(422, 503, 504),
        openapi_extra={**described(kind), "parameters": [TIMEOUT_PARAMETER]},
    )
    async def translate_multimodal(
        caller: Asking, service: Running, request: Annotated[MultimodalRequest, Depends(body(kind))]
    ) -> Response:
        """Translate a text that goes with a picture. Either may be absent, not both."""
        return await caller.wait_for(translated(service, caller, request))

    return routes


async def translated(service: Service, caller: Caller, request: MultimodalRequest) -> Response:
    """Have the request admitted, and answer it. Raises Problem."""
    async with admitted(service, caller, request) as reserved:
        return await translated_in(service, reserved, request)


async def translated_in(service: Service, reserved: Reserved, request: MultimodalRequest) -> Response:
    """Choose the model by languages and by whether there is a picture, decode that, and answer. Raises Problem."""
    if request.q is None and request.image is None:
        missing = [FieldProblem(field=name, problem="is missing") for name in ("q", "image")]
        raise Problem(400, "q and image are missing: one of them may be absent, not both", fields=missing)
    text = request.q
    if text is not None and request.html:
        read = partial(read_html, place="q")
        (text,) = await service.engine.preparation.each(reserved.caller, read, [text], len, SHORT)
        if not text.strip():
            raise Problem.in_field("q", "must not be blank")
    source, detected = request.source, None
    if source == "auto":
        possible = service.models.sources("multimodal", request.target, request.model)
        if text is None:
            source = min(possible)  # nothing is read in it
        else:
            look = partial(likeliest, service, possible)
            (detected,) = await service.engine.preparation.each(reserved.caller, look, [text], len)
            source = detected.language
    fitting = service.models.fitting("multimodal", source, request.target, request.model)
    texts, images, fields = {}, {}, {}
    if request.image is None:
        model = fitting[0]
    else:
        model, name, size = reader(service.models, fitting)
        images[name] = await service.pictures.pixels(request.image, size, "image")
        fields[name] = "image"
    if text is not None:
        texts[model.source] = text
        fields[model.source] = "q"

    def respond(found: Found) -> TranslateResponse:
        return TranslateResponse(
            translatedText=found.texts[0],
            alternatives=found.alternatives and found.alternatives[0],
            scores=found.scores and found.scores[0],
            detectedLanguage=detected,
            model=model.identity,
            explanations=found.explanations,
        )

    return await answer(service, reserved, request, [Item(model, texts, fields, images)], respond)


def reader(models: Models, fitting: list[Served]) -> tuple[Served, str, int]:
    """The first of the models that reads pictures, the name of that source, and pixels a side. Raises Problem."""
    for model in fitting:
        if model.picture:
            name, network = model.picture
            return model, name, network.size
    first, others = fitting[0], [str(model) for model in models.doing("multimodal") if model.picture]
    reads = "reads features that another program made, not pictures" if first.bundle.card.model.images else "reads text"
    there = f"served for pictures: {', '.join(others)}" if others else "no model that is served reads pictures"
    raise Problem.in_field("image", f"cannot be read: {first} {reads}; {there}")
