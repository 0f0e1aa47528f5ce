"""Latencies of a service under load: over time, and by percentile."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from seq2seq.figures.charts import (
    AXIS_SPACE,
    CHART_HEIGHT,
    CHART_WIDTH,
    TICK_SPACE,
    TITLE_SPACE,
    check_systems,
    lay_out_charts,
    system_line,
)
from seq2seq.figures.style import LINE, MARKERS, SERIES, SOFT, Sheet, check_suffix

SHARES = (0.5, 0.9, 0.99, 0.999, 0.9999)
OVER_TIME, SHARED = (
    "ms, by when the request was due; lines are medians",
    "ms, by the share of answers that were as fast",
)
GAP = 0.06  # space between rates, as a fraction of the longest duration
FAILED = "failed"
MAX_DOTS = 20_000  # per rate; of more answers only every n-th is drawn


@dataclass(frozen=True)
class LatencySeries:
    """Requests at one rate: due time (s) and latency (ms) of each answer, and due time (s) of each failure."""

    name: str
    answers: tuple[tuple[float, float], ...]
    failures: tuple[float, ...] = ()


def side_by_side(series: Sequence[LatencySeries]) -> tuple[list[float], float]:
    """Start of each rate on a shared time axis where rates follow each other, and the time span of each, in seconds."""
    span = (
        max((due for rate in series for due in (*(due for due, _ in rate.answers), *rate.failures)), default=1.0) or 1.0
    )
    return [i * (1 + GAP) * span for i in range(len(series))], span


def latency_chart(
    series: Sequence[LatencySeries], limit_ms: float | None, path: Path, font: Path | None = None
) -> Path:
    """Draws latencies over time, with several rates side by side, and below them latencies by percentile.

    Failures are crosses at the upper edge. `limit_ms`: limit of the 99th percentile, drawn as a horizontal line.
    Returns `path`. Raises as `learning_curves`.
    """
    from matplotlib.ticker import LogLocator, NullLocator

    check_suffix(path)
    names = [rate.name for rate in series]
    check_systems(names)
    limit = "" if limit_ms is None else f"p99 limit, {limit_ms:g} ms"
    sheet = Sheet([*names, OVER_TIME, SHARED, FAILED, limit], font)
    chart_height = TITLE_SPACE + CHART_HEIGHT + TICK_SPACE
    left, top = lay_out_charts(sheet, "Latency under load", names, 2 * chart_height)
    over_time, percentiles = (
        sheet.chart(left + AXIS_SPACE, top + i * chart_height + TITLE_SPACE, CHART_WIDTH - AXIS_SPACE, CHART_HEIGHT)
        for i in range(2)
    )
    for i, title in enumerate((OVER_TIME, SHARED)):
        sheet.place(sheet.note(title, size=7.5), left, top + i * chart_height, "left", "top")
    starts, span = side_by_side(series)
    for number, (rate, start) in enumerate(zip(series, starts, strict=True)):
        colour, marker = SERIES[number % len(SERIES)], MARKERS[number % len(MARKERS)]
        dots = rate.answers[:: 1 + len(rate.answers) // MAX_DOTS]
        over_time.plot(
            [start + due for due, _ in dots], [ms for _, ms in dots], marker, color=colour, markersize=2.2, alpha=0.5,
            markeredgewidth=0, rasterized=True,
        )  # fmt: skip
        over_time.plot(
            [start + due for due in rate.failures], [0.97] * len(rate.failures), "x", color=colour, markersize=4,
            alpha=0.8, transform=over_time.get_xaxis_transform(),
        )  # fmt: skip
        if ranked := sorted(ms for _, ms in rate.answers):
            rarity = [len(ranked) / (len(ranked) - i) for i in range(len(ranked))]
            percentiles.add_line(system_line(rarity, ranked, number, marked=[]))
            over_time.plot((start, start + span), [median(ranked)] * 2, color=colour, linewidth=1.7)
        if start:
            over_time.axvline(start - GAP * span / 2, color=LINE, linewidth=0.8)
    if any(rate.failures for rate in series):
        sheet.place(sheet.note(f"× {FAILED}"), left + CHART_WIDTH, top, "right", "top")
    for axes in (over_time, percentiles):
        if limit_ms is not None:
            axes.axhline(limit_ms, color=SOFT, linewidth=0.8, dashes=(4, 3))
            axes.annotate(
                limit, (1, limit_ms), (0, 2), ("axes fraction", "data"), "offset points", ha="right", color=SOFT,
                fontsize=6.5, family=sheet.plain,
            )  # fmt: skip
        axes.set_yscale("log")
        axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        axes.yaxis.set_minor_locator(NullLocator())
        axes.yaxis.set_major_formatter(lambda value, _: f"{value:g}")
        axes.margins(x=0.02, y=0.1)
    if len(series) > 1:
        middles = [start + span / 2 for start in starts]
        over_time.set_xticks(middles, [name.replace(" ", "\n", 1) for name in names])
    else:
        over_time.set_xlabel("seconds", color=SOFT, fontsize=7.5, family=sheet.plain)
    longest = max((len(rate.answers) for rate in series), default=0)
    shares = [share for share in SHARES if longest * (1 - share) >= 1] or [SHARES[0]]
    percentiles.set_xscale("log")
    percentiles.set_xticks([1 / (1 - share) for share in shares], [f"{100 * share:g} %" for share in shares])
    percentiles.set_xticks([], minor=True)
    return sheet.save(path)
