"""`interlinear bench`: what a running service bears, measured by requests that do not wait for each other."""

import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from interlinear.progress import LiveLine, format_duration
from seq2seq.errors import DataError, ServiceError, UsageError

if TYPE_CHECKING:
    from interlinear.loadtest.http_client import RequestSpec, Route
    from interlinear.loadtest.load_generator import Load, RequestRecord
    from interlinear.loadtest.load_report import LoadReport, RateResult

MAX_RATE = 5000.0  # requests a second, more than one core can send
LATE_MS = 10.0  # milliseconds by which this generator may be late without being worth a word
PROGRESS_WINDOW = 200  # answers that the progress line looks back on

Rates = Annotated[
    str,
    typer.Option(
        "--rate", metavar="R[,R...]", help="Requests a second; of several, one after the other, the knee is sought."
    ),
]
Seconds = Annotated[float, typer.Option(metavar="S", help="Seconds that are measured, at each rate.")]


def bench(
    url: Annotated[str, typer.Argument(metavar="URL", show_default=False, help="The service: http://HOST:PORT.")],
    rate: Rates = "10",
    duration: Seconds = 30.0,
    warm_up: Annotated[float, typer.Option(metavar="S", help="Seconds before them, not counted.")] = 5.0,
    slo_p99_ms: Annotated[
        float | None,
        typer.Option("--slo-p99-ms", metavar="N", show_default=False, help="The p99 latency that must be kept."),
    ] = None,
    texts: Annotated[
        Path | None,
        typer.Option(
            exists=True,
            dir_okay=False,
            metavar="FILE",
            show_default=False,
            help="A text a line, sent in random order; else ten sentences of 3 to 45 words.",
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
            help="Pictures, sent with the texts in turn to /translate/multimodal.",
        ),
    ] = None,
    mt: Annotated[
        Path | None,
        typer.Option(
            exists=True,
            dir_okay=False,
            metavar="FILE",
            show_default=False,
            help="Machine translations of --texts, or without: sent to /post-edit.",
        ),
    ] = None,
    model: Annotated[
        str | None,
        typer.Option(metavar="NAME", show_default=False, help="name, name@alias or name@version; else the first."),
    ] = None,
    source: Annotated[str | None, typer.Option(metavar="CODE", show_default=False, help="A language, or auto.")] = None,
    target: Annotated[str | None, typer.Option(metavar="CODE", show_default=False, help="A language.")] = None,
    concurrency_limit: Annotated[
        int, typer.Option(min=1, metavar="N", help="Requests in flight at most; those over it wait, and that counts.")
    ] = 500,
    seed: Annotated[int, typer.Option(metavar="N", help="Of the moments and the order of the texts.")] = 1,
    json_file: Annotated[
        Path | None,
        typer.Option("--json", metavar="FILE", dir_okay=False, show_default=False, help="Write the figures as JSON."),
    ] = None,
    figure: Annotated[
        Path | None, typer.Option(metavar="FILE", show_default=False, help="Draw them: a .png, .svg or .pdf file.")
    ] = None,
    api_key: Annotated[
        str | None,
        typer.Option(envvar="INTERLINEAR_API_KEY", metavar="KEY", show_default=False, help="Where one is needed."),
    ] = None,
) -> None:
    """Load a service with requests at random moments (Poisson), which do not wait for answers, and print latencies.

    A latency counts from when a request was due. Exit code 1 where a request failed or p99 is over --slo-p99-ms.
    """
    import asyncio

    from interlinear.loadtest.http_client import (
        ANSWERS,
        TASKS,
        RequestSpec,
        check_url,
        headers,
        list_models,
        sample_requests,
    )
    from interlinear.loadtest.load_generator import Load
    from interlinear.loadtest.load_report import build_report
    from seq2seq.figures.style import check_suffix

    rates, address = parse_rates(rate), check_url(url)
    check_times(duration, warm_up, slo_p99_ms)
    check_open_files(concurrency_limit)
    if figure:
        check_suffix(figure)
    lines = read_texts(texts) if texts else None
    pictures, translations = read_images(image_dir) if image_dir else (), tuple(read_texts(mt)) if mt else ()
    spec = RequestSpec(parse_route(route), model, source, target, pictures, translations)
    check_inputs(spec)
    chosen = spec.choose(asyncio.run(list_models(address, api_key)))
    path = TASKS[chosen.task]
    if lines or translations:
        bodies = spec.request_bodies(chosen, lines or [])
    else:
        bodies = asyncio.run(sample_requests(address + path, api_key, spec, chosen))
    loads = [
        Load(
            address + path, bodies, headers(api_key), ANSWERS[path], one, warm_up, duration, concurrency_limit, seed + i
        )
        for i, one in enumerate(rates)
    ]
    measured = asyncio.run(run_rates(loads, slo_p99_ms))
    report = build_report(address + path, loads, [found for _, found in measured], slo_p99_ms)
    print(format_table(report))
    if json_file:
        json_file.write_text(report.model_dump_json(indent=2) + "\n", encoding="utf-8")
    if figure:
        draw_figure(measured, slo_p99_ms, figure)
    check_report(report)


