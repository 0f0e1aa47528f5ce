"""`POST /translate`: translates one or several texts, compatible with LibreTranslate."""

from functools import partial

from fastapi import APIRouter

from interlinear.config import Task
from interlinear.translation.detection import CERTAIN_ENOUGH, guess_of, is_certain
from interlinear.translation.language_tags import language_name
from service.engine.admission import Reservation
from service.http.dependencies import Service
from service.http.pipeline import Generation, PipelineResult, generating_route, model_inputs, read_texts, unwrap
from service.http.requests import MultimodalRequest, TranslateRequest
from service.http.responses import Detection, ModelIdentity, TranslateResponse, described_fields
from service.inference import segmentation
from service.problems import Problem
from service.settings import Settings


def router(settings: Settings) -> APIRouter:
    """The route, with the limits of the settings."""
    return generating_route(
        "/translate",
        "translation",
        TranslateRequest,
        described_fields(TranslateResponse),
        translate,
        settings,
        streams=True,
    )


async def translate(service: Service, reservation: Reservation, request: TranslateRequest) -> Generation:
    """Translate a text or a list of texts."""
    if request.target_prefix is not None and (request.many or request.markup):
        raise Problem.in_field("target_prefix", "is for one text without markup: send `q` as a string")
    if request.target_prefix is None and request.min_alternative_expansion_prob is not None:
        raise Problem.in_field("min_alternative_expansion_prob", "is for requests with `target_prefix`")
    # An explanation, further fields and a target prefix are about the text as it is sent.
    as_sent = request.explain or request.fields or request.target_prefix is not None or request.protect is False
    texts = await read_texts(service, reservation, request, None if as_sent else "message")
    if request.markup and request.split_mode == "1":  # the number of lines is known once the text is read
        segmentation.check_lines([source.text for source in texts], service.settings.sentences)
    if request.explain and any(source.document for source in texts):
        raise Problem.in_field("explain", "is for texts without tags: send the text of one sentence as `text`")
    if request.fields and any(source.document for source in texts):
        raise Problem.in_field("fields", "are of texts without tags: send `q` as `text`")
    detected, sources = None, [request.source] * len(texts)
    if request.source == "auto":
        detected = await detect_languages(
            service, reservation, "translation", request, [source.text for source in texts]
        )
        sources = [guess.language for guess in detected]
    kept = [service.models.same_language(source, request.target) for source in sources]
    paths = [
        service.models.path_into(request.target)
        if keep
        else service.models.translation_path(source, request.target, request.model)
        for source, keep in zip(sources, kept, strict=True)
    ]

    def respond(result: PipelineResult) -> TranslateResponse:
        identities = [ModelIdentity.of_path(path) for path in paths]
        return TranslateResponse(
            translatedText=unwrap(result.texts, request.many),
            alternatives=result.alternatives and unwrap(result.alternatives, request.many),
            scores=result.scores and unwrap(result.scores, request.many),
            detectedLanguage=detected and unwrap(detected, request.many),
            model=identities[0] if len(set(paths)) == 1 else identities,
            explanations=result.explanations,
            warnings=result.warnings,
            fields=result.fields and unwrap(result.fields, request.many),
        )

    return Generation(model_inputs(request, paths, texts, kept), respond)


async def detect_languages(
    service: Service,
    reservation: Reservation,
    task: Task,
    request: TranslateRequest | MultimodalRequest,
    texts: list[str],
) -> list[Detection]:
    """The language of every text: the most probable language that can be translated into the target, or the target
    itself. Raises Problem."""
    possible = service.models.source_languages(task, request.target, request.model)
    detect = partial(detect_language, service, possible, request.target)
    return await service.engine.preparation.map(reservation.caller, detect, texts, len)


def detect_language(service: Service, possible: set[str], target: str, text: str) -> Detection:
    """The most probable language of a text among the possible ones, or the target where the text is in that already.

    The confidence is the detector's own: low if the text seems to be in a language that is not served, or that cannot
    be translated into the target. Raises Problem for a text in a language of these kinds if the settings refuse it.
    """
    guesses = service.detector.guesses(text)
    best = next(guess for guess in guesses if guess.language in possible)
    if (same := guess_of(guesses, target)) and same.probability > best.probability and is_certain(same):
        return Detection.of(same)
    other = best.likeliest
    if service.settings.refuse_other_languages and other and other.probability >= CERTAIN_ENOUGH:
        name = language_name(other.language)
        raise Problem.in_field("source", f"seems to be {name}, which is not translated into this target: name it")
    return Detection.of(best)
