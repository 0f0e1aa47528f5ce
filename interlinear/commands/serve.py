"""`interlinear serve`: models behind a REST API and the playground, until it is told to stop."""

import errno
import logging
import signal
import socket
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from interlinear.options import PRECISION_HELP, PrecisionChoice, Tracking, number_range
from seq2seq.errors import RegistryError, ServiceError, UsageError

if TYPE_CHECKING:
    from service.settings import ServedModelConfig, Settings

PREFIX = "INTERLINEAR_SERVE_"
MODEL_REMEDY = "say --model NAME=MODEL, where MODEL is a bundle's folder or models:/NAME@champion"


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
        str | None,
        typer.Option(
            metavar="DEVICE[,...]",
            show_default="cpu",
            help="cpu, cuda:0 or cuda:0,1: a process for each. cpu,cpu: two processes on the CPU.",
        ),
    ] = None,
    precision: Annotated[PrecisionChoice | None, typer.Option(show_default="fp32", help=PRECISION_HELP)] = None,
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
    keys: Annotated[
        str | None,
        typer.Option(metavar="FILE|URL", show_default=False, help="The keys of `interlinear keys`; else keys.db."),
    ] = None,
    require_key: Annotated[
        bool | None, typer.Option("--require-key", show_default=False, help="Work only for those who have a key.")
    ] = None,
    rate: Annotated[
        float | None,
        typer.Option(metavar="N", show_default=False, help="Texts a second for each key, else for each address."),
    ] = None,
    trusted_proxies: Annotated[
        list[str] | None,
        typer.Option(
            "--trust-proxy",
            metavar="ADDRESS",
            show_default=False,
            help="A proxy's address or network: its X-Forwarded-For is believed. May be given several times.",
        ),
    ] = None,
    origins: Annotated[
        list[str] | None,
        typer.Option(
            "--cors",
            metavar="ORIGIN",
            show_default=False,
            help="Whose pages may ask from a browser, https://example.org. May be given several times.",
        ),
    ] = None,
    log_format: Annotated[
        str | None, typer.Option(metavar="text|json", show_default=False, help="How to log; text by default.")
    ] = None,
    access_log: Annotated[
        bool | None,
        typer.Option(
            "--access-log/--no-access-log", show_default=False, help="Log every request; JSON logs do by default."
        ),
    ] = None,
    on_ray: Annotated[bool, typer.Option("--ray", help="As replicas on a Ray cluster, by Ray Serve.")] = False,
    address: Annotated[
        str | None,
        typer.Option(metavar="URI", show_default=False, help="With --ray: a running cluster; else one of its own."),
    ] = None,
    replicas: Annotated[
        str | None,
        typer.Option(metavar="N|MIN:MAX", show_default="1", help="With --ray: processes, more of them under load."),
    ] = None,
) -> None:
    """Serve models over REST, with a playground at `/`. SIGTERM and Ctrl-C finish what was accepted, then end.

    A model that is named by an alias is followed: another version is served once it is loaded, without a request lost.
    These and further limits, slots and threads can stand in --config, or in environment variables,
    INTERLINEAR_SERVE_...: see docs/rest-api.md. How to run it safely: docs/security.md. On a cluster: docs/serving.md.
    """
    from interlinear import console
    from seq2seq.devices import check_device
    from service import logging as service_logging

    for name, value in (("--address", address), ("--replicas", replicas)):
        if value is not None and not on_ray:
            raise UsageError(f"{name} {value}", "is for a service on Ray", "say --ray too, or leave it out")
    options = {
        "models": tuple(map(parse_model, model or ())),
        "device": device,
        "precision": precision,
        "tracking": tracking,
        "cache": cache,
        "poll_seconds": poll,
        "keys": keys,
        "require_key": require_key,
        "rate": rate,
        "trusted_proxies": trusted_proxies,
        "origins": origins,
        "log_format": log_format,
        "access_log": access_log,
    }
    settings = load_settings(config, options)
    for one in () if on_ray else settings.devices:  # a cluster's nodes have devices of their own
        check_device(one)
    if not settings.models:
        settings = settings.model_copy(update={"models": (champion_model(settings.tracking),)})
    listening = bind_socket(host, port)
    as_json = settings.log_format == "json"
    service_logging.configure(settings.log_format, as_json if settings.access_log is None else settings.access_log)
    say = logging.getLogger("interlinear").info if as_json else console.say
    port = listening.getsockname()[1]
    if on_ray:
        from interlinear.commands.serve_ray import absolute_paths, serve_on_ray  # isort: split
        from service.ray_serve import ServeDeployment

        fewest, most = number_range("--replicas", replicas or "1")
        listening.close()  # the port is free; Ray's proxy takes it
        serve_on_ray(
            ServeDeployment(settings=absolute_paths(settings), fewest=fewest, most=most), host, port, address, say
        )
        return
    try:
        serve_here(settings, listening, f"http://{f'[{host}]' if ':' in host else host}:{port}", say)
    except OSError as error:  # another process that was bound to the port too has begun to listen first
        raise listen_error(error, host, port) from None


