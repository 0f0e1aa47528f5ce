"""The service as replicas on a Ray cluster: the same app and engine, behind Ray Serve's proxies.

`interlinear serve --ray` deploys it. A KubeRay RayService refers to it as `import_path: service.ray_serve:build`,
with the fields of `ServeDeployment` as arguments.
"""

import logging
import time
from typing import Any

from fastapi import FastAPI
from pydantic import BaseModel, ConfigDict, Field, model_validator
from ray import serve
from ray.serve.config import AutoscalingConfig
from uvicorn.middleware.proxy_headers import ProxyHeadersMiddleware

from interlinear.errors import RegistryError, StoreError
from service.app import create_app
from service.settings import Settings

log = logging.getLogger("interlinear.service")

APPLICATION_NAME = "interlinear"  # name of the application on the cluster
SHUTDOWN_MARGIN = 5  # seconds beyond the grace time after which a replica is killed
UPSCALE_DELAY = 5  # seconds of overload before another replica is started
MAX_RETRY_DELAY = 30.0  # longest pause between two attempts of a replica to load its models, in seconds
MAX_CONSTRUCTOR_RETRIES = 20  # starts of replicas that wait for the registry; Ray allows at least 3 for each


class ServeDeployment(BaseModel):
    """Configuration of the deployment: the service's settings, and the numbers of replicas and processors."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    settings: Settings = Field(default_factory=Settings)
    fewest: int = Field(1, ge=1, description="replicas that always run")
    most: int = Field(1, ge=1, description="replicas under load")
    waiting: float | None = Field(
        None, gt=0, description="requests at a replica above which another replica is started; default: its slots"
    )
    cpus: float | None = Field(None, gt=0, description="processors of a replica; default: its threads, or one")

    retry_seconds: float = Field(
        0,
        ge=0,
        description="how long a replica retries while its registry or keys are unavailable; default: not at all",
    )

    @model_validator(mode="after")
    def _check_replicas(self) -> "ServeDeployment":
        if self.most < self.fewest:
            raise ValueError(f"at least {self.fewest} replicas and at most {self.most} is none")
        if self.settings.suggestions and not self.settings.keys:  # each replica would make a store of its own
            raise ValueError("settings.suggestions needs a store that all replicas share: name it in settings.keys")
        return self

    @property
    def replica_settings(self) -> Settings:
        """The settings of each replica. Documents are on the disk of one replica, which clients cannot choose: with
        several they are off."""
        return self.settings.model_copy(update={"files": False}) if self.most > 1 else self.settings


@serve.ingress()
class Replica:
    """One process with the app of `create_app`, whose lifespan Ray Serve runs."""

    def __init__(self, settings: dict[str, Any], retry_seconds: float = 0) -> None:
        """`settings`: the settings that differ from the defaults. Raises InterlinearError if a model cannot be
        loaded."""
        self.asgi_app = create_app_with_retries(Settings(**settings), retry_seconds)

    def __serve_build_asgi_app__(self) -> Any:
        proxies = self.asgi_app.state.service.settings.trusted_proxies
        app: Any = self.asgi_app
        return ProxyHeadersMiddleware(app, list(proxies)) if proxies else app

    def check_health(self) -> None:
        """Called by the cluster every few seconds; a replica that raises is replaced."""
        if not self.asgi_app.state.service.engine.ready:
            raise RuntimeError("the engine has ended")


def create_app_with_retries(settings: Settings, seconds: float) -> FastAPI:
    """Create the app, retrying for `seconds` while the registry does not respond, has no such model yet, or the keys
    cannot be read. Raises the errors of `create_app`.

    Ray itself starts a replica three times and then fails the service until it is deployed again.
    """
    until, pause = time.monotonic() + seconds, 1.0
    while True:
        try:
            return create_app(settings)
        except (RegistryError, StoreError) as error:
            if time.monotonic() + pause > until:
                raise
            log.warning("%s Trying again in %g s.", error, pause)
        time.sleep(pause)
        pause = min(2 * pause, MAX_RETRY_DELAY)


def build(config: ServeDeployment) -> serve.Application:
    """The application that `serve.run`, `serve deploy` and KubeRay start."""
    settings = config.replica_settings
    gpus = len({device for device in settings.devices if device.startswith("cuda")})
    options: dict[str, Any] = {
        "name": "service",
        "ray_actor_options": {"num_cpus": config.cpus or settings.threads or 1, "num_gpus": gpus},
        "max_ongoing_requests": settings.connections,  # the engine itself rejects overload with 429
        "autoscaling_config": AutoscalingConfig(
            min_replicas=config.fewest,
            max_replicas=config.most,
            target_ongoing_requests=config.waiting or settings.slots,
            upscale_delay_s=UPSCALE_DELAY,
        ),
        "graceful_shutdown_timeout_s": settings.grace_seconds + SHUTDOWN_MARGIN,
        # Without retries the command reports the error at once.
        "max_constructor_retry_count": MAX_CONSTRUCTOR_RETRIES if config.retry_seconds else 1,
    }
    deployment = serve.deployment(**options)(Replica)
    application: serve.Application = deployment.bind(
        settings.model_dump(mode="json", exclude_unset=True), config.retry_seconds
    )
    return application
