"""Systems beside each other: scores with their intervals."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from seq2seq.figures.charts import CHART_WIDTH, KEY_GAP, TICK_ROOM, check_systems
from seq2seq.figures.style import LINE, SHEET, SOFT, Sheet, check_suffix, tint, width_of

ROW, WIDTH = 38, 0.6 * CHART_WIDTH


@dataclass(frozen=True)
class SystemScore:
    """A system's score with its 95 % interval. `p_value`: of the difference from the baseline, which has None."""

    name: str
    score: float
    low: float
    high: float
    p_value: float | None = None


def system_comparison(systems: Sequence[SystemScore], title: str, path: Path, font: Path | None = None) -> Path:
    """Draw scores with their intervals, the first system's the baseline.

    A full dot is a difference from the baseline at p < 0.05, an open one none. Returns `path`. Raises as
    `learning_curves`.
    """
    from matplotlib.lines import Line2D

    check_suffix(path)
    names = [system.name for system in systems]
    check_systems(names)
    sheet = Sheet([*names, title], font)
    labels = [sheet.word(name) for name in names]
    values = [sheet.note(value_of(system), size=7.5) for system in systems]
    before, behind = max(map(width_of, labels)) + 14, max(map(width_of, values)) + 14
    height = len(systems) * ROW
    left, top = sheet.lay_out(title, before + WIDTH + behind, height + TICK_ROOM)
    axes = sheet.chart(left + before, top, WIDTH, height)
    axes.grid(visible=False, axis="y")
    axes.grid(axis="x", color=LINE, linewidth=0.6)
    axes.set(ylim=(len(systems) - 0.5, -0.5), yticks=[])
    axes.axvline(systems[0].score, color=SOFT, linewidth=0.8, dashes=(4, 3))
    colour = tint(1.0)
    for i, system in enumerate(systems):
        differs = i == 0 or (system.p_value is not None and system.p_value < 0.05)
        axes.plot((system.low, system.high), (i, i), color=colour, linewidth=1.6, solid_capstyle="round")
        axes.plot(
            system.score, i, marker="D" if i == 0 else "o", markersize=7, color=colour,
            markerfacecolor=colour if differs else SHEET,
        )  # fmt: skip
        y = top + (i + 0.5) * ROW
        sheet.place(labels[i], left + before - 14, y, "right")
        sheet.place(values[i], sheet.width - (left + behind) + 14, y, "left")
    axes.margins(x=0.08)
    x, y = left + before, top + height + TICK_ROOM - 8
    for marker, full, meaning in (("D", True, "baseline"), ("o", True, "differs, p < 0.05"), ("o", False, "does not")):
        handle = Line2D([x], [y], marker=marker, markersize=5.5, color=colour, mfc=colour if full else SHEET)
        sheet.figure.axes[0].add_line(handle)
        label = sheet.note(meaning)
        sheet.place(label, x + 10, y, "left")
        x += 10 + width_of(label) + KEY_GAP
    return sheet.save(path)


def value_of(system: SystemScore) -> str:
    """A system's score and chance in figures."""
    chance = "" if system.p_value is None else f"   p = {system.p_value:.3f}"
    return f"{system.score:.2f}  ({system.low:.2f} – {system.high:.2f}){chance}"
