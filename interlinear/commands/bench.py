"""`interlinear bench`: open-loop load test of a running service."""

from pathlib import Path
from typing import Annotated

import typer

Rates = Annotated[
    str,
    typer.Option(
        "--rate", metavar="R[,R...]", help="Requests a second; several rates are measured in turn to find the knee."
    ),
]
Seconds = Annotated[float, typer.Option(metavar="S", help="Seconds of measurement at each rate.")]


def bench(
    url: Annotated[str, typer.Argument(metavar="URL", show_default=False, help="The service: http://HOST:PORT.")],
    rate: Rates = "10",
    duration: Seconds = 30.0,
    warm_up: Annotated[float, typer.Option(metavar="S", help="Seconds of warm-up, not measured.")] = 5.0,
    slo_p99_ms: Annotated[
        float | None,
        typer.Option(
            "--slo-p99-ms", metavar="N", show_default=False, help="Limit of the p99 latency, in milliseconds."
        ),
    ] = None,
    texts: Annotated[
        Path | None,
        typer.Option(
            exists=True,
            dir_okay=False,
            metavar="FILE",
            show_default=False,
            help="One text per line, sent in random order; else ten sentences of 3 to 45 words.",
        ),
    ] = None,
    route: Annotated[
        str | None,
        typer.Option(
            metavar="ROUTE", show_default=False, help="/translate, /summarize, /translate/multimodal or /post-edit."
        ),
    ] = None,
    image_dir: Annotated[
        Path | None,
        typer.Option(
            exists=True,
            file_okay=False,
            metavar="FOLDER",
            show_default=False,
            help="Folder of pictures, sent with the texts in turn to /translate/multimodal.",
        ),
    ] = None,
    mt: Annotated[
        Path | None,
        typer.Option(
            exists=True,
            dir_okay=False,
            metavar="FILE",
            show_default=False,
            help="Machine translations, of --texts if present, sent to /post-edit.",
        ),
    ] = None,
    model: Annotated[
        str | None,
        typer.Option(metavar="NAME", show_default=False, help="name, name@alias or name@version; else the first."),
    ] = None,
    source: Annotated[str | None, typer.Option(metavar="CODE", show_default=False, help="A language, or auto.")] = None,
    target: Annotated[str | None, typer.Option(metavar="CODE", show_default=False, help="A language.")] = None,
    concurrency_limit: Annotated[
        int,
        typer.Option(
            min=1, metavar="N", help="Maximum number of requests in flight; waiting for it counts as latency."
        ),
    ] = 500,
    seed: Annotated[int, typer.Option(metavar="N", help="Seed of the request times and the order of texts.")] = 1,
    json_file: Annotated[
        Path | None,
        typer.Option("--json", metavar="FILE", dir_okay=False, show_default=False, help="Write the results as JSON."),
    ] = None,
    figure: Annotated[
        Path | None,
        typer.Option(metavar="FILE", show_default=False, help="Draw the results: a .png, .svg or .pdf file."),
    ] = None,
    api_key: Annotated[
        str | None,
        typer.Option(
            envvar="INTERLINEAR_API_KEY",
            metavar="KEY",
            show_default=False,
            help="API key, if the service requires one.",
        ),
    ] = None,
) -> None:
    """Load a service with requests at random moments (Poisson), which do not wait for answers, and print latencies.

    A latency counts from when a request was due. Exit code 1 where a request failed or p99 is over --slo-p99-ms.
    """
    import asyncio

    from interlinear.loadtest.http_client import RequestSpec, check_url
    from interlinear.loadtest.inputs import (
        check_inputs,
        check_open_files,
        check_times,
        parse_rates,
        parse_route,
        read_images,
        read_texts,
    )
    from interlinear.loadtest.load_report import build_report
    from interlinear.loadtest.load_runs import LoadSchedule, build_loads, run_loads
    from interlinear.loadtest.report_text import check_report, draw_figure, format_table
    from seq2seq.figures.style import check_suffix

    rates, address = parse_rates(rate), check_url(url)
    check_times(duration, warm_up, slo_p99_ms)
    check_open_files(concurrency_limit)
    if figure:
        check_suffix(figure)
    lines = read_texts(texts) if texts else []
    pictures, translations = read_images(image_dir) if image_dir else (), tuple(read_texts(mt)) if mt else ()
    spec = RequestSpec(parse_route(route), model, source, target, pictures, translations)
    check_inputs(spec)
    schedule = LoadSchedule(rates, warm_up, duration, concurrency_limit, seed)
    loads = build_loads(address, api_key, spec, lines, schedule)
    measured = asyncio.run(run_loads(loads, slo_p99_ms))
    report = build_report(loads, [result for _, result in measured], slo_p99_ms)
    print(format_table(report))
    if json_file:
        json_file.write_text(report.model_dump_json(indent=2) + "\n", encoding="utf-8")
    if figure:
        draw_figure(measured, slo_p99_ms, figure)
    check_report(report)
