"""`POST /translate`: translates one or several texts, compatible with LibreTranslate."""

from functools import partial
from typing import Annotated

from fastapi import APIRouter, Depends
from starlette.responses import Response

from service.engine.admission import Reservation
from service.http.dependencies import TIMEOUT_PARAMETER, Caller, CallerDep, Service, ServiceDep
from service.http.parsing import openapi_body, parsed_body
from service.http.pipeline import PipelineResult, admit_request, model_inputs, read_texts, search_and_respond, unwrap
from service.http.requests import TranslateRequest, with_limits
from service.http.responses import Detection, ModelIdentity, TranslateResponse
from service.http.streaming import EVENT_RESPONSES, OutputStream, respond_or_stream
from service.inference import segmentation
from service.problems import problem_responses
from service.settings import Settings


def router(settings: Settings) -> APIRouter:
    """The route, with the limits of the settings."""
    routes = APIRouter(tags=["translation"])
    kind = with_limits(TranslateRequest, settings)

    @routes.post(
        "/translate",
        response_model=TranslateResponse,
        responses=EVENT_RESPONSES | problem_responses(503, 504),
        openapi_extra={**openapi_body(kind), "parameters": [TIMEOUT_PARAMETER]},
    )
    async def translate(
        caller: CallerDep, service: ServiceDep, request: Annotated[TranslateRequest, Depends(parsed_body(kind))]
    ) -> Response:
        """Translate a text or a list of texts."""
        return await respond_or_stream(
            caller, service, lambda stream: translate_texts(service, caller, request, stream)
        )

    return routes


async def translate_texts(
    service: Service, caller: Caller, request: TranslateRequest, stream: OutputStream | None
) -> Response:
    """Admit the request and answer it. Raises Problem."""
    async with admit_request(service, caller, request) as reservation:
        return await translate_admitted(service, reservation, request, stream)


async def translate_admitted(
    service: Service, reservation: Reservation, request: TranslateRequest, stream: OutputStream | None
) -> Response:
    """Choose the model of each text by its languages, and answer. Raises Problem."""
    texts = await read_texts(service.engine.preparation, reservation, request)
    if request.html:  # the number of lines is known once character references are decoded
        segmentation.check_lines(texts, service.settings.sentences)
    detected = await detect_languages(service, reservation, request, texts) if request.source == "auto" else None
    sources = [guess.language for guess in detected] if detected else [request.source] * len(texts)
    models = [
        service.models.for_languages("translation", source, request.target, request.model)[0] for source in sources
    ]

    def respond(result: PipelineResult) -> TranslateResponse:
        identities = [ModelIdentity.of(model) for model in models]
        return TranslateResponse(
            translatedText=unwrap(result.texts, request.many),
            alternatives=result.alternatives and unwrap(result.alternatives, request.many),
            scores=result.scores and unwrap(result.scores, request.many),
            detectedLanguage=detected and unwrap(detected, request.many),
            model=identities[0] if len(set(models)) == 1 else identities,
            explanations=result.explanations,
        )

    return await search_and_respond(
        service, reservation, request, model_inputs(request, models, texts), respond, stream
    )


async def detect_languages(
    service: Service, reservation: Reservation, request: TranslateRequest, texts: list[str]
) -> list[Detection]:
    """The language of every text: the most probable of those that can be translated into the target."""
    possible = service.models.source_languages("translation", request.target, request.model)
    preparation = service.engine.preparation
    return await preparation.map(reservation.caller, partial(detect_language, service, possible), texts, len)


def detect_language(service: Service, possible: set[str], text: str) -> Detection:
    """The most probable language of a text among the possible ones.

    The confidence is the detector's own: low if the text seems to be in a language that is not served, or that cannot
    be translated into the target.
    """
    best = next(guess for guess in service.detector.guesses(text) if guess.language in possible)
    return Detection.of(best)