async def run_rates(loads: "Sequence[Load]", limit_ms: float | None) -> "list[tuple[list[RequestRecord], RateResult]]":
    """Every rate in turn. Raises CallError where no request fell into the measured time."""
    from interlinear.loadtest.load_generator import run_load
    from interlinear.loadtest.load_report import summarize_rate

    line, measured = LiveLine(), []

    def watch(load: "Load", records: "Sequence[RequestRecord]", in_flight: int) -> None:
        line.show(progress_line(load, records, in_flight))

    for load in loads:
        records = await run_load(load, watch)
        line.clear()
        found = summarize_rate(load, records, limit_ms)
        if not found.requests:
            raise UsageError(
                f"--rate {load.rate:g}", f"no request was due within {load.seconds:g} s", "give a longer --duration"
            )
        measured.append((records, found))
    return measured


def progress_line(load: "Load", records: "Sequence[RequestRecord]", in_flight: int) -> str:
    """How it goes, from the last answers."""
    recent = records[-PROGRESS_WINDOW:]
    now = max((record.due + record.latency for record in recent), default=-load.warm_up)
    slow = sorted(1000 * record.latency for record in recent if not record.problem)
    middle = f"p50 {slow[len(slow) // 2]:.0f} ms  " if slow else ""
    failed = f"  failing: {recent[-1].problem}" if recent and recent[-1].problem else ""
    when = (
        f"warming up {format_duration(load.warm_up + now)}"
        if now < 0
        else f"{format_duration(now)} of {format_duration(load.seconds)}"
    )
    return f"{load.rate:g} requests/s  {when}  {len(records):,} answered  {middle}{in_flight} in flight{failed}"


def format_table(report: "LoadReport") -> str:
    """A line for every rate, then what failed and who answered."""
    columns = ("RATE", "REQUESTS", "FAILED", "ANSWERS/S", "GOODPUT", "P50 MS", "P90 MS", "P99 MS", "MAX MS", "HELD")
    rows = [columns]
    for one in report.rates:
        slow = one.latency_ms
        times = [f"{value:.1f}" for value in (slow.p50, slow.p90, slow.p99, slow.max)] if slow else ["-"] * 4
        counts = (f"{one.rate:g}", f"{one.requests:,}", f"{one.failed:,}")
        per_second = (f"{one.answers_per_second:.2f}", f"{one.goodput:.2f}")
        rows.append((*counts, *per_second, *times, "yes" if one.held else "no"))  # type: ignore[arg-type]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = ["  ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True)) for row in rows]
    for one in report.rates:
        at = f"{one.rate:g}/s: " if len(report.rates) > 1 else ""
        lines += [
            f"{at}{failure.requests:,} failed: {failure.problem}{failure.example and f' ({failure.example})'}"
            for failure in one.failures
        ]
        lines += [
            f"{at}{seen.model} gave {seen.answers:,} answers, from {seen.first:.1f} s to {seen.last:.1f} s"
            for seen in one.versions
        ]
        if not one.kept_up:
            lines.append(f"{at}it did not keep up: more and more requests were in flight")
        if one.late_ms_p99 > LATE_MS:
            why = "for --concurrency-limit" if one.held_back else "for this machine is busy"
            lines.append(f"{at}requests were sent late, p99 {one.late_ms_p99:.0f} ms, {why}: that is in the latencies")
    if len(report.rates) > 1:
        found = "none of these rates was held" if report.knee is None else f"held up to {report.knee:g} requests/s"
        lines.append(f"knee: {found}")
    return "\n".join(lines)


