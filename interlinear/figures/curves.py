"""Learning curves of systems, with several seeds as a band."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import mean

from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator

from interlinear.figures.charts import (
    AXIS_SPACE,
    CHART_HEIGHT,
    CHART_WIDTH,
    TICK_SPACE,
    TITLE_SPACE,
    add_line,
    check_systems,
    lay_out_charts,
)
from interlinear.figures.style import SERIES, SOFT, Sheet, check_suffix


@dataclass(frozen=True)
class Curve:
    """Learning curve of a system: the values after each epoch, for each seed."""

    name: str
    seeds: tuple[tuple[float, ...], ...]


@dataclass(frozen=True)
class Panel:
    """Learning curves of one quantity."""

    title: str
    curves: tuple[Curve, ...]


def learning_curves(panels: Sequence[Panel], path: Path, font: Path | None = None) -> Path:
    """Draws learning curves over epochs, one panel below the other for each quantity.

    Several seeds are drawn as their mean, with a band from the lowest to the highest, up to the last epoch that all
    seeds have; each seed is also a thin line. Returns `path`. Raises UsageError if there are no systems, two have the
    same name, or the file suffix is not supported; FigureError if no font has a glyph for a letter.
    """
    check_suffix(path)
    names = list(dict.fromkeys(curve.name for panel in panels for curve in panel.curves))
    check_systems(names)
    sheet = Sheet([*names, *(panel.title for panel in panels)], font)
    panel_height = TITLE_SPACE + CHART_HEIGHT + TICK_SPACE
    left, top = lay_out_charts(sheet, "Learning curves", names, len(panels) * panel_height)
    for number, panel in enumerate(panels):
        axes = sheet.chart(
            left + AXIS_SPACE, top + number * panel_height + TITLE_SPACE, CHART_WIDTH - AXIS_SPACE, CHART_HEIGHT
        )
        sheet.place(sheet.note(panel.title, size=7.5), left, top + number * panel_height, "left", "top")
        for curve in panel.curves:
            draw_curve(axes, curve, names.index(curve.name))
        axes.set_xlabel("epoch", color=SOFT, fontsize=7.5, family=sheet.plain)
        axes.xaxis.set_major_locator(MaxNLocator(integer=True, min_n_ticks=1))  # whole epochs, also for a single one
        axes.margins(x=0.02, y=0.08)
    return sheet.save(path)


def draw_curve(axes: Axes, curve: Curve, number: int) -> None:
    """Draws a system's mean line, and for several seeds the band and their lines."""
    values_by_epoch = list(zip(*curve.seeds, strict=False))
    epochs = range(1, len(values_by_epoch) + 1)
    colour = SERIES[number % len(SERIES)]
    if len(curve.seeds) > 1:
        lows, highs = [min(values) for values in values_by_epoch], [max(values) for values in values_by_epoch]
        axes.fill_between(epochs, lows, highs, color=colour, alpha=0.16, linewidth=0)
        for seed in curve.seeds:
            axes.plot(range(1, len(seed) + 1), seed, color=colour, alpha=0.35, linewidth=0.6)
    add_line(axes, epochs, [mean(values) for values in values_by_epoch], number)