def serve_here(settings: "Settings", listening: socket.socket, address: str, say: Callable[[str], None]) -> None:
    """The service in this process, until SIGTERM or SIGINT."""
    import asyncio
    from concurrent.futures import ThreadPoolExecutor

    import uvicorn

    say(f"loading {', '.join(one.place for one in settings.models)} ...")

    from service.app import create_app
    from service.http.server import server_config

    app = create_app(settings)
    service = app.state.service

    class Server(uvicorn.Server):
        async def startup(self, sockets: list[socket.socket] | None = None) -> None:
            await super().startup(sockets)
            for one in service.models.served:
                say(f"{one} is served: {one.task}, {one.bundle.card.direction}")
            say(f"playground {address}/  API {address}/docs  Ctrl-C ends it")

        async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
            # At once, so that the service is not ready any more, and what is not finished in time is still answered.
            # In a thread of its own: those of the event loop may have other work.
            with ThreadPoolExecutor(1, "stops") as own:
                stopping = asyncio.get_running_loop().run_in_executor(own, service.engine.stop, settings.grace_seconds)
                await super().shutdown(sockets)
                await stopping

    # uvicorn ends in order on these signals and then raises them again: that is how a service is stopped, not an error.
    for ending in (signal.SIGTERM, signal.SIGINT):
        signal.signal(ending, lambda _signal, _frame: None)
    Server(server_config(app)).run(sockets=[listening])


def load_settings(path: Path | None, options: dict[str, Any]) -> "Settings":
    """The settings: the options given, else the file's, else the environment's. Raises CallError with the key."""
    from pydantic import ValidationError
    from pydantic_settings import SettingsError

    from service.settings import Settings

    content = read_config(path) if path else {}
    set_options = {name: value for name, value in options.items() if value not in (None, [], ())}
    try:
        return Settings(**(content | set_options))
    except SettingsError as error:  # of an environment variable that should be JSON
        raise UsageError(f"{PREFIX}...", str(error), "lists are written as JSON: see docs/rest-api.md") from None
    except ValidationError as error:
        wrong = error.errors(include_url=False)[0]
        key, problem, ours = ".".join(map(str, wrong["loc"])), wrong["msg"], "Value error, "
        problem = problem.removeprefix(ours) if problem.startswith(ours) else problem[:1].lower() + problem[1:]
        name = key.partition(".")[0] or "models"  # what is wrong with several at once is wrong with these
        if path and name in content and name not in set_options:
            said = f"{key}: {problem}" if key else problem
            raise UsageError(f"--config {path}", said, "see docs/rest-api.md") from None
        raise UsageError(key or name, problem, f"see the option, or {PREFIX}{name.upper()}") from None


def read_config(path: Path) -> dict[str, Any]:
    """What a file of settings holds. Raises CallError."""
    import yaml

    try:
        content = yaml.safe_load(path.read_text(encoding="utf-8")) or {}
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        said = " ".join(f"cannot be read: {error}".split())
        raise UsageError(f"--config {path}", said, "see docs/rest-api.md") from None
    if not isinstance(content, dict):
        raise UsageError(f"--config {path}", "holds no settings", "it begins with models:, see docs/rest-api.md")
    return {str(name): value for name, value in content.items()}


def parse_model(text: str) -> "ServedModelConfig":
    """`NAME=MODEL`, or a MODEL that keeps its own name."""
    from service.settings import ServedModelConfig

    name, equals, where = text.partition("=")
    if not equals or "/" in name or ":" in name:
        return ServedModelConfig(place=text)
    if not name or not where:
        raise UsageError(f"--model {text}", "a name or a model is missing", MODEL_REMEDY)
    return ServedModelConfig(name=name, place=where)


def champion_model(tracking: str | None) -> "ServedModelConfig":
    """The one registered model that has a champion. Raises CallError where there is none, or a choice."""
    from registry.names import CHAMPION
    from registry.store import MlflowStore
    from service.settings import ServedModelConfig

    try:
        names = [record.name for record in MlflowStore(tracking).list_models() if CHAMPION in record.aliases]
    except RegistryError as error:
        raise UsageError(
            "--model", f"no model is given, and there is no registry to choose from ({error.problem})", MODEL_REMEDY
        ) from None
    if len(names) != 1:
        known = f"the registry has champions of {', '.join(names)}" if names else "the registry has no champion"
        raise UsageError("--model", f"no model is given, and {known}", MODEL_REMEDY)
    return ServedModelConfig(place=f"models:/{names[0]}@{CHAMPION}")


def bind_socket(host: str, port: int) -> socket.socket:
    """A socket that has the port, so that a port in use is said before models are loaded. Raises ServiceError."""
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        listening = socket.socket(family, kind, protocol)
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind(address)
    except OSError as error:
        raise listen_error(error, host, port) from None
    return listening


def listen_error(error: OSError, host: str, port: int) -> ServiceError:
    """Why an address cannot be had."""
    if error.errno == errno.EADDRINUSE:
        return ServiceError(
            f"{host}:{port}", "the port is in use", "stop what listens there, or choose another by --port"
        )
    return ServiceError(
        f"{host}:{port}", f"the service cannot listen there ({error.strerror})", "see --host and --port"
    )
