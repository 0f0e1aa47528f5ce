"""From a request's texts to its answer: the one road of every route that searches."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from pydantic import BaseModel
from starlette.responses import Response

from seq2seq.generation import Answer, Request
from seq2seq.looks import Explanation
from seq2seq.search import SearchOptions
from service.dependencies import Service
from service.engine import RefusedError, here_or_aside
from service.models import Served
from service.problems import Problem
from service.schemas import SearchRequest

NOTHING = Explanation(source=[], target=[], matrices={}, alignment=[])


@dataclass(frozen=True)
class Found:
    """What a request is answered with: where it gave one text, what belongs to that; where a list, lists."""

    texts: str | list[str]
    alternatives: list[str] | list[list[str]] | None
    scores: list[float] | list[list[float]] | None
    explanations: list[Explanation] | None

    @staticmethod
    def of(request: SearchRequest, answers: Sequence[Answer | None]) -> "Found":
        """From the answer to every text; None is a blank text's, which is answered by itself."""
        candidates = [answer.candidates if answer else [] for answer in answers]
        texts = [best[0].text if best else text for best, text in zip(candidates, request.texts, strict=True)]
        more = [[c.text for c in others[1:]] for others in candidates] if request.alternatives else None
        scores = [[c.score for c in all_of_it] for all_of_it in candidates] if request.alternatives else None
        explanations = [a.explanation or NOTHING if a else NOTHING for a in answers] if request.explain else None
        if isinstance(request.given, str):
            return Found(texts[0], more and more[0], scores and scores[0], explanations)
        return Found(texts, more, scores, explanations)


async def answer(
    service: Service, request: SearchRequest, models: Sequence[Served], respond: Callable[[Found], BaseModel]
) -> Response:
    """Search every text with its model, and write what `respond` makes of it. Raises Problem."""
    options = {model: search_options(request, model) for model in set(models)}
    asked = [
        (i, model, Request({model.source: text}, options[model], explain=bool(request.explain)))
        for i, (text, model) in enumerate(zip(request.texts, models, strict=True))
        if text.strip()
    ]
    try:
        found = await service.engine.answers([(model, search) for _, model, search in asked])
    except RefusedError as refused:
        place = request.field if isinstance(request.given, str) else f"{request.field}[{asked[refused.index][0]}]"
        remedy = f"; {refused.error.remedy}" if refused.error.remedy else ""
        raise Problem.in_field(place, f"cannot be {request.done}: {refused.error.problem}{remedy}") from None
    by_place = dict(zip((i for i, _, _ in asked), found, strict=True))
    answers = [by_place.get(i) for i in range(len(models))]

    def written() -> Response:
        body = respond(Found.of(request, answers)).model_dump_json(exclude_none=True)
        return Response(body, media_type="application/json")

    return await here_or_aside(len(models) == 1 and not request.explain, written)


def search_options(request: SearchRequest, model: Served) -> SearchOptions:
    """The model's own options, changed as the request asks. Raises Problem."""
    own, longest = model.bundle.card.search, model.bundle.card.limits.target_length
    n_best = (request.alternatives or 0) + 1
    beam = request.beam_size or max(own.beam, n_best)
    if beam > model.width:
        raise Problem.in_field("beam_size", f"must be at most {model.width} for {model}")
    if n_best > beam:
        raise Problem.in_field("alternatives", f"must be fewer than beam_size, which is {beam}")
    if request.max_length and request.max_length > longest:
        raise Problem.in_field("max_length", f"must be at most {longest}, the model's limit")
    if request.max_length and request.max_length < own.min_length:
        raise Problem.in_field("max_length", f"must be at least {own.min_length}: the model writes no less")
    changed = {
        "beam": beam,
        "n_best": n_best,
        "length_penalty": request.length_penalty,
        "max_length": request.max_length,
    }
    given = {name: value for name, value in changed.items() if value is not None}
    return SearchOptions.model_validate(own.model_dump() | given)
