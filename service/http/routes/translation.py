"""`POST /translate`: LibreTranslate's contract, and what every word looked at."""

from functools import partial
from typing import Annotated

from fastapi import APIRouter, Depends
from starlette.responses import Response

from service.engine.admission import Reserved
from service.http.dependencies import TIMEOUT_PARAMETER, Asking, Caller, Running, Service
from service.http.parsing import body, described
from service.http.pipeline import Found, admitted, answer, items, own
from service.http.requests import TranslateRequest, search_request
from service.http.responses import Detection, TranslateResponse
from service.http.streaming import EVENTS, Stream, streamed
from service.inference import segmentation
from service.inference.markup import texts_of
from service.problems import problems
from service.settings import Settings


def router(settings: Settings) -> APIRouter:
    """The route, with the limits of these settings."""
    routes = APIRouter(tags=["translation"])
    kind = search_request(TranslateRequest, settings)

    @routes.post(
        "/translate",
        response_model=TranslateResponse,
        responses=EVENTS | problems(503, 504),
        openapi_extra={**described(kind), "parameters": [TIMEOUT_PARAMETER]},
    )
    async def translate(
        caller: Asking, service: Running, request: Annotated[TranslateRequest, Depends(body(kind))]
    ) -> Response:
        """Translate a text or a list of texts."""
        return await streamed(caller, service, lambda stream: translated(service, caller, request, stream))

    return routes


async def translated(service: Service, caller: Caller, request: TranslateRequest, stream: Stream | None) -> Response:
    """Have the request admitted, and answer it. Raises Problem."""
    async with admitted(service, caller, request) as reserved:
        return await translated_in(service, reserved, request, stream)


async def translated_in(
    service: Service, reserved: Reserved, request: TranslateRequest, stream: Stream | None
) -> Response:
    """Choose the models by languages, and answer. Raises Problem."""
    texts = await texts_of(service.engine.preparation, reserved, request)
    if request.html:  # whose lines are known now that its references are read
        segmentation.check_lines(texts, service.settings.sentences)
    detected = await detect_sources(service, reserved, request, texts) if request.source == "auto" else None
    sources = [guess.language for guess in detected] if detected else [request.source] * len(texts)
    models = [service.models.fitting("translation", source, request.target, request.model)[0] for source in sources]

    def respond(found: Found) -> TranslateResponse:
        identities = [model.identity for model in models]
        return TranslateResponse(
            translatedText=own(found.texts, request.many),
            alternatives=found.alternatives and own(found.alternatives, request.many),
            scores=found.scores and own(found.scores, request.many),
            detectedLanguage=detected and own(detected, request.many),
            model=identities[0] if len(set(models)) == 1 else identities,
            explanations=found.explanations,
        )

    return await answer(service, reserved, request, items(request, models, texts), respond, stream)


async def detect_sources(
    service: Service, reserved: Reserved, request: TranslateRequest, texts: list[str]
) -> list[Detection]:
    """The language of every text: the likeliest of those that can be translated as asked."""
    possible = service.models.sources("translation", request.target, request.model)
    preparation = service.engine.preparation
    return await preparation.each(reserved.caller, partial(likeliest, service, possible), texts, len)


def likeliest(service: Service, possible: set[str], text: str) -> Detection:
    """The likeliest language of a text among the possible ones.

    Its confidence is the detector's own: low where the text seems to be in one that cannot be translated, or is not
    served.
    """
    best = next(guess for guess in service.detector.guesses(text) if guess.language in possible)
    return Detection.of(best)
