"""`interlinear serve`: models behind a REST API and the playground, until it is told to stop."""

import asyncio
import errno
import signal
import socket
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from interlinear.arguments import Tracking
from seq2seq.errors import CallError, RegistryError, ServiceError

if TYPE_CHECKING:
    from service.settings import ModelPlace, Settings

HOW = "say --model NAME=MODEL, where MODEL is a bundle's folder or models:/NAME@champion"
ENDING = 5  # seconds beyond the grace time until answers that nobody takes are given up


def serve(
    model: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME=MODEL",
            show_default=False,
            help="A model to serve, and its name in the API; may be given several times. Else the registry's champion.",
        ),
    ] = None,
    config: Annotated[
        Path | None,
        typer.Option(metavar="FILE", show_default=False, help="Models and settings in YAML: see docs/rest-api.md."),
    ] = None,
    host: Annotated[str, typer.Option(metavar="HOST", help="0.0.0.0 listens to every network.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(metavar="PORT", min=0, max=65535, help="0 takes a free one.")] = 8000,
    device: Annotated[
        str | None, typer.Option(metavar="DEVICE", show_default="cpu", help="cpu, cuda or cuda:N.")
    ] = None,
    tracking: Tracking = None,
    cache: Annotated[
        Path | None,
        typer.Option(
            metavar="FOLDER", show_default="~/.cache/interlinear/models", help="Where fetched models are kept."
        ),
    ] = None,
    poll: Annotated[
        float | None,
        typer.Option(metavar="SECONDS", show_default="10", help="Time between two looks at what the aliases mean."),
    ] = None,
) -> None:
    """Serve models over REST, with a playground at `/`. SIGTERM and Ctrl-C finish what was accepted, then end.

    A model that is named by an alias is followed: another version is served once it is loaded, without a request lost.
    Limits, slots and threads are set in --config or by environment variables, INTERLINEAR_SERVE_...: docs/rest-api.md.
    """
    import uvicorn

    from interlinear.loading import check_device
    from interlinear.terminal import say
    from service.app import create_app

    options = {"device": device, "tracking": tracking, "cache": cache, "poll_seconds": poll}
    given: dict[str, Any] = {name: value for name, value in options.items() if value is not None}
    if model:
        given["models"] = tuple(map(place, model))
    settings = configured(config, given)
    check_device(settings.device)
    if not settings.models:
        settings = settings.model_copy(update={"models": (champion(settings.tracking),)})
    listening = bound(host, port)
    app = create_app(settings)
    service = app.state.service
    address = f"http://{f'[{host}]' if ':' in host else host}:{listening.getsockname()[1]}"

    class Server(uvicorn.Server):
        async def startup(self, sockets: list[socket.socket] | None = None) -> None:
            await super().startup(sockets)
            for one in service.models.served:
                if away := service.catalogue.standing(one).error:
                    say(away)
                say(f"{one} is served: {one.task}, {' to '.join(one.bundle.card.languages.values())}")
            say(f"playground {address}/  API {address}/docs  Ctrl-C ends it")

        async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
            # At once, so that the service is not ready any more, and what is not finished in time is still answered.
            stopping = asyncio.create_task(asyncio.to_thread(service.engine.stop, settings.grace_seconds))
            await super().shutdown(sockets)
            await stopping

    # uvicorn ends in order on these signals and then raises them again: that is how a service is stopped, not an error.
    for ending in (signal.SIGTERM, signal.SIGINT):
        signal.signal(ending, lambda _signal, _frame: None)
    served = uvicorn.Config(
        app,
        log_level="warning",
        access_log=False,
        server_header=False,
        timeout_graceful_shutdown=int(settings.grace_seconds) + ENDING,
    )
    try:
        Server(served).run(sockets=[listening])
    except OSError as error:  # another process that was bound to the port too has begun to listen first
        raise cannot_listen(error, host, port) from None


def configured(path: Path | None, given: dict[str, Any]) -> "Settings":
    """The settings: the options given, then the file, then environment variables. Raises CallError with the key."""
    import yaml
    from pydantic import ValidationError

    from service.settings import Settings

    content: Any = {}
    if path:
        try:
            content = yaml.safe_load(path.read_text(encoding="utf-8")) or {}
        except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
            raise CallError(
                f"--config {path}", " ".join(f"cannot be read: {error}".split()), "see docs/rest-api.md"
            ) from None
        if not isinstance(content, dict):
            raise CallError(f"--config {path}", "holds no settings", "it begins with models:, see docs/rest-api.md")
    try:
        return Settings(**(content | given))
    except ValidationError as error:
        first = error.errors()[0]
        key = ".".join(map(str, first["loc"]))
        said = first["msg"].removeprefix("Value error, ")
        where = f"--config {path}" if path else "INTERLINEAR_SERVE_..."
        raise CallError(where, f"{key}: {said}" if key else said, "see docs/rest-api.md") from None


def place(text: str) -> "ModelPlace":
    """`NAME=MODEL`, or a MODEL that keeps its own name."""
    from service.settings import ModelPlace

    name, equals, where = text.partition("=")
    if not equals or "/" in name or ":" in name:
        return ModelPlace(place=text)
    if not name or not where:
        raise CallError(f"--model {text}", "a name or a model is missing", HOW)
    return ModelPlace(name=name, place=where)


def champion(tracking: str | None) -> "ModelPlace":
    """The one registered model that has a champion. Raises CallError where there is none, or a choice."""
    from registry.store import CHAMPION, Store
    from service.settings import ModelPlace

    try:
        names = [record.name for record in Store(tracking).list_models() if CHAMPION in record.aliases]
    except RegistryError as error:
        raise CallError(
            "--model", f"no model is given, and there is no registry to choose from ({error.problem})", HOW
        ) from None
    if len(names) != 1:
        known = f"the registry has champions of {', '.join(names)}" if names else "the registry has no champion"
        raise CallError("--model", f"no model is given, and {known}", HOW)
    return ModelPlace(place=f"models:/{names[0]}@{CHAMPION}")


def bound(host: str, port: int) -> socket.socket:
    """A socket that has the port, so that a port in use is said before models are loaded. Raises ServiceError."""
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        listening = socket.socket(family, kind, protocol)
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind(address)
    except OSError as error:
        raise cannot_listen(error, host, port) from None
    return listening


def cannot_listen(error: OSError, host: str, port: int) -> ServiceError:
    """Why an address cannot be had."""
    if error.errno == errno.EADDRINUSE:
        return ServiceError(
            f"{host}:{port}", "the port is in use", "stop what listens there, or choose another by --port"
        )
    return ServiceError(
        f"{host}:{port}", f"the service cannot listen there ({error.strerror})", "see --host and --port"
    )
