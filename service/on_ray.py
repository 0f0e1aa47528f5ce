"""The service as replicas on a Ray cluster: the same app and engine, behind Ray Serve's proxies.

`interlinear serve --ray` deploys it; a KubeRay RayService names it, `import_path: service.on_ray:build`, with the
fields of `Deployment` as arguments.
"""

from typing import Any

from pydantic import BaseModel, ConfigDict, Field, model_validator
from ray import serve
from ray.serve.config import AutoscalingConfig
from uvicorn.middleware.proxy_headers import ProxyHeadersMiddleware

from service.app import create_app
from service.settings import Settings

NAME = "interlinear"  # of the application on the cluster
ENDING = 5  # seconds beyond the grace time until a replica that does not end is ended
UPSCALE = 5  # seconds that requests have to wait before another replica is started


class Deployment(BaseModel):
    """What runs on the cluster: the service's settings, and how many replicas."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    settings: Settings = Field(default_factory=Settings)
    fewest: int = Field(1, ge=1, description="replicas that always run")
    most: int = Field(1, ge=1, description="replicas under load")
    waiting: float | None = Field(
        None, gt=0, description="requests at a replica above which another is started; default: its slots"
    )
    cpus: float | None = Field(None, gt=0, description="processors of a replica; default: its threads, or one")

    @model_validator(mode="after")
    def _possible(self) -> "Deployment":
        if self.most < self.fewest:
            raise ValueError(f"at least {self.fewest} replicas and at most {self.most} is none")
        return self


@serve.ingress()
class Replica:
    """One process with the app of `create_app`, whose lifespan Ray Serve runs."""

    def __init__(self, settings: dict[str, Any]) -> None:
        """`settings`: those that were set. Raises InterlinearError when a model cannot be loaded."""
        self.made = create_app(Settings(**settings))

    def __serve_build_asgi_app__(self) -> Any:
        proxies = self.made.state.service.settings.trusted_proxies
        app: Any = self.made
        return ProxyHeadersMiddleware(app, list(proxies)) if proxies else app

    def check_health(self) -> None:
        """Asked by the cluster every few seconds; a replica that raises is replaced."""
        if not self.made.state.service.engine.ready:
            raise RuntimeError("the engine has ended")


def build(asked: Deployment) -> serve.Application:
    """The application that `serve.run`, `serve deploy` and KubeRay start."""
    settings = asked.settings
    gpus = len({device for device in settings.devices if device.startswith("cuda")})
    options: dict[str, Any] = {
        "name": "service",
        "ray_actor_options": {"num_cpus": asked.cpus or settings.threads or 1, "num_gpus": gpus},
        "max_ongoing_requests": settings.connections,  # the engine itself refuses what is too much, with 429
        "autoscaling_config": AutoscalingConfig(
            min_replicas=asked.fewest,
            max_replicas=asked.most,
            target_ongoing_requests=asked.waiting or settings.slots,
            upscale_delay_s=UPSCALE,
        ),
        "graceful_shutdown_timeout_s": settings.grace_seconds + ENDING,
        "max_constructor_retry_count": 1,
    }
    deployment = serve.deployment(**options)(Replica)
    application: serve.Application = deployment.bind(settings.model_dump(mode="json", exclude_unset=True))
    return application
