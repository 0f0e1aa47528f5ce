"""The figure of benchmarks/frontier.py: BLEU by sentences a second, with the frontier that no other point beats."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import log10
from pathlib import Path

from seq2seq.figures.charts import (
    AXIS_SPACE,
    CHART_HEIGHT,
    CHART_WIDTH,
    TICK_SPACE,
    TITLE_SPACE,
    lay_out_charts,
)
from seq2seq.figures.style import MARKERS, SERIES, SHEET, SOFT, Sheet

LABEL_DISTANCE = 0.13  # of the decimal logarithms of two rates
RANGE = 5.0  # BLEU below the best that a chart shows; a point below it stands at the edge, with its score


@dataclass(frozen=True)
class Point:
    """A contestant's medians. `family`: its series in the legend; `label`: what sets it apart from others of that."""

    family: str
    label: str
    threads: int
    rate: float  # sentences a second
    bleu: float
    greedy: bool


def frontier(points: Sequence[Point]) -> list[Point]:
    """The points that no other is at least as fast and as good as, from the fastest to the best."""
    best: list[Point] = []
    for point in sorted(points, key=lambda point: (-point.rate, -point.bleu)):
        if not best or point.bleu > best[-1].bleu:
            best.append(point)
    return best


def apart(points: Sequence[Point]) -> list[Point]:
    """Points of a frontier whose labels do not cover each other: of those with nearly the same rate, the first."""
    chosen: list[Point] = []
    for point in points:
        if all(abs(log10(point.rate / other.rate)) > LABEL_DISTANCE for other in chosen):
            chosen.append(point)
    return chosen


def draw(points: Sequence[Point], path: Path) -> Path:
    """One chart for each number of threads; hollow markers are greedy searches. Returns `path`."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator

    families = list(dict.fromkeys(point.family for point in points))
    counts = sorted({point.threads for point in points})
    titles = [f"BLEU, {count} thread{'s' * (count > 1)}; hollow: greedy search" for count in counts]
    sheet = Sheet([*families, *titles, *(point.label for point in points)])
    slowest, fastest = min(point.rate for point in points), max(point.rate for point in points)
    height = TITLE_SPACE + CHART_HEIGHT + TICK_SPACE
    left, top = lay_out_charts(sheet, "Quality and speed, Multi30k, German to English", families, len(counts) * height)
    for row, (count, title) in enumerate(zip(counts, titles, strict=True)):
        begin = top + row * height
        axes = sheet.chart(left + AXIS_SPACE, begin + TITLE_SPACE, CHART_WIDTH - AXIS_SPACE, CHART_HEIGHT)
        sheet.place(sheet.note(title, size=7.5), left, begin, "left", "top")
        axes.set_xscale("log")
        of_count = [point for point in points if point.threads == count]
        best = frontier(of_count)
        axes.plot(
            [point.rate for point in best], [point.bleu for point in best], color=SOFT, linewidth=0.8, linestyle="--"
        )
        lowest = max(point.bleu for point in of_count) - RANGE
        for point in of_count:
            number = families.index(point.family)
            colour = SERIES[number % len(SERIES)]
            axes.plot(
                point.rate, max(point.bleu, lowest), MARKERS[number % len(MARKERS)], color=colour, markersize=5,
                markerfacecolor=SHEET if point.greedy else colour,
            )  # fmt: skip
        labels = [(point, point.label, (4, 4)) for point in apart(best)]
        labels += [(point, f"{point.bleu:.1f}, below", (6, -2)) for point in of_count if point.bleu < lowest]
        for point, label, offset in labels:
            axes.annotate(
                label, (point.rate, max(point.bleu, lowest)), offset, textcoords="offset points", fontsize=6,
                color=SOFT, family=sheet.plain,
            )  # fmt: skip
        axes.xaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
        axes.xaxis.set_minor_locator(NullLocator())
        axes.xaxis.set_major_formatter(FuncFormatter(lambda rate, _: f"{rate:,.0f}"))
        axes.set_xlabel("sentences a second", color=SOFT, fontsize=7.5, family=sheet.plain)
        axes.set_ylim(lowest - 0.1 * RANGE, lowest + 1.15 * RANGE)
        axes.set_xlim(slowest / 1.3, fastest * 1.6)  # room for the label at the right
    return sheet.save(path)
