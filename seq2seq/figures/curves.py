"""Learning curves of systems, their seeds as bands."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import mean
from typing import TYPE_CHECKING

from seq2seq.figures.charts import (
    AXIS_ROOM,
    CHART_HEIGHT,
    CHART_WIDTH,
    TICK_ROOM,
    TITLE_ROOM,
    add_line,
    check_systems,
    lay_out_charts,
)
from seq2seq.figures.style import SERIES, SOFT, Sheet, check_suffix

if TYPE_CHECKING:
    from matplotlib.axes import Axes


@dataclass(frozen=True)
class Curve:
    """A system's learning curve: for every seed the value after each epoch."""

    name: str
    seeds: tuple[tuple[float, ...], ...]


@dataclass(frozen=True)
class Panel:
    """Curves of one quantity."""

    title: str
    curves: tuple[Curve, ...]


def learning_curves(panels: Sequence[Panel], path: Path, font: Path | None = None) -> Path:
    """Draw what systems had learnt after each epoch, a panel below the other for every quantity.

    A system of several seeds is a line, their mean, in a band from the lowest to the highest of them, as far as every
    seed went; each seed is a thin line besides. Returns `path`. Raises CallError where there is nothing to draw or for
    a suffix that is no picture's; FigureError where no font has a letter.
    """
    from matplotlib.ticker import MaxNLocator

    check_suffix(path)
    names = list(dict.fromkeys(curve.name for panel in panels for curve in panel.curves))
    check_systems(names)
    sheet = Sheet([*names, *(panel.title for panel in panels)], font)
    each = TITLE_ROOM + CHART_HEIGHT + TICK_ROOM
    left, top = lay_out_charts(sheet, "Learning curves", names, len(panels) * each)
    for number, panel in enumerate(panels):
        axes = sheet.chart(left + AXIS_ROOM, top + number * each + TITLE_ROOM, CHART_WIDTH - AXIS_ROOM, CHART_HEIGHT)
        sheet.place(sheet.note(panel.title, size=7.5), left, top + number * each, "left", "top")
        for curve in panel.curves:
            draw_curve(axes, curve, names.index(curve.name))
        axes.set_xlabel("epoch", color=SOFT, fontsize=7.5, family=sheet.plain)
        axes.xaxis.set_major_locator(MaxNLocator(integer=True, min_n_ticks=1))  # whole epochs, of a single one too
        axes.margins(x=0.02, y=0.08)
    return sheet.save(path)


def draw_curve(axes: Axes, curve: Curve, number: int) -> None:
    """A system's line; with several seeds in its band."""
    together = list(zip(*curve.seeds, strict=False))
    epochs = range(1, len(together) + 1)
    colour = SERIES[number % len(SERIES)]
    if len(curve.seeds) > 1:
        lows, highs = [min(values) for values in together], [max(values) for values in together]
        axes.fill_between(epochs, lows, highs, color=colour, alpha=0.16, linewidth=0)
        for seed in curve.seeds:
            axes.plot(range(1, len(seed) + 1), seed, color=colour, alpha=0.35, linewidth=0.6)
    add_line(axes, epochs, [mean(values) for values in together], number)
