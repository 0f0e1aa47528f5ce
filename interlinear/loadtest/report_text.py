"""Output of a load test: progress line, table, figure, and the error for a failed test."""

from collections.abc import Sequence
from pathlib import Path

from interlinear.loadtest.load_generator import Load, RequestRecord
from interlinear.loadtest.load_report import LoadReport, RateResult
from interlinear.progress import format_duration
from seq2seq.errors import ServiceError

LATE_MS = 10.0  # p99 delay of sending, in milliseconds, above which a warning is printed
PROGRESS_WINDOW = 200  # latest answers that the progress line summarises


def progress_line(load: Load, records: Sequence[RequestRecord], in_flight: int) -> str:
    """Current progress, from the latest answers."""
    recent = records[-PROGRESS_WINDOW:]
    elapsed = max((record.due + record.latency for record in recent), default=-load.warm_up)
    latencies = sorted(1000 * record.latency for record in recent if not record.problem)
    median = f"p50 {latencies[len(latencies) // 2]:.0f} ms  " if latencies else ""
    failed = f"  failing: {recent[-1].problem}" if recent and recent[-1].problem else ""
    phase = (
        f"warming up {format_duration(load.warm_up + elapsed)}"
        if elapsed < 0
        else f"{format_duration(elapsed)} of {format_duration(load.seconds)}"
    )
    return f"{load.rate:g} requests/s  {phase}  {len(records):,} answered  {median}{in_flight} in flight{failed}"


def format_table(report: LoadReport) -> str:
    """A line for every rate, then the failures and the model versions that answered."""
    columns = ("RATE", "REQUESTS", "FAILED", "ANSWERS/S", "GOODPUT", "P50 MS", "P90 MS", "P99 MS", "MAX MS", "HELD")
    rows = [columns]
    for result in report.rates:
        latency = result.latency_ms
        times = (
            [f"{value:.1f}" for value in (latency.p50, latency.p90, latency.p99, latency.max)] if latency else ["-"] * 4
        )
        counts = (f"{result.rate:g}", f"{result.requests:,}", f"{result.failed:,}")
        per_second = (f"{result.answers_per_second:.2f}", f"{result.goodput:.2f}")
        rows.append((*counts, *per_second, *times, "yes" if result.held else "no"))  # type: ignore[arg-type]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = ["  ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True)) for row in rows]
    for result in report.rates:
        prefix = f"{result.rate:g}/s: " if len(report.rates) > 1 else ""
        lines += [
            f"{prefix}{failure.requests:,} failed: {failure.problem}{failure.example and f' ({failure.example})'}"
            for failure in result.failures
        ]
        lines += [
            f"{prefix}{version.model} gave {version.answers:,} answers, "
            f"from {version.first:.1f} s to {version.last:.1f} s"
            for version in result.versions
        ]
        if not result.kept_up:
            lines.append(f"{prefix}it did not keep up: more and more requests were in flight")
        if result.late_ms_p99 > LATE_MS:
            reason = "for --concurrency-limit" if result.held_back else "for this machine is busy"
            lines.append(
                f"{prefix}requests were sent late, p99 {result.late_ms_p99:.0f} ms, {reason}: that is in the latencies"
            )
    if len(report.rates) > 1:
        knee = "none of these rates was held" if report.knee is None else f"held up to {report.knee:g} requests/s"
        lines.append(f"knee: {knee}")
    return "\n".join(lines)


def check_report(report: LoadReport) -> None:
    """Raises ServiceError if at any rate a request failed or p99 exceeded its limit."""
    failures = []
    for result in report.rates:
        problems = []
        if result.failed:
            problems.append(f"{result.failed:,} of {result.requests:,} requests failed ({result.failures[0].problem})")
        if result.latency_ms and report.slo_p99_ms is not None and result.latency_ms.p99 > report.slo_p99_ms:
            problems.append(f"p99 is {result.latency_ms.p99:.0f} ms, over {report.slo_p99_ms:g} ms")
        if problems:
            failures.append(f"at {result.rate:g} requests/s {' and '.join(problems)}")
    if failures:
        raise ServiceError(report.url, "; ".join(failures))


def draw_figure(measured: Sequence[tuple[list[RequestRecord], RateResult]], limit_ms: float | None, path: Path) -> None:
    """Draw latency over time and its distribution, with a series for every rate."""
    from seq2seq.figures.latencies import LatencySeries, latency_chart

    series = []
    for records, result in measured:
        measured_records = [record for record in records if record.due >= 0]
        series.append(
            LatencySeries(
                f"{result.rate:g} requests/s",
                tuple((record.due, 1000 * record.latency) for record in measured_records if not record.problem),
                tuple(record.due for record in measured_records if record.problem),
            )
        )
    latency_chart(series, limit_ms, path)
