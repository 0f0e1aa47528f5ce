"""For those who run the service: which models it has, whether it is well, what Prometheus counts."""

from fastapi import APIRouter, Request
from prometheus_client import CONTENT_TYPE_LATEST
from starlette.responses import Response

from service.dependencies import Running
from service.problems import Problem, problems
from service.schemas import Accepts, Health, ModelDescription, ModelScore

routes = APIRouter(tags=["operations"])


@routes.get("/models", response_model=list[ModelDescription], response_model_exclude_none=True)
async def list_models(service: Running) -> list[ModelDescription]:
    """The models served: versions, languages, what each accepts, and the scores on its card."""
    descriptions = []
    for model in service.models.served:
        card = model.bundle.card
        accepts = Accepts(
            inputs=list(card.model.sources),
            max_tokens=card.limits.source_length,
            max_length=card.limits.target_length,
            beam_size=service.settings.beam,
            explain=service.engine.explains[model],
        )
        descriptions.append(
            ModelDescription(
                name=model.name,
                version=model.version,
                aliases=list(model.aliases),
                task=model.task,
                languages=card.languages,
                accepts=accepts,
                scores={n: ModelScore(score=s.score, signature=s.signature) for n, s in card.metrics.items()},
                recipe=card.recipe.get("name"),
                dataset=card.data.get("name"),
            )
        )
    return descriptions


@routes.get("/health/live", response_model=Health)
async def live() -> Health:
    """200 while the process answers at all."""
    return Health()


@routes.get("/health/ready", response_model=Health, responses=problems(503))
async def ready(service: Running) -> Health:
    """200 while requests are searched; 503 before, and once the service is being stopped."""
    if not service.engine.ready:
        raise Problem.away("the service is not ready")
    return Health()


@routes.get(
    "/metrics",
    response_class=Response,
    responses={200: {"content": {"text/plain": {"schema": {"type": "string"}}}}, **problems(401, 403)},
)
async def metrics(request: Request, service: Running) -> Response:
    """Counters and histograms in Prometheus's text format; by option only for those who have a key."""
    if service.settings.metrics_key:
        service.gate.check(request)
    return Response(service.metrics.page(), media_type=CONTENT_TYPE_LATEST)
