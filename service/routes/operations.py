"""For those who run the service: which models it has, whether it is well, what Prometheus counts."""

from fastapi import APIRouter, Request
from prometheus_client import CONTENT_TYPE_LATEST
from starlette.responses import Response

from seq2seq.config import ImageGrid
from service.dependencies import Running
from service.pictures import MEDIA
from service.problems import Problem, problems
from service.schemas import AcceptedImage, Accepts, EngineState, Health, ModelDescription, ModelScore, Readiness
from service.settings import Settings

routes = APIRouter(tags=["operations"])


@routes.get("/models", response_model=list[ModelDescription], response_model_exclude_none=True)
async def list_models(service: Running) -> list[ModelDescription]:
    """The models served: versions, languages, what each accepts, and the scores on its card."""
    descriptions = []
    for model in service.models.served:
        card, standing, explains = (
            model.bundle.card,
            service.catalogue.standing(model),
            service.engine.explanation(model),
        )
        accepts = Accepts(
            inputs=list(card.model.sources),
            texts=list(card.model.texts),
            images={name: accepted(grid, service.settings) for name, grid in card.model.images.items()},
            max_tokens=card.limits.source_length,
            max_length=card.limits.target_length,
            beam_size=model.width,
            explain=list(explains.matrices),
            between=list(explains.between) if explains.between else None,
        )
        descriptions.append(
            ModelDescription(
                name=model.name,
                version=model.version,
                aliases=list(model.aliases),
                status=standing.status,
                error=standing.error,
                newer=standing.newer,
                engines=service.engine.searching(model),
                task=model.task,
                languages=card.languages,
                accepts=accepts,
                scores={n: ModelScore(score=s.score, signature=s.signature) for n, s in card.metrics.items()},
                recipe=card.recipe.get("name"),
                dataset=card.data.get("name"),
            )
        )
    return descriptions


def accepted(grid: ImageGrid, settings: Settings) -> AcceptedImage:
    return AcceptedImage(
        grid=(grid.rows, grid.columns),
        pixels=grid.network.size if grid.network else None,
        media=list(MEDIA) if grid.network else [],
        max_bytes=settings.image_bytes,
        max_pixels=settings.image_pixels,
    )


@routes.get("/health/live", response_model=Health)
async def live() -> Health:
    """200 while the process answers at all."""
    return Health()


@routes.get("/health/ready", response_model=Readiness, responses=problems(503))
async def ready(service: Running) -> Readiness:
    """200 while requests are searched; 503 before, while no engine is up, and once the service is being stopped."""
    if not service.engine.ready:
        raise Problem.away("the service is not ready")
    return Readiness(
        engines=[EngineState(name=lane.name, up=lane.able, restarts=lane.restarts) for lane in service.engine.lanes]
    )


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
