"""Figures of a paper's tables: systems with their intervals, scores by sentence length, learning curves, and gates."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import mean

import numpy as np
from PIL import Image

from interlinear.figures.charts import AXIS_SPACE, CHART_WIDTH, TICK_SPACE, TITLE_SPACE, system_line
from interlinear.figures.curves import Curve, Panel, learning_curves
from interlinear.figures.lengths import MIN_SENTENCES, score_by_length, score_curve_by_length
from interlinear.figures.style import LINE, SOFT, Sheet, check_suffix, tint, width_of
from interlinear.figures.systems import Comparison, SystemScore, system_comparison, system_comparisons
from interlinear.metrics.catalogue import select_metrics
from research.comparisons import ResultsTable, format_gain, runs_by_system
from research.papers import PaperTables, SystemGroup
from research.records import Result, ScaleName, ScoredRun

COLOURS = 24  # of a picture in a page
BAR, CHART = 20, 150  # of gates

OVERVIEW = "table"


@dataclass(frozen=True)
class PaperFigures:
    """The figures of a paper's tables at a scale, drawn from the tables and the runs that they are of.

    `table`: every group's main score with the paper's figures. `GROUP.TEST.SCORE`: systems with their intervals.
    `GROUP.TEST.lengths`: BLEU by source length. `GROUP.curves`: learning curves. `GROUP.gates`: contextual gates.
    """

    paper: PaperTables
    scale: ScaleName
    tables: Sequence[ResultsTable]
    runs: Sequence[ScoredRun]

    def draw(self, folder: Path, suffix: str = ".svg") -> list[Path]:
        """Draw all figures; returns their files."""
        drawn = [self.draw_one(name, folder / f"{name}{suffix}") for name in self.names()]
        return [path for path in drawn if path]

    def draw_for_page(self, folder: Path) -> list[str]:
        """Draw the figures that the page shows, as PNG of half the size and few colours; returns the names of those
        that the runs have."""
        folder.mkdir(parents=True, exist_ok=True)
        drawn = []
        for name in [name for name in self.paper.figures if name in self.names()]:
            if path := self.draw_one(name, folder / f"{name}.png"):
                Image.open(path).convert("RGB").reduce(2).quantize(COLOURS).save(path, optimize=True)
                drawn.append(name)
        return drawn

    def names(self) -> list[str]:
        """The names of all figures. Tables of several test sets together have none."""
        names = [OVERVIEW]
        for group in dict.fromkeys(one.group for one in self.tables):
            for one in self._tables_of(group):
                names += [f"{group}.{one.test}.{one.metric}"] if len(one.rows) > 1 else []
                names += [f"{group}.{one.test}.lengths"] if one.metric == "bleu" else []
            names += [f"{group}.curves", f"{group}.gates"]
        return names

    def draw_one(self, name: str, path: Path) -> Path | None:
        """Draw the figure of a name; None where the runs do not have what it shows."""
        if name == OVERVIEW:
            heading = f"{self.paper.about.partition(',')[0]}, {self.scale} scale"
            groups = dict.fromkeys(one.group for one in self.tables)
            return system_comparisons([comparison(self._main_table(group)) for group in groups], heading, path)
        group, *test, kind = name.split(".")
        if kind == "curves":
            return self._draw_curves(group, path)
        if kind == "gates":
            return self._draw_gates(group, path)
        if kind == "lengths":
            return self._draw_lengths(group, test[0], path)
        (table,) = [one for one in self._tables_of(group) if (one.test, one.metric) == (test[0], kind)]
        drawn = comparison(table)
        return system_comparison(drawn.systems, drawn.title, path)

    def _tables_of(self, group: str) -> list[ResultsTable]:
        return [one for one in self.tables if one.group == group and not one.pooled]

    def _main_table(self, group: str) -> ResultsTable:
        """A group's table on its first test set: of the score that the paper reports, if there is one, else the
        first."""
        tables = self._tables_of(group)
        return next((one for one in tables if one.metric == self.paper.groups[group].metric), tables[0])

    def _runs_of(self, group: str) -> dict[str, list[ScoredRun]]:
        return runs_by_system(group, self.paper.groups[group], self.runs, self.scale)

    def _draw_lengths(self, group: str, test: str, path: Path) -> Path | None:
        """BLEU by source length; the statistics of several seeds are summed."""
        tested = {
            system: [run.tests[test] for run in runs if test in run.tests and "bleu" in run.tests[test].statistics]
            for system, runs in self._runs_of(group).items()
        }
        tested = {system: tests for system, tests in tested.items() if tests}
        first = next(iter(tested.values()))[0]
        if sum(length > 0 for length in first.lengths) < MIN_SENTENCES:
            return None
        (bleu,) = select_metrics(["bleu"], first.result.reading)
        curves = [
            score_curve_by_length(
                system, first.lengths, bleu, np.sum([test.statistics["bleu"] for test in tests], axis=0)
            )
            for system, tests in tested.items()
        ]
        return score_by_length(curves, "BLEU", path)

    def _draw_curves(self, group: str, path: Path) -> Path:
        curves = [
            Curve(system, tuple(tuple(point.bleu for point in run.result.curve) for run in runs if run.result))
            for system, runs in self._runs_of(group).items()
        ]
        return learning_curves([Panel("dev BLEU", tuple(curve for curve in curves if curve.seeds))], path)

    def _draw_gates(self, group: str, path: Path) -> Path | None:
        """The gates of a system's runs, the mean of its seeds, for the classes and values that all of them have."""
        results = gated_results(self.paper.groups[group], self._runs_of(group))
        if not results:
            return None
        first, *others = gates = [result.gates for result in results if result.gates]
        classes = [name for name in first.by_class if all(name in other.by_class for other in others)]
        by_class = {name: mean(one.by_class[name].mean for one in gates) for name in classes}
        values = [value for value in first.fixed if all(value in other.fixed for other in others)]
        fixed = {value: mean(one.fixed[value] for one in gates) for value in values}
        by_epoch = [[point.gate for point in result.curve if point.gate is not None] for result in results]
        learned = mean(one.learned for one in gates)
        return gate_figure(by_class, [curve for curve in by_epoch if curve], fixed, learned, path)


def comparison(table: ResultsTable) -> Comparison:
    """A table's systems with their intervals, and the paper's scores and gains beside them."""
    scores = []
    for row in table.rows:
        published = "" if row.published is None else f"{row.published:.2f}"
        reported = ", ".join(filter(None, [published, format_gain(row.published_gain)]))
        beside = f"paper: {reported}" if reported else ""
        scores.append(SystemScore(row.system, row.ours, row.low, row.high, row.p_value, beside))
    return Comparison(f"{table.group}: {table.metric.upper()}, {table.data}, {table.test}", tuple(scores))


def gated_results(group: SystemGroup, runs: Mapping[str, Sequence[ScoredRun]]) -> list[Result]:
    """The runs whose contextual gates are shown: of the last system that has them and was trained for this group."""
    gated: list[Result] = []
    for system, own in runs.items():
        analysed = [run.result for run in own if run.result and run.result.gates]
        if analysed and system not in group.taken_from:
            gated = analysed
    return gated


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
