"""`interlinear serve`: models behind a REST API and the playground, until it is told to stop."""

import errno
import signal
import socket
from typing import TYPE_CHECKING, Annotated

import typer

from interlinear.arguments import Device, Tracking
from seq2seq.errors import CallError, RegistryError, ServiceError

if TYPE_CHECKING:
    from service.settings import ModelPlace

HOW = "say --model NAME=MODEL, where MODEL is a bundle's folder or models:/NAME@champion"


def serve(
    model: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME=MODEL",
            show_default=False,
            help="A model to serve, and its name in the API; may be given several times. Else the registry's champion.",
        ),
    ] = None,
    host: Annotated[str, typer.Option(metavar="HOST", help="0.0.0.0 listens to every network.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(metavar="PORT", min=0, max=65535, help="0 takes a free one.")] = 8000,
    device: Device = "cpu",
    tracking: Tracking = None,
) -> None:
    """Serve models over REST, with a playground at `/`. SIGTERM and Ctrl-C finish what was accepted, then end.

    Limits, slots and threads are set by environment variables, INTERLINEAR_SERVE_...: see docs/rest-api.md.
    """
    import uvicorn

    from interlinear.loading import check_device
    from interlinear.terminal import say
    from service.app import create_app
    from service.settings import Settings

    check_device(device)
    models = tuple(map(place, model)) if model else (champion(tracking),)
    listening = bound(host, port)
    app = create_app(Settings(models=models, device=device, tracking=tracking))
    served, settings = app.state.service.models.served, app.state.service.settings
    address = f"http://{f'[{host}]' if ':' in host else host}:{listening.getsockname()[1]}"

    class Server(uvicorn.Server):
        async def startup(self, sockets: list[socket.socket] | None = None) -> None:
            await super().startup(sockets)
            for one in served:
                say(f"{one} is served: {one.task}, {' to '.join(one.bundle.card.languages.values())}")
            say(f"playground {address}/  API {address}/docs  Ctrl-C ends it")

    # uvicorn ends in order on these signals and then raises them again: that is how a service is stopped, not an error.
    for ending in (signal.SIGTERM, signal.SIGINT):
        signal.signal(ending, lambda _signal, _frame: None)
    config = uvicorn.Config(
        app,
        log_level="warning",
        access_log=False,
        server_header=False,
        timeout_graceful_shutdown=int(settings.grace_seconds),
    )
    try:
        Server(config).run(sockets=[listening])
    except OSError as error:  # another process that was bound to the port too has begun to listen first
        raise cannot_listen(error, host, port) from None


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
