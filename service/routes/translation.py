"""`POST /translate`: LibreTranslate's contract, and what every word looked at."""

import asyncio
from collections.abc import Sequence
from typing import Annotated

from fastapi import APIRouter, Depends
from pydantic import ValidationError
from starlette.responses import Response

from seq2seq.generation import Answer, Request
from seq2seq.looks import Explanation
from seq2seq.search import SearchOptions
from service.bodies import body, described
from service.dependencies import TIMEOUT_PARAMETER, Asking, Running, Service
from service.engine import RefusedError, here_or_aside
from service.models import Served
from service.problems import Problem, invalid, problems
from service.schemas import Detection, ModelIdentity, TranslateRequest, TranslateResponse, translate_request
from service.settings import Settings

NOTHING = Explanation(source=[], target=[], matrices={}, alignment=[])


def router(settings: Settings) -> APIRouter:
    """The route, with the limits of these settings."""
    routes = APIRouter(tags=["translation"])
    kind = translate_request(settings)

    @routes.post(
        "/translate",
        response_model=TranslateResponse,
        responses=problems(400, 413, 415, 429, 503, 504),
        openapi_extra={**described(kind), "parameters": [TIMEOUT_PARAMETER]},
    )
    async def translate(
        caller: Asking, service: Running, request: Annotated[TranslateRequest, Depends(body(kind))]
    ) -> Response:
        """Translate a text or a list of texts."""
        return await caller.wait_for(answer(service, request))

    return routes


async def answer(service: Service, request: TranslateRequest) -> Response:
    """Choose the models, search, and write the answer. Raises Problem."""
    texts = request.texts
    if not any(text.strip() for text in texts):
        raise Problem.in_field("q", "has nothing to translate")
    detected = await asyncio.to_thread(detect_sources, service, request) if request.source == "auto" else None
    sources = [guess.language for guess in detected] if detected else [request.source] * len(texts)
    models = [service.models.translator(source, request.target, request.model) for source in sources]
    options = {model: search_options(request, model) for model in set(models)}
    asked = [
        (i, model, Request({"source": text}, options[model], explain=bool(request.explain)))
        for i, (text, model) in enumerate(zip(texts, models, strict=True))
        if text.strip()
    ]
    try:
        found = await service.engine.answers([(model, search) for _, model, search in asked])
    except RefusedError as refused:
        place = "q" if isinstance(request.q, str) else f"q[{asked[refused.index][0]}]"
        raise Problem.in_field(place, _because(refused)) from None
    answers = dict(zip((i for i, _, _ in asked), found, strict=True))
    small = len(texts) == 1 and not request.explain
    return await here_or_aside(small, written, request, [answers.get(i) for i in range(len(texts))], models, detected)


def detect_sources(service: Service, request: TranslateRequest) -> list[Detection]:
    """The language of every text: the likeliest of those that can be translated as asked.

    Its confidence is among all languages served: low where the text seems to be in one that cannot be.
    """
    possible = service.models.sources(request.target, request.model)
    detections = []
    for text in request.texts:
        best = next(guess for guess in service.detector.guesses(text) if guess.language in possible)
        detections.append(Detection(confidence=round(100 * best.probability, 1), language=best.language))
    return detections


def search_options(request: TranslateRequest, model: Served) -> SearchOptions:
    """The model's own options, changed as the request asks. Raises Problem."""
    card = model.bundle.card
    n_best = (request.alternatives or 0) + 1
    beam = request.beam_size or max(card.search.beam, n_best)
    if n_best > beam:
        raise Problem.in_field("alternatives", f"must be fewer than beam_size, which is {beam}")
    if request.max_length and request.max_length > card.limits.target_length:
        raise Problem.in_field("max_length", f"must be at most {card.limits.target_length}, the model's limit")
    changed = {
        "beam": beam,
        "n_best": n_best,
        "length_penalty": request.length_penalty,
        "max_length": request.max_length,
    }
    given = {name: value for name, value in changed.items() if value is not None}
    try:
        return SearchOptions.model_validate(card.search.model_dump() | given)
    except ValidationError as error:
        raise invalid(error, known=list(TranslateRequest.model_fields)) from None


def written(
    request: TranslateRequest,
    answers: Sequence[Answer | None],
    models: Sequence[Served],
    detected: list[Detection] | None,
) -> Response:
    """The answer as JSON; None answers a blank text."""
    candidates = [answer.candidates if answer else [] for answer in answers]
    texts = [best[0].text if best else text for best, text in zip(candidates, request.texts, strict=True)]
    more = [[c.text for c in others[1:]] for others in candidates] if request.alternatives else None
    scores = [[c.score for c in all_of_it] for all_of_it in candidates] if request.alternatives else None
    identities = [ModelIdentity(name=model.name, version=model.version) for model in models]
    explanations = [a.explanation or NOTHING if a else NOTHING for a in answers] if request.explain else None
    one = isinstance(request.q, str)
    response = TranslateResponse(
        translatedText=texts[0] if one else texts,
        alternatives=more[0] if one and more else more,
        scores=scores[0] if one and scores else scores,
        detectedLanguage=detected[0] if one and detected else detected,
        model=identities[0] if len(set(models)) == 1 else identities,
        explanations=explanations,
    )
    return Response(response.model_dump_json(exclude_none=True), media_type="application/json")


def _because(refused: RefusedError) -> str:
    remedy = f"; {refused.error.remedy}" if refused.error.remedy else ""
    return f"cannot be translated: {refused.error.problem}{remedy}"
