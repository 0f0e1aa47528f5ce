"""Contextual gates of a trained system: values by word class and over training, and scores with the gate fixed."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from seq2seq.figures.charts import AXIS_SPACE, CHART_WIDTH, TICK_SPACE, TITLE_SPACE, system_line
from seq2seq.figures.style import LINE, SOFT, Sheet, check_suffix, tint, width_of

BAR, CHART = 20, 150


def gate_figure(
    by_class: Mapping[str, float],
    by_epoch: Sequence[Sequence[float]],
    fixed: Mapping[float, float],
    learned: float,
    path: Path,
    font: Path | None = None,
) -> Path:
    """Draws the share of the word context, 1 - o, by word class and after each epoch (a line for each seed), and dev
    BLEU with the gate o fixed at values, beside that of the learned gate.

    `by_class`, `by_epoch` and `fixed` are of o, the share of the annotations. Empty parts are left out. Returns `path`.
    Raises UsageError for a suffix that is no figure's.
    """
    check_suffix(path)
    shares = sorted(((name, 1 - gate) for name, gate in by_class.items()), key=lambda pair: -pair[1])
    titles = ["share of the word context, by word class", "the same over the dev set, by epoch", "dev BLEU, gate fixed"]
    sheet = Sheet([*titles, *by_class], font)
    heights = [len(shares) * BAR + TICK_SPACE if shares else 0, CHART + TICK_SPACE if any(by_epoch) else 0]
    heights.append(CHART + TICK_SPACE)
    total = sum(height + TITLE_SPACE for height in heights if height)
    left, top = sheet.lay_out("Contextual gates", CHART_WIDTH, total)
    tops = []
    for title, height in zip(titles, heights, strict=True):
        tops.append(top + TITLE_SPACE)
        if height:
            sheet.place(sheet.note(title, size=7.5), left, top, "left", "top")
            top += height + TITLE_SPACE
    if shares:
        draw_bars(sheet, shares, left, tops[0])
    if heights[1]:
        axes = sheet.chart(left + AXIS_SPACE, tops[1], CHART_WIDTH - AXIS_SPACE, CHART)
        for number, gates in enumerate(by_epoch):
            axes.add_line(system_line(range(1, len(gates) + 1), [1 - gate for gate in gates], number))
        axes.margins(x=0.04, y=0.2)
        axes.set_xticks(range(1, max(map(len, by_epoch)) + 1))
        axes.set_xlabel("epoch; a line for each seed", color=SOFT, fontsize=7.5, family=sheet.plain)
    axes = sheet.chart(left + AXIS_SPACE, tops[2], CHART_WIDTH - AXIS_SPACE, CHART)
    axes.add_line(system_line(list(fixed), list(fixed.values()), 0))
    axes.axhline(learned, color=SOFT, linewidth=0.9, dashes=(4, 3))
    axes.margins(x=0.04, y=0.1)
    label = "gate o: 0 takes only the word context, 1 only the annotations; dashed: as learned"
    axes.set_xlabel(label, color=SOFT, fontsize=7.5, family=sheet.plain)
    return sheet.save(path)


def draw_bars(sheet: Sheet, shares: Sequence[tuple[str, float]], left: float, top: float) -> None:
    """One horizontal bar for each class, from 0 to 1."""
    labels = [sheet.word(name) for name, _ in shares]
    space = max(width_of(label) for label in labels) + 14
    axes = sheet.chart(left + space, top, CHART_WIDTH - space - AXIS_SPACE, len(shares) * BAR)
    axes.grid(visible=False, axis="y")
    axes.grid(axis="x", color=LINE, linewidth=0.6)
    axes.set(xlim=(0, 1), ylim=(len(shares) - 0.5, -0.5), yticks=[])
    axes.barh(range(len(shares)), [share for _, share in shares], height=0.62, color=tint(0.85))
    for number, ((_, share), label) in enumerate(zip(shares, labels, strict=True)):
        y = top + (number + 0.5) * BAR
        sheet.place(label, left, y, "left")
        x = left + space + share * (CHART_WIDTH - space - AXIS_SPACE) + 6
        sheet.place(sheet.note(f"{share:.2f}", size=7), x, y, "left")
