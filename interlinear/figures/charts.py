"""Shared parts of charts of several systems: legend, line styles, and layout."""

from collections.abc import Sequence

from matplotlib.axes import Axes
from matplotlib.lines import Line2D

from interlinear.errors import UsageError
from interlinear.figures.style import DASHES, MARKERS, PADDING, SERIES, Sheet, width_of

CHART_WIDTH, CHART_HEIGHT = 600, 260
AXIS_SPACE, TICK_SPACE = 36, 50  # space left of a chart, and below it
TITLE_SPACE, TICK_LINE = 22, 14  # space above a chart, and for a second line of tick labels
KEY_HEIGHT, KEY_GAP, HANDLE = 22, 22, 30


def check_systems(names: Sequence[str]) -> None:
    """Raises UsageError if there are no systems, or two have the same name."""
    if not names:
        raise UsageError("the picture", "there is no system to draw", "name one or more")
    if doubled := next((name for name in names if names.count(name) > 1), None):
        raise UsageError(doubled, "two systems have this name", "give each a name of its own")


def add_line(axes: Axes, xs: Sequence[float], ys: Sequence[float], number: int) -> None:
    """Adds a system's line in the style of its number."""
    axes.add_line(system_line(xs, ys, number))


def system_line(xs: Sequence[float], ys: Sequence[float], number: int, marked: Sequence[int] | None = None) -> Line2D:
    """A line with the colour, marker and dashes of a system's number; `marked`: indexes of marked points, None: all."""
    dashes = DASHES[number % len(DASHES)]
    return Line2D(
        xs, ys, color=SERIES[number % len(SERIES)], marker=MARKERS[number % len(MARKERS)], linewidth=1.7,
        linestyle=(0, dashes) if dashes else "-", markersize=4.5, markeredgewidth=0,
        markevery=None if marked is None else list(marked),
    )  # fmt: skip


def lay_out_charts(sheet: Sheet, heading: str, names: Sequence[str], height: float) -> tuple[float, float]:
    """Lays out a sheet with a legend of the systems in as many lines as needed; returns the corner below the legend."""
    labels = [sheet.word(name, size=9) for name in names]
    positions: list[tuple[float, int]] = []
    x, row = 0.0, 0
    for label in labels:
        width = HANDLE + 7 + width_of(label)
        if x and x + width > CHART_WIDTH:
            x, row = 0.0, row + 1
        positions.append((x, row))
        x += width + KEY_GAP
    legend_height = (row + 1) * KEY_HEIGHT
    left, top = sheet.lay_out(heading, CHART_WIDTH, legend_height + 10 + height - PADDING)
    for number, (label, (x, row)) in enumerate(zip(labels, positions, strict=True)):
        y = top + row * KEY_HEIGHT + 6
        handle = system_line((left + x, left + x + HANDLE / 2, left + x + HANDLE), (y, y, y), number, marked=[1])
        sheet.figure.axes[0].add_line(handle)
        sheet.place(label, left + x + HANDLE + 7, y, "left")
    return left, top + legend_height + 10