def check_report(report: "LoadReport") -> None:
    """Raises ServiceError where a request failed or the p99 was missed, at any rate."""
    said = []
    for one in report.rates:
        what = []
        if one.failed:
            what.append(f"{one.failed:,} of {one.requests:,} requests failed ({one.failures[0].problem})")
        if one.latency_ms and report.slo_p99_ms is not None and one.latency_ms.p99 > report.slo_p99_ms:
            what.append(f"p99 is {one.latency_ms.p99:.0f} ms, over {report.slo_p99_ms:g} ms")
        if what:
            said.append(f"at {one.rate:g} requests/s {' and '.join(what)}")
    if said:
        raise ServiceError(report.url, "; ".join(said))


def draw_figure(
    measured: "Sequence[tuple[list[RequestRecord], RateResult]]", limit_ms: float | None, path: Path
) -> None:
    """Latency over time and its distribution, every rate a series."""
    from seq2seq.figures.latencies import LatencySeries, latency_chart

    series = []
    for records, found in measured:
        shown = [record for record in records if record.due >= 0]
        series.append(
            LatencySeries(
                f"{found.rate:g} requests/s",
                tuple((record.due, 1000 * record.latency) for record in shown if not record.problem),
                tuple(record.due for record in shown if record.problem),
            )
        )
    latency_chart(series, limit_ms, path)


def parse_rates(text: str) -> list[float]:
    """The numbers of --rate. Raises CallError."""
    rates = []
    for word in text.split(","):
        try:
            value = float(word)
        except ValueError:
            value = math.nan
        if not 0 < value <= MAX_RATE:
            raise UsageError(
                f"--rate {text}",
                f"'{word}' is not a number of requests a second",
                f"say more than 0, at most {MAX_RATE:g}",
            )
        rates.append(value)
    if len(set(rates)) < len(rates):
        raise UsageError(f"--rate {text}", "a rate is there twice", "name each once")
    return rates


def check_times(duration: float, warm_up: float, slo_p99_ms: float | None) -> None:
    """Raises CallError."""
    if not 0 < duration < math.inf:
        raise UsageError(f"--duration {duration:g}", "nothing can be measured in that time", "say seconds, more than 0")
    if not 0 <= warm_up < math.inf:
        raise UsageError(f"--warm-up {warm_up:g}", "is not a time", "say seconds, 0 for none")
    if slo_p99_ms is not None and not 0 < slo_p99_ms < math.inf:
        raise UsageError(f"--slo-p99-ms {slo_p99_ms:g}", "is not a limit", "say milliseconds, more than 0")


def check_open_files(connections: int) -> None:
    """Raises CallError where this process may not have so many connections."""
    import resource

    allowed = resource.getrlimit(resource.RLIMIT_NOFILE)[0] - 50  # this process has files open, too
    if connections > allowed:
        raise UsageError(
            f"--concurrency-limit {connections}",
            f"this shell allows about {allowed} connections",
            "raise that by ulimit -n, or lower the limit",
        )


def parse_route(route: str | None) -> "Route | None":
    """The route's name, with its slash or without. Raises CallError."""
    from interlinear.loadtest.http_client import ANSWERS

    if route is None:
        return None
    for known in ANSWERS:
        if route in (known, known[1:]):
            return known
    raise UsageError(f"--route {route}", "is not a route that takes load", f"say {' or '.join(ANSWERS)}")


def check_inputs(spec: "RequestSpec") -> None:
    """Raises CallError where a route is to take what it does not, or lacks what it needs."""
    (route, *_) = spec.routes
    if spec.pictures and route != "/translate/multimodal":
        raise UsageError("--image-dir", f"{route} takes no pictures", "they go to /translate/multimodal")
    if bool(spec.translations) != (route == "/post-edit"):
        what = f"{route} takes no translations" if spec.translations else "/post-edit needs translations to edit"
        raise UsageError("--mt", what, "it goes with --route /post-edit")


def read_images(folder: Path) -> tuple[bytes, ...]:
    """The files of a folder that are pictures by their names, in their order. Raises DataError."""
    from seq2seq.images.decode import SUFFIXES

    found = sorted(path for path in folder.iterdir() if path.suffix.lower() in SUFFIXES)
    if not found:
        raise DataError(str(folder), "there is no picture in it", f"give a folder with {', '.join(SUFFIXES)}")
    return tuple(path.read_bytes() for path in found)


def read_texts(path: Path) -> list[str]:
    """The lines of a file, without blank ones. Raises DataError."""
    from training.data.formats import read_file

    lines = [line for line in read_file(path) if line.strip()]
    if not lines:
        raise DataError(str(path), "there is no text in it", "give a file with a text a line")
    return lines
