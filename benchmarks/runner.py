"""The runner that all benchmarks share: contestants take turns, a table has their medians and ratios, and is saved.

A benchmark is a function that measures, given by a contestant: it returns the figures of one run, by row of the table.
`python -m benchmarks.NAME --quick` runs each contestant once on a few inputs, to see that everything runs.
"""

import argparse
import json
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from benchmarks.reporting import ROOT, Machine, alone, command, commit, markdown_table, say, table_number

RESULTS = Path(__file__).parent / "results"

Labels = tuple[str, ...]  # the cells of a row beside the contestant's name
Figures = Mapping[str, float | str]  # of a row, by column
Measure = Callable[[], Mapping[Labels, Figures]]


@dataclass(frozen=True)
class Contestant:
    """What is measured. `measure`: one run; a contestant with a single row returns it with the labels ().

    `varies`: false for a measurement that gives the same figures in each round, and is made once.
    """

    name: str
    measure: Measure
    varies: bool = True


@dataclass(frozen=True)
class Column:
    """A column of figures: its heading, the format of a number, and the figure of several rounds.

    `figure`: the name of the figure, if it is not that of the column.
    """

    heading: str
    form: str = ""  # of format(), else that of `table_number`
    of_rounds: Callable[[Sequence[float]], float] = statistics.median
    figure: str = ""

    def cell(self, values: Sequence[float | str]) -> str:
        """The figure of all rounds; words are those of the first."""
        numbers = [value for value in values if not isinstance(value, str)]
        if len(numbers) < len(values) or not numbers:
            return str(values[0]) if values else ""
        value = self.of_rounds(numbers)
        return format(value, self.form) if self.form else table_number(value)


def deviation(values: Sequence[float]) -> float:
    """The standard deviation, 0 of a single value."""
    return statistics.stdev(values) if len(values) > 1 else 0.0


@dataclass(frozen=True)
class Benchmark:
    """What the table of a benchmark shows.

    `columns`: by the names of the figures. `labels`: headings of the rows' labels. `ratio_of`: the figure that is
    divided by that of a baseline; `baselines`: by heading, the contestant that all are divided by, or one for each.
    """

    name: str  # of its files in results/
    title: str
    columns: Mapping[str, Column]
    notes: Sequence[str] = ()
    labels: Sequence[str] = ()
    ratio_of: str = ""
    baselines: Mapping[str, str | Mapping[str, str]] = field(default_factory=dict)


