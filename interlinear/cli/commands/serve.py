"""`interlinear serve`: serves models over a REST API with the playground, until it is stopped."""

import logging
from pathlib import Path
from typing import Annotated

import typer

from interlinear.cli.options import (
    COMPILE_HELP,
    PRECISION_HELP,
    SHORTLIST_HELP,
    CompileOption,
    PrecisionChoice,
    Tracking,
    number_range,
)
from interlinear.cli.serving.serve_here import bind_socket, serve_here
from interlinear.errors import UsageError


def serve(
    model: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME=MODEL",
            show_default=False,
            help="A model to serve, and its name in the API; may be repeated. Else all champions of the registry.",
        ),
    ] = None,
    reverse: Annotated[
        list[str] | None,
        typer.Option(
            metavar="[NAME=]MODEL",
            show_default=False,
            help="A model of the opposite direction of NAME, for explanations with the links of both; may be repeated.",
        ),
    ] = None,
    config: Annotated[
        Path | None,
        typer.Option(metavar="FILE", show_default=False, help="Models and settings in YAML: see docs/rest-api.md."),
    ] = None,
    host: Annotated[str, typer.Option(metavar="HOST", help="0.0.0.0 listens on all interfaces.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(metavar="PORT", min=0, max=65535, help="0 selects a free port.")] = 8000,
    device: Annotated[
        str | None,
        typer.Option(
            metavar="DEVICE[,...]",
            show_default="cpu",
            help="cpu, cuda:0, or cuda:0,1 for a process on each GPU. cpu,cpu: two processes on the CPU.",
        ),
    ] = None,
    precision: Annotated[PrecisionChoice | None, typer.Option(show_default="fp32", help=PRECISION_HELP)] = None,
    compile_search: Annotated[
        CompileOption | None, typer.Option("--compile", show_default="auto", help=COMPILE_HELP)
    ] = None,
    use_shortlist: Annotated[bool | None, typer.Option("--shortlist", show_default=False, help=SHORTLIST_HELP)] = None,
    tracking: Tracking = None,
    cache: Annotated[
        Path | None,
        typer.Option(
            metavar="FOLDER", show_default="~/.cache/interlinear/models", help="Folder for downloaded models."
        ),
    ] = None,
    poll: Annotated[
        float | None,
        typer.Option(metavar="SECONDS", show_default="10", help="Seconds between checks of the aliases."),
    ] = None,
    keys: Annotated[
        str | None,
        typer.Option(metavar="FILE|URL", show_default=False, help="The keys of `interlinear keys`; else keys.db."),
    ] = None,
    require_key: Annotated[
        bool | None, typer.Option("--require-key", show_default=False, help="Require an API key.")
    ] = None,
    suggestions: Annotated[
        bool | None,
        typer.Option("--suggestions", show_default=False, help="Keep corrected translations, beside the keys."),
    ] = None,
    rate: Annotated[
        float | None,
        typer.Option(
            metavar="N", show_default=False, help="Rate limit in texts a second, for each key or else each address."
        ),
    ] = None,
    trusted_proxies: Annotated[
        list[str] | None,
        typer.Option(
            "--trust-proxy",
            metavar="ADDRESS",
            show_default=False,
            help="A proxy's address or network, whose X-Forwarded-For is trusted. May be repeated.",
        ),
    ] = None,
    origins: Annotated[
        list[str] | None,
        typer.Option(
            "--cors",
            metavar="ORIGIN",
            show_default=False,
            help="An origin whose pages may call the API, as https://example.org. May be repeated.",
        ),
    ] = None,
    log_format: Annotated[
        str | None, typer.Option(metavar="text|json", show_default=False, help="Log format; text by default.")
    ] = None,
    access_log: Annotated[
        bool | None,
        typer.Option(
            "--access-log/--no-access-log", show_default=False, help="Log every request; JSON logs do by default."
        ),
    ] = None,
    on_ray: Annotated[bool, typer.Option("--ray", help="Serve replicas on a Ray cluster, with Ray Serve.")] = False,
    address: Annotated[
        str | None,
        typer.Option(metavar="URI", show_default=False, help="With --ray: a running cluster; else one of its own."),
    ] = None,
    replicas: Annotated[
        str | None,
        typer.Option(
            metavar="N|MIN:MAX", show_default="1", help="With --ray: number of replicas; a range scales with load."
        ),
    ] = None,
) -> None:
    """Serve models over REST, with a playground at `/`. SIGTERM and Ctrl-C finish accepted requests, then end.

    A model that is named by an alias follows it: a new version is served once it is loaded, without losing a request.
    These and further limits, slots and threads can be set in --config, or in environment variables,
    INTERLINEAR_SERVE_...: see docs/rest-api.md. How to run it safely: docs/security.md. On a cluster: docs/serving.md.
    """
    from interlinear.cli import console
    from interlinear.cli.serving.serve_settings import champion_models, load_settings, parse_model, with_reverse_models
    from interlinear.devices import check_device
    from service import logging as service_logging

    for name, value in (("--address", address), ("--replicas", replicas)):
        if value is not None and not on_ray:
            raise UsageError(f"{name} {value}", "is for a service on Ray", "say --ray too, or leave it out")
    options = {
        "models": tuple(map(parse_model, model or ())),
        "device": device,
        "precision": precision,
        "compile": compile_search,
        "shortlist": use_shortlist,
        "tracking": tracking,
        "cache": cache,
        "poll_seconds": poll,
        "keys": keys,
        "require_key": require_key,
        "suggestions": suggestions,
        "rate": rate,
        "trusted_proxies": trusted_proxies,
        "origins": origins,
        "log_format": log_format,
        "access_log": access_log,
    }
    settings = load_settings(config, options)
    for device_name in () if on_ray else settings.devices:  # on Ray, the devices are those of the cluster's nodes
        check_device(device_name)
    if not settings.models:
        settings = settings.model_copy(update={"models": champion_models(settings.tracking)})
    settings = with_reverse_models(settings, reverse or ())
    listening = bind_socket(host, port)
    as_json = settings.log_format == "json"
    service_logging.configure(settings.log_format, as_json if settings.access_log is None else settings.access_log)
    say = logging.getLogger("interlinear").info if as_json else console.say
    if on_ray:
        from interlinear.cli.serving.serve_ray import serve_on_ray

        port = listening.getsockname()[1]
        listening.close()  # the port is known to be free; Ray's proxy binds it
        serve_on_ray(settings, number_range("--replicas", replicas or "1"), host, port, address, say)
    else:
        serve_here(settings, listening, host, say)
