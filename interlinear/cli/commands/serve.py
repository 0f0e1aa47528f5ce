"""`interlinear serve`: serves models over a REST API with the playground, until it is stopped."""

import logging
from pathlib import Path
from typing import Annotated

import typer

from interlinear.cli.options import (
    CompileSearch,
    Device,
    PrecisionName,
    Tracking,
    UseShortlist,
    given_options,
    number_range,
)
from interlinear.cli.serving.serve_here import bind_socket, serve_here
from interlinear.errors import UsageError

SETTING_OF = {"compile_search": "compile", "use_shortlist": "shortlist"}  # where an option has another name


def serve(
    model: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME=MODEL",
            show_default=False,
            help="A model to serve, and its name in the API; may be repeated. Else all champions of the registry.",
        ),
    ] = None,
    config: Annotated[
        Path | None,
        typer.Option(metavar="FILE", show_default=False, help="Models and settings in YAML: see docs/rest-api.md."),
    ] = None,
    overrides: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", show_default=False, help="A setting, as rate=5, over the file's."),
    ] = None,
    host: Annotated[str, typer.Option(metavar="HOST", help="0.0.0.0 listens on all interfaces.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(metavar="PORT", min=0, max=65535, help="0 selects a free port.")] = 8000,
    require_key: Annotated[
        bool, typer.Option("--require-key", help="Require an API key, of `interlinear keys`.")
    ] = False,
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
    *,
    context: typer.Context,
    tracking: Tracking = None,
    device: Device = "cpu",
    precision: PrecisionName = "fp32",
    compile_search: CompileSearch = "auto",
    use_shortlist: UseShortlist = False,
) -> None:
    """Serve models over REST, with a playground at `/`. SIGTERM and Ctrl-C finish accepted requests, then end.

    A model that is named by an alias follows it: a new version is served once it is loaded, without losing a request.
    Limits, slots, threads, keys and logs are settings: of --config, a YAML file; of --set, a key of it; or of an
    environment variable, INTERLINEAR_SERVE_KEY. See docs/rest-api.md. How to run it safely: docs/security.md. On a
    cluster: docs/serving.md.
    """
    from interlinear.cli import console
    from interlinear.cli.serving.serve_settings import champion_models, load_settings, parse_model
    from interlinear.devices import check_device
    from service import logging as service_logging
    from training.yaml_files import parse_settings

    for name, value in (("--address", address), ("--replicas", replicas)):
        if value is not None and not on_ray:
            raise UsageError(f"{name} {value}", "is for a service on Ray", "say --ray too, or leave it out")
    given = given_options(context, tracking=tracking, device=device, precision=precision)
    given |= given_options(context, compile_search=compile_search, use_shortlist=use_shortlist)
    options = {SETTING_OF.get(name, name): value for name, value in given.items()}
    options |= {"models": tuple(map(parse_model, model or ())), "require_key": require_key or None}
    settings = load_settings(config, options | dict(parse_settings(overrides or ())))
    for device_name in () if on_ray else settings.devices:  # on Ray, the devices are the cluster nodes' devices
        check_device(device_name)
    if not settings.models:
        settings = settings.model_copy(update={"models": champion_models(settings.tracking)})
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
