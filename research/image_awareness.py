"""Tables of image awareness: scores with the right images beside those with wrong ones (Elliott 2018)."""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import mean

from seq2seq.metrics.catalogue import select_metrics
from seq2seq.metrics.significance import compare
from training.reproduce.papers import PaperTables
from training.reproduce.results import ScaleName, ScoredRun
from training.reproduce.results_table import all_runs, runs_by_system


@dataclass(frozen=True)
class AwarenessRow:
    """A system's mean scores over its seeds.

    `awareness`: how much better the score with the right images is. `p_value`: of such a difference for a model that
    ignores images, by approximate randomisation over sentences and seeds.
    """

    system: str
    seeds: tuple[int, ...]
    right: float
    shuffled: float
    awareness: float
    p_value: float


@dataclass(frozen=True)
class AwarenessTable:
    """The systems of a group that read images, by one score on one test set."""

    group: str
    data: str
    test: str
    metric: str
    lines: int  # with an image
    rows: tuple[AwarenessRow, ...]


def build_awareness_tables(table: PaperTables, results: Sequence[ScoredRun], scale: ScaleName) -> list[AwarenessTable]:
    """A table for each group, test set and score for which at least one run was scored with wrong images too."""
    tables = []
    for name, group in table.groups.items():
        runs = runs_by_system(name, group, results, scale)
        for test in group.shuffle_images:
            tested = {system: [run for run in own if is_shuffled(run, test)] for system, own in runs.items()}
            tested = {system: own for system, own in tested.items() if own}
            shuffled = [run.tests[test].shuffled for run in all_runs(tested)]
            for metric in dict.fromkeys(metric for one in shuffled if one for metric in one.scores):
                rows = [awareness_row(system, own, test, metric) for system, own in tested.items()]
                lines = next(one.lines for one in shuffled if one)
                tables.append(AwarenessTable(name, group.data_at(scale), test, metric, lines, tuple(rows)))
    return tables


def is_shuffled(run: ScoredRun, test: str) -> bool:
    return test in run.tests and run.tests[test].shuffled is not None


def awareness_row(system: str, runs: Sequence[ScoredRun], test: str, metric: str) -> AwarenessRow:
    """The row of a system. All its runs were scored with wrong images."""
    results = [run.tests[test] for run in runs]
    shuffled = [result.shuffled for result in results if result.shuffled]
    (scorer,) = select_metrics([metric], results[0].reading)
    statistics = {"shuffled": [one.of(metric) for one in shuffled], "right": [one.of(metric) for one in results]}
    p_value = compare(scorer, statistics, "randomisation", "").systems[1].p_value
    assert p_value is not None
    return AwarenessRow(
        system=system,
        seeds=tuple(run.place.seed for run in runs),
        right=mean(result.scores[metric].score for result in results),
        shuffled=mean(one.scores[metric] for one in shuffled),
        awareness=mean(one.awareness[metric] for one in shuffled),
        p_value=p_value,
    )


def awareness_lines(tables: Sequence[AwarenessTable]) -> list[str]:
    """The tables in Markdown."""
    lines = []
    for one in tables:
        lines += [
            f"### {one.data}, {one.test}: {one.metric} with the images of other sentences",
            "",
            f"{one.lines:,} sentences have an image.",
            "",
            "| system | seeds | right images | shuffled | awareness | p |",
            "|---|---|---|---|---|---|",
            *(awareness_line(row) for row in one.rows),
            "",
        ]
    return lines


def awareness_line(row: AwarenessRow) -> str:
    p_value = f"{row.p_value:.4f}" + (" *" if row.p_value < 0.05 else "")
    return (
        f"| {row.system} | {len(row.seeds)} | {row.right:.2f} | {row.shuffled:.2f} | {row.awareness:+.2f} | {p_value} |"
    )
