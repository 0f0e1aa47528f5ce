"""`POST /translate/multimodal`: translates a text together with a picture."""

from fastapi import APIRouter

from service.engine.admission import Reservation
from service.http.dependencies import Service
from service.http.pipeline import Generation, PipelineResult, generating_route, read_texts
from service.http.requests import MultimodalRequest
from service.http.responses import ModelIdentity, TranslateResponse
from service.http.routes.translation import detect_languages
from service.http.search_inputs import ModelInput
from service.models import ServedModel, ServedModels
from service.problems import FieldProblem, Problem
from service.settings import Settings

MULTIMODAL_PATH = "/translate/multimodal"


def router(settings: Settings) -> APIRouter:
    """The route, with the limits of the settings."""
    return generating_route(
        MULTIMODAL_PATH,
        "translation",
        MultimodalRequest,
        TranslateResponse,
        translate_multimodal,
        settings,
        statuses=(422, 503, 504),
    )


async def translate_multimodal(service: Service, reservation: Reservation, request: MultimodalRequest) -> Generation:
    """Translate a text that goes with a picture. Either may be absent, not both."""
    if request.q is None and request.image is None:
        missing = [FieldProblem(field=name, problem="is missing") for name in ("q", "image")]
        raise Problem(400, "q and image are missing: one of them may be absent, not both", fields=missing)
    sources = await read_texts(service, reservation, request)
    if any(source.document for source in sources):
        raise Problem.in_field("q", "has markup, which is not translated with a picture: send its text, without tags")
    given = [source.text for source in sources]
    source, detected = request.source, None
    if source == "auto" and given:
        (detected,) = await detect_languages(service, reservation, "multimodal", request, given)
        source = detected.language
    kept = detected is not None and service.models.same_language(source, request.target)
    if kept or (not given and request.source == "auto"):  # any language will do
        source = min(service.models.source_languages("multimodal", request.target, request.model))
    fitting = service.models.for_languages("multimodal", source, request.target, request.model)
    texts, images, fields = {}, {}, {}
    if request.image is None or kept:
        model = fitting[0]
    else:
        model, name, size = image_reader(service.models, fitting)
        images[name] = await service.image_decoder.decode(request.image, size, "image")
        fields[name] = "image"
    for text in given:
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
            warnings=result.warnings,
        )

    return Generation([ModelInput(model, texts, fields, images, kept=given[0] if kept else None)], respond)


def image_reader(models: ServedModels, fitting: list[ServedModel]) -> tuple[ServedModel, str, int]:
    """The first of the models that reads pictures, the name of its picture source, and its side length in pixels.
    Raises Problem."""
    for model in fitting:
        if model.image_source:
            name, network = model.image_source
            return model, name, network.size
    first, image_models = fitting[0], [str(model) for model in models.for_task("multimodal") if model.image_source]
    reads = "reads features that another program made, not pictures" if first.facts.images else "reads text"
    alternatives = (
        f"served for pictures: {', '.join(image_models)}" if image_models else "no model that is served reads pictures"
    )
    raise Problem.in_field("image", f"cannot be read: {first} {reads}; {alternatives}")
