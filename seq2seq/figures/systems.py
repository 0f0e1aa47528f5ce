"""Systems beside each other: scores with their intervals."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from seq2seq.figures.charts import CHART_WIDTH, KEY_GAP, KEY_HEIGHT, TICK_ROOM, TITLE_ROOM, check_systems
from seq2seq.figures.style import LINE, SHEET, SOFT, Sheet, check_suffix, tint, width_of

ROW, WIDTH = 38, 0.6 * CHART_WIDTH


@dataclass(frozen=True)
class SystemScore:
    """A system's score with its 95 % interval. `p_value`: of the difference from the baseline, which has None;
    `beside`: what else is to stand behind its figures."""

    name: str
    score: float
    low: float
    high: float
    p_value: float | None = None
    beside: str = ""


@dataclass(frozen=True)
class Comparison:
    """Systems by one score on one test set, the first the baseline."""

    title: str
    systems: tuple[SystemScore, ...]


def system_comparison(systems: Sequence[SystemScore], title: str, path: Path, font: Path | None = None) -> Path:
    """Draw scores with their intervals, the first system's the baseline.

    A full dot is a difference from the baseline at p < 0.05, an open one none. Returns `path`. Raises as
    `learning_curves`.
    """
    return system_comparisons([Comparison("", tuple(systems))], title, path, font)


def system_comparisons(comparisons: Sequence[Comparison], heading: str, path: Path, font: Path | None = None) -> Path:
    """Draw comparisons as `system_comparison` does, one below the other, each with a scale of its own."""
    from matplotlib.lines import Line2D

    check_suffix(path)
    for comparison in comparisons:
        check_systems([system.name for system in comparison.systems])
    titles = [comparison.title for comparison in comparisons]
    names = [system.name for comparison in comparisons for system in comparison.systems]
    sheet = Sheet([*names, *titles, heading], font)
    labels = [[sheet.word(system.name) for system in comparison.systems] for comparison in comparisons]
    values = [[sheet.note(value_of(system), size=7.5) for system in comparison.systems] for comparison in comparisons]
    before, behind = (max(width_of(word) for words in each for word in words) + 14 for each in (labels, values))
    heights = [len(comparison.systems) * ROW for comparison in comparisons]
    tick_room = TICK_ROOM - KEY_HEIGHT
    rooms = [TITLE_ROOM * bool(title) + height + tick_room for title, height in zip(titles, heights, strict=True)]
    left, top = sheet.lay_out(heading, before + WIDTH + behind, sum(rooms) + KEY_HEIGHT)
    colour = tint(1.0)
    for number, comparison in enumerate(comparisons):
        if comparison.title:
            sheet.place(sheet.note(comparison.title, size=7.5), left, top, "left", "top")
            top += TITLE_ROOM
        axes = sheet.chart(left + before, top, WIDTH, heights[number])
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
            sheet.place(labels[number][i], left + before - 14, y, "right")
            sheet.place(values[number][i], sheet.width - (left + behind) + 14, y, "left")
        axes.margins(x=0.08)
        top += heights[number] + tick_room
    x, y = left + before, top + KEY_HEIGHT - 8
    for marker, full, meaning in (("D", True, "baseline"), ("o", True, "differs, p < 0.05"), ("o", False, "does not")):
        handle = Line2D([x], [y], marker=marker, markersize=5.5, color=colour, mfc=colour if full else SHEET)
        sheet.figure.axes[0].add_line(handle)
        label = sheet.note(meaning)
        sheet.place(label, x + 10, y, "left")
        x += 10 + width_of(label) + KEY_GAP
    return sheet.save(path)


def value_of(system: SystemScore) -> str:
    """A system's score and chance in figures."""
    p_value = system.p_value
    chance = "" if p_value is None else "p < 0.001" if p_value < 0.0005 else f"p = {p_value:.3f}"
    interval = f"  ({system.low:.2f} – {system.high:.2f})" if system.low < system.high else ""
    return "   ".join(filter(None, [f"{system.score:.2f}{interval}", chance, system.beside]))