class Options(argparse.ArgumentParser):
    """The options of a benchmark: its own, and those that all have."""

    def __init__(self, description: str | None, rounds: int = 3) -> None:
        super().__init__(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
        self._sizes: dict[str, tuple[Any, Any]] = {}
        self.size("--rounds", rounds, 1, "runs of each contestant, in turns")
        self.add_argument("--quick", action="store_true", help="one round of few inputs, to see that everything runs")
        self.add_argument("--save", action="store_true", help="keep the result in benchmarks/results/")

    def size(self, flag: str, value: float | None, quick: float, description: str = "") -> None:
        """An option for an amount of work, None for all there is; it is small with --quick."""
        self._sizes[flag.removeprefix("--").replace("-", "_")] = value, quick
        default = "all" if value is None else f"{value:g}"
        self.add_argument(flag, type=type(quick), metavar="N", help=f"{description} (default: {default})".strip())

    def parse(self, arguments: Sequence[str] | None = None) -> argparse.Namespace:
        asked = self.parse_args(arguments)
        for name, values in self._sizes.items():
            if getattr(asked, name) is None:
                setattr(asked, name, values[asked.quick])
        return asked


def interleaved(contestants: Sequence[Contestant], rounds: int) -> list[Contestant]:
    """Every contestant once a round; each round starts with another one. What does not vary is in the first only."""
    turns = [[*contestants[i % len(contestants) :], *contestants[: i % len(contestants)]] for i in range(rounds)]
    return [one for number, turn in enumerate(turns) for one in turn if number == 0 or one.varies]


@dataclass
class Results:
    """The figures of every round, by row: contestant and labels."""

    rows: dict[tuple[str, Labels], list[Figures]] = field(default_factory=dict)
    others: dict[str, list[float]] = field(default_factory=dict)  # share of the processor, by contestant

    def add(self, name: str, rows: Mapping[Labels, Figures], others: float) -> None:
        for labels, figures in rows.items():
            self.rows.setdefault((name, labels), []).append(figures)
        self.others.setdefault(name, []).append(others)

    def values(self, name: str, labels: Labels, figure: str) -> list[float | str]:
        """A figure of a row in every round that has it."""
        return [figures[figure] for figures in self.rows.get((name, labels), []) if figure in figures]

    def middle(self, name: str, labels: Labels, figure: str) -> float | None:
        """The median of the rounds."""
        numbers = [value for value in self.values(name, labels, figure) if not isinstance(value, str)]
        return statistics.median(numbers) if numbers else None

    def ratio(self, name: str, labels: Labels, figure: str, baseline: str) -> str:
        """The median of a row over that of the baseline's row with the same labels, or of its only row."""
        own, theirs = self.middle(name, labels, figure), self.middle(baseline, labels, figure)
        theirs = self.middle(baseline, (), figure) if theirs is None else theirs
        return f"{own / theirs:.2f}" if own is not None and theirs else ""

    def table(self, benchmark: Benchmark, order: Sequence[str]) -> tuple[list[str], list[list[str]]]:
        """Headings and rows: those with the same labels stand together, contestants in the given order."""
        by_labels = list(dict.fromkeys(labels for _, labels in self.rows))
        keys = sorted(self.rows, key=lambda key: (by_labels.index(key[1]), order.index(key[0])))
        named = any(name for name, _ in keys)
        several = benchmark.ratio_of and any(len(rounds) > 1 for rounds in self.rows.values())
        headings = [*benchmark.labels, *([""] * named), *(column.heading for column in benchmark.columns.values())]
        headings += [*benchmark.baselines, *(["each round"] if several else []), "others"]
        rows = []
        for name, labels in keys:
            padded = (*labels, *([""] * (len(benchmark.labels) - len(labels))))
            cells = [*padded, *([name] * named)]
            cells += [one.cell(self.values(name, labels, one.figure or key)) for key, one in benchmark.columns.items()]
            for baseline in benchmark.baselines.values():
                other = baseline if isinstance(baseline, str) else baseline.get(name, "")
                cells.append(self.ratio(name, labels, benchmark.ratio_of, other))
            if several:
                column = benchmark.columns.get(benchmark.ratio_of, Column(""))
                cells.append(" / ".join(column.cell([one]) for one in self.values(name, labels, benchmark.ratio_of)))
            rows.append([*cells, f"{max(self.others[name]):.0%}"])
        return headings, rows


def run(benchmark: Benchmark, contestants: Sequence[Contestant], asked: argparse.Namespace) -> Results:
    """Measure the contestants in turns; print the table, and save it if that was asked for."""
    results = Results()
    for contestant in interleaved(contestants, asked.rounds):
        with alone(wait=not asked.quick and contestant.varies) as disturbance:
            rows = contestant.measure()
        results.add(contestant.name, rows, disturbance.share)
        for labels, figures in rows.items():
            shown = [f"{one.heading} {one.cell([figures[f]])}" for f, one in benchmark.columns.items() if f in figures]
            say(f"{', '.join(filter(None, [contestant.name, *labels]))}: {', '.join(shown)}")
    table = results.table(benchmark, [one.name for one in contestants])
    report = Report(benchmark.name, benchmark.title, *table, (*benchmark.notes, OTHERS))
    print(report.markdown())
    if asked.save:
        report.save([[name, labels, rounds] for (name, labels), rounds in results.rows.items()])
    return results


OTHERS = "*Others* is the share of the processor that other programs used in a contestant's worst round."


@dataclass(frozen=True)
class Report:
    """The result of a benchmark."""

    name: str
    title: str
    headings: Sequence[str]
    rows: Sequence[Sequence[str]]
    notes: Sequence[str]  # what was measured, in a sentence or two each
    machine: Machine = field(default_factory=Machine.here)
    date: str = field(default_factory=lambda: datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"))
    commit: str = field(default_factory=commit)
    command: str = field(default_factory=command)

    def markdown(self) -> str:
        about = f"{self.date}, commit {self.commit}, {self.machine}.\n\n    {self.command}"
        return "\n\n".join([f"# {self.title}", about, markdown_table(self.headings, self.rows), *self.notes]) + "\n"

    def save(self, rounds: object) -> None:
        """Write the report to benchmarks/results/, and beside it the figures of every round as JSON."""
        RESULTS.mkdir(exist_ok=True)
        content = {**asdict(self), "rounds": rounds}
        (RESULTS / f"{self.name}.json").write_text(json.dumps(content, ensure_ascii=False) + "\n", encoding="utf-8")
        (RESULTS / f"{self.name}.md").write_text(self.markdown(), encoding="utf-8")
        say(f"kept as {RESULTS.relative_to(ROOT) / self.name}.md and .json")
