"""Comparison of systems: scores with confidence intervals."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from matplotlib.lines import Line2D

from interlinear.figures.charts import CHART_WIDTH, KEY_GAP, KEY_HEIGHT, TICK_SPACE, TITLE_SPACE, check_systems
from interlinear.figures.style import LINE, SHEET, SOFT, Sheet, check_suffix, tint, width_of

ROW, WIDTH = 38, 0.6 * CHART_WIDTH


@dataclass(frozen=True)
class SystemScore:
    """Score of a system with its 95 % interval, `low` to `high`.

    p_value: of the difference from the baseline; None for the baseline. beside: additional text after the numbers.
    """

    name: str
    score: float
    low: float
    high: float
    p_value: float | None = None
    beside: str = ""


@dataclass(frozen=True)
class Comparison:
    """Scores of systems on one test set; the first system is the baseline."""

    title: str
    systems: tuple[SystemScore, ...]


def system_comparison(systems: Sequence[SystemScore], title: str, path: Path, font: Path | None = None) -> Path:
    """Draws scores with their intervals; the first system is the baseline.

    A filled dot differs from the baseline at p < 0.05, an open dot does not. Returns `path`. Raises as
    `learning_curves`.
    """
    return system_comparisons([Comparison("", tuple(systems))], title, path, font)


def system_comparisons(comparisons: Sequence[Comparison], heading: str, path: Path, font: Path | None = None) -> Path:
    """Draws several comparisons as `system_comparison` does, one below the other, each with its own scale."""
    check_suffix(path)
    for comparison in comparisons:
        check_systems([system.name for system in comparison.systems])
    titles = [comparison.title for comparison in comparisons]
    names = [system.name for comparison in comparisons for system in comparison.systems]
    sheet = Sheet([*names, *titles, heading], font)
    labels = [[sheet.word(system.name) for system in comparison.systems] for comparison in comparisons]
    values = [[sheet.note(value_of(system), size=7.5) for system in comparison.systems] for comparison in comparisons]
    label_width, value_width = (
        max(width_of(word) for words in each for word in words) + 14 for each in (labels, values)
    )
    heights = [len(comparison.systems) * ROW for comparison in comparisons]
    tick_space = TICK_SPACE - KEY_HEIGHT
    panel_heights = [
        TITLE_SPACE * bool(title) + height + tick_space for title, height in zip(titles, heights, strict=True)
    ]
    left, top = sheet.lay_out(heading, label_width + WIDTH + value_width, sum(panel_heights) + KEY_HEIGHT)
    colour = tint(1.0)
    for number, comparison in enumerate(comparisons):
        if comparison.title:
            sheet.place(sheet.note(comparison.title, size=7.5), left, top, "left", "top")
            top += TITLE_SPACE
        axes = sheet.chart(left + label_width, top, WIDTH, heights[number])
        axes.grid(visible=False, axis="y")
        axes.grid(axis="x", color=LINE, linewidth=0.6)
        axes.set(ylim=(len(comparison.systems) - 0.5, -0.5), yticks=[])
        axes.axvline(comparison.systems[0].score, color=SOFT, linewidth=0.8, dashes=(4, 3))
        for i, system in enumerate(comparison.systems):
            differs = i == 0 or (system.p_value is not None and system.p_value < 0.05)
            axes.plot((system.low, system.high), (i, i), color=colour, linewidth=1.6, solid_capstyle="round")
            axes.plot(
                system.score, i, marker="D" if i == 0 else "o", markersize=7, color=colour,
                markerfacecolor=colour if differs else SHEET,
            )  # fmt: skip
            y = top + (i + 0.5) * ROW
            sheet.place(labels[number][i], left + label_width - 14, y, "right")
            sheet.place(values[number][i], sheet.width - (left + value_width) + 14, y, "left")
        axes.margins(x=0.08)
        top += heights[number] + tick_space
    x, y = left + label_width, top + KEY_HEIGHT - 8
    for marker, filled, meaning in (
        ("D", True, "baseline"),
        ("o", True, "differs, p < 0.05"),
        ("o", False, "does not"),
    ):
        handle = Line2D([x], [y], marker=marker, markersize=5.5, color=colour, mfc=colour if filled else SHEET)
        sheet.figure.axes[0].add_line(handle)
        label = sheet.note(meaning)
        sheet.place(label, x + 10, y, "left")
        x += 10 + width_of(label) + KEY_GAP
    return sheet.save(path)


def value_of(system: SystemScore) -> str:
    """Formats the score, interval and p-value of a system."""
    p_value = system.p_value
    chance = "" if p_value is None else "p < 0.001" if p_value < 0.0005 else f"p = {p_value:.3f}"
    interval = f"  ({system.low:.2f} – {system.high:.2f})" if system.low < system.high else ""
    return "   ".join(filter(None, [f"{system.score:.2f}{interval}", chance, system.beside]))
