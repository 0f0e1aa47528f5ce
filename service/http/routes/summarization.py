"""`POST /summarize`: summarizes one or several texts."""

from functools import partial

from fastapi import APIRouter

from interlinear.text.sentences import leading_sentences
from interlinear.translation.paths import ModelPath
from service.engine.admission import Reservation
from service.http.dependencies import Service
from service.http.pipeline import Generation, PipelineResult, generating_route, model_inputs, unwrap
from service.http.requests import SummarizeRequest
from service.http.responses import ModelIdentity, Reduction, SummarizeResponse
from service.inference.markup import SourceText
from service.models import ServedModel
from service.settings import Settings


def router(settings: Settings) -> APIRouter:
    """The route, with the limits of the settings."""
    return generating_route(
        "/summarize", "summarization", SummarizeRequest, SummarizeResponse, summarize, settings, streams=True
    )


async def summarize(service: Service, reservation: Reservation, request: SummarizeRequest) -> Generation:
    """Summarize a text or a list of texts."""
    model = service.models.summarizer(request.model)
    texts = request.texts
    reductions: list[Reduction | None] | None = None
    if request.long == "lead":
        preparation = service.engine.preparation
        read = await preparation.map(reservation.caller, partial(truncate_to_lead, model), request.texts, len)
        texts = [text for text, _ in read]
        if any(reduction for _, reduction in read):
            reductions = [reduction for _, reduction in read]

    def respond(result: PipelineResult) -> SummarizeResponse:
        return SummarizeResponse(
            summaries=unwrap(result.texts, request.many),
            alternatives=result.alternatives and unwrap(result.alternatives, request.many),
            scores=result.scores and unwrap(result.scores, request.many),
            reduced=reductions and unwrap(reductions, request.many),
            model=ModelIdentity.of(model),
            explanations=result.explanations,
        )

    inputs = model_inputs(request, [ModelPath(model)] * len(texts), [SourceText(text) for text in texts])
    return Generation(inputs, respond)


def truncate_to_lead(model: ServedModel, text: str) -> tuple[str, Reduction | None]:
    """The leading sentences of a text that the model can read, and how much that is (None if it is all of the text).

    A text whose first sentence is already too long is returned unchanged; the search refuses it with the limit.
    """
    lead = leading_sentences(text, model.facts.languages.get(model.source), model.reads_whole)
    if not lead.sentences or lead.whole:
        return text, None
    return lead.text, Reduction(sentences=lead.sentences, of=lead.of, characters=lead.characters)
