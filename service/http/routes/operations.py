"""Routes for operators: `GET /models`, `/health/live`, `/health/ready` and `/metrics`."""

from fastapi import APIRouter, Request
from prometheus_client import CONTENT_TYPE_LATEST
from starlette.responses import JSONResponse, Response

from interlinear.config import ImageGrid
from interlinear.registry.credentials import mask_credentials
from service.auth.scopes import Scope
from service.http.dependencies import ServiceDep
from service.http.responses import (
    AcceptedImage,
    Accepts,
    EngineState,
    Health,
    ModelDescription,
    ModelIdentity,
    ModelScore,
    Readiness,
)
from service.inference.images import MEDIA_TYPES
from service.model_manager import SyncStatus
from service.problems import Problem, problem_responses
from service.settings import Settings

routes = APIRouter(tags=["operations"])


@routes.get(
    "/models",
    response_model=list[ModelDescription],
    response_model_exclude_none=True,
    responses=problem_responses(401, 403, 429),
)
async def list_models(request: Request, service: ServiceDep) -> list[ModelDescription]:
    """The models served: versions, languages, accepted inputs, and the scores on each model card.

    Why a model differs from what its alias points to is shown only to a key with the scope `admin`, and in the
    service's log.
    """
    for_operators = service.auth.has_scope(request, Scope.ADMIN)
    descriptions = []
    for model in service.models.served:
        facts, sync = model.facts, service.model_manager.sync_status(model)
        explanation = service.engine.explanation(model)
        accepts = Accepts(
            inputs=list(facts.sources),
            texts=facts.texts,
            images={name: accepted_image(grid, service.settings) for name, grid in facts.images.items()},
            max_tokens=facts.limits.source_length,
            max_length=facts.limits.target_length,
            beam_size=model.width,
            length_penalty=facts.search.length_penalty,
            explain=list(explanation.matrices),
            aligned_by=explanation.aligned_by,
            between=list(explanation.between) if explanation.between else None,
        )
        descriptions.append(
            ModelDescription(
                name=model.name,
                version=model.version,
                aliases=list(model.aliases),
                status=sync.status,
                error=status_error(sync, for_operators),
                newer=sync.newer,
                engines=service.engine.worker_names(model),
                task=model.task,
                languages=facts.languages,
                reverse=ModelIdentity.of(model.reverse) if model.reverse else None,
                accepts=accepts,
                scores={n: ModelScore(score=s.score, signature=s.signature) for n, s in facts.scores.items()},
                recipe=facts.recipe,
                dataset=facts.dataset,
                examples=facts.examples,
                words=facts.words,
            )
        )
    return descriptions


def status_error(sync: SyncStatus, for_operators: bool) -> str | None:
    """The error of a model's synchronisation. The full message names hosts and paths, so only operators receive it."""
    if sync.error is None or for_operators:
        return sync.error and mask_credentials(sync.error)
    if sync.status == "unchecked":
        return "The registry does not answer. The service's log says why."
    version = f"Version {sync.newer}" if sync.newer else "The version that its name refers to now"
    return f"{version} cannot be served. The service's log says why."


def accepted_image(grid: ImageGrid, settings: Settings) -> AcceptedImage:
    return AcceptedImage(
        grid=(grid.rows, grid.columns),
        pixels=grid.network.size if grid.network else None,
        media=list(MEDIA_TYPES) if grid.network else [],
        max_bytes=settings.image_bytes,
        max_pixels=settings.image_pixels,
    )


@routes.get("/health", response_model=Health, responses=problem_responses(503))
async def health(service: ServiceDep) -> Health:
    """LibreTranslate's route: 200 while requests are processed, else 503."""
    return Health(status=(await ready(service)).status)


@routes.get("/spec", include_in_schema=False)
async def specification(request: Request) -> JSONResponse:
    """The OpenAPI document where LibreTranslate has its own."""
    return JSONResponse(request.app.openapi())


@routes.get("/health/live", response_model=Health, responses=problem_responses(503))
async def live(service: ServiceDep) -> Health:
    """200 while the process answers and its engine runs or is being restarted; 503 if only a restart of the process
    helps."""
    if reason := service.engine.unrecoverable:
        raise Problem.unavailable(reason)
    return Health()


@routes.get("/health/ready", response_model=Readiness, responses=problem_responses(503))
async def ready(service: ServiceDep) -> Readiness:
    """200 while requests are processed; 503 during start, while no engine worker is up, and during shutdown."""
    if not service.engine.ready:
        raise Problem.unavailable("the service is not ready")
    return Readiness(
        engines=[
            EngineState(name=handle.name, up=handle.available, restarts=handle.restarts)
            for handle in service.engine.pool
        ]
    )


@routes.get(
    "/metrics",
    response_class=Response,
    responses={200: {"content": {"text/plain": {"schema": {"type": "string"}}}}, **problem_responses(401, 403)},
)
async def metrics(request: Request, service: ServiceDep) -> Response:
    """Metrics in Prometheus' text format; if so configured, only for a key with the scope `metrics`."""
    if service.settings.metrics_key:
        service.auth.require_scope(request, Scope.METRICS)
    return Response(service.metrics.render(), media_type=CONTENT_TYPE_LATEST)
