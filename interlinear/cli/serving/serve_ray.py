"""Deploys the service on Ray Serve, keeps it while the command runs, and deletes it at the end."""

import logging
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from math import ceil
from pathlib import Path

from ray import serve
from ray.exceptions import RayError
from ray.serve.config import HTTPOptions

from interlinear.errors import ServiceError, UsageError
from interlinear.registry import names
from interlinear.registry.address import tracking_uri
from service.ray_serve import APPLICATION_NAME, ServeDeployment, build
from service.settings import ServedModelConfig, Settings
from training.ray.cluster import WorkerGroupConfig, last_error_line, ray_cluster

POLL_SECONDS = 0.2  # seconds between checks for a stop request


def serve_on_ray(
    settings: Settings,
    replicas: tuple[int, int],
    host: str,
    port: int,
    address: str | None,
    say: Callable[[str], None],
) -> None:
    """Serve on the least to the most `replicas` until SIGTERM or SIGINT. A cluster that this command started is then
    shut down; on another cluster only the service is deleted.

    Raises ServiceError if the replicas do not start, TrainingError if there is no cluster, and UsageError for
    suggestions without a store for them.
    """
    if settings.suggestions and not settings.key_store:  # each replica would make one in its own working directory
        raise UsageError(
            "suggestions", "needs a store that all replicas share", "say --set keys=FILE, or keys=postgresql://..."
        )
    fewest, most = replicas
    deployment = ServeDeployment(settings=absolute_paths(settings), fewest=fewest, most=most)
    logging.getLogger("ray.serve").setLevel(logging.WARNING)
    cpus = ceil(deployment.most * (deployment.cpus or deployment.settings.threads or 1))
    gpu = deployment.settings.device.startswith("cuda")
    stop_requested = threading.Event()
    with ray_cluster(WorkerGroupConfig(deployment.fewest, cpus, gpu, address)):
        for signal_number in (signal.SIGTERM, signal.SIGINT):  # replace the handlers that Ray has installed
            signal.signal(signal_number, lambda _signal, _frame: stop_requested.set())
        try:
            with _deployed(deployment, host, port, own_cluster=address is None):
                say(
                    f"{deployment.fewest} to {deployment.most} replicas; "
                    f"playground http://{host}:{port}/  Ctrl-C ends it"
                )
                while not stop_requested.wait(POLL_SECONDS):
                    pass
        except RayError as error:
            raise ServiceError("Ray", f"the cluster failed: {last_error_line(error)}", "look at Ray's logs") from error


@contextmanager
def _deployed(deployment: ServeDeployment, host: str, port: int, own_cluster: bool) -> Iterator[None]:
    proxy_location = "HeadOnly" if own_cluster else "EveryNode"
    serve.start(proxy_location=proxy_location, http_options=HTTPOptions(host=host, port=port))
    try:
        try:
            serve.run(build(deployment), name=APPLICATION_NAME)
        except RuntimeError as error:
            deployments = serve.status().applications[APPLICATION_NAME].deployments
            message = next(
                (deployment_status.message for deployment_status in deployments.values() if deployment_status.message),
                str(error),
            )
            raise ServiceError(
                APPLICATION_NAME, f"no replica came up: {last_line(message)}", "look at Ray's logs"
            ) from error
        yield
    finally:
        serve.delete(APPLICATION_NAME)
        if own_cluster:
            serve.shutdown()


def last_line(message: str) -> str:
    """The last line of Ray Serve's message about a failed replica: the error below its traceback."""
    lines = [line.strip() for line in message.splitlines() if line.strip()]
    return lines[-1] if lines else message


def absolute_paths(settings: Settings) -> Settings:
    """The settings with absolute paths, so that they are valid in every working directory."""

    def resolved(config: ServedModelConfig) -> ServedModelConfig:
        uris = {"uri": config.uri, "reverse": config.reverse}
        folders = {
            key: str(Path(uri).resolve())
            for key, uri in uris.items()
            if uri and isinstance(names.parse_model_name(uri), names.FolderName)
        }
        return config.model_copy(update=folders)

    keys = settings.key_store
    changes = {
        "models": tuple(map(resolved, settings.models)),
        "tracking": tracking_uri(settings.tracking),
        "cache": settings.cache and settings.cache.resolve(),
        "files_folder": settings.files_folder and settings.files_folder.resolve(),
        "keys": str(Path(keys).resolve()) if keys and "://" not in keys else keys,
    }
    changes = {name: value for name, value in changes.items() if value is not None}
    return settings.model_copy(update=changes)
