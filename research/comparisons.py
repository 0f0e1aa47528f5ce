"""Tables of results from stored runs: our scores beside the paper's, and our gains beside the paper's."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from statistics import mean, stdev
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from seq2seq.metrics.catalogue import ALIGNMENT, select_metrics
from seq2seq.metrics.metric import Metric, Statistics
from seq2seq.metrics.significance import SystemResult, compare
from training.reproduce.papers import PaperTables, SystemGroup
from training.reproduce.results import Result, ScaleName, ScoredRun

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

ALL_TESTS = "all"  # in place of a test set: the sentences of several together


@dataclass(frozen=True)
class TableRow:
    """A system's score on a test set.

    `gain`: the difference from the group's first system. `seed_gains`: of each seed that both systems have. `p_value`:
    of the gain, by approximate randomisation of each sentence's outputs: it is about other sentences, while
    `seed_gains` show how other trainings differ. `low`, `high`: a 95 % interval by bootstrap. `epochs`, `minutes`: of
    each seed's training; `epochs` is empty for another toolkit. `versions`: abbreviated commits, or the release of
    another toolkit.
    """

    system: str
    seeds: tuple[int, ...]
    ours: float
    spread: float | None  # standard deviation over the seeds
    low: float
    high: float
    gain: float | None
    seed_gains: tuple[float, ...]
    p_value: float | None
    published: float | None  # the paper's score; None if the paper does not report it
    published_gain: float | None
    parameters: int | None
    epochs: tuple[int, ...]
    minutes: tuple[float, ...]
    versions: tuple[str, ...]


@dataclass(frozen=True)
class PublishedRow:
    """The figure of another publication's system."""

    system: str
    score: float
    citation: str
    settings: str


@dataclass(frozen=True)
class ResultsTable:
    """The systems of a group by one score on one test set, the baseline first.

    `pooled`: the test sets whose sentences are taken together, where `test` is ALL_TESTS; otherwise empty. `better`:
    which direction of the score is an improvement.
    """

    group: str
    about: str
    data: str
    test: str
    metric: str
    better: Literal["higher", "lower", "neither"]
    signature: str
    rows: tuple[TableRow, ...]
    unedited: float | None = None  # the score of the unedited machine translations, in post-editing
    also_published: tuple[PublishedRow, ...] = ()
    pooled: tuple[str, ...] = ()


@dataclass(frozen=True)
class RunScore:
    """The score of one run, and its statistics of each sentence."""

    run: ScoredRun
    score: float
    statistics: Statistics


SystemScores = Mapping[str, Sequence[RunScore]]


def build_results_tables(table: PaperTables, results: Sequence[ScoredRun], scale: ScaleName) -> list[ResultsTable]:
    """A table for each group, test set and score that at least one of the group's own runs has; then one for each
    score that several test sets of a group have, over all their sentences."""
    tables = []
    for name, group in table.groups.items():
        runs = runs_by_system(name, group, results, scale)
        own = runs_for_group(group, runs)
        tests = dict.fromkeys(test for run in all_runs(own) for test in run.tests)
        for test in tests:
            metrics = dict.fromkeys(m for run in all_runs(own) if test in run.tests for m in run.tests[test].scores)
            tables += [build_results_table(name, group, test, metric, runs, scale) for metric in metrics]
        tables += build_pooled_tables(name, group, runs, scale)
    return tables


def runs_by_system(
    name: str, group: SystemGroup, results: Sequence[ScoredRun], scale: ScaleName
) -> dict[str, list[ScoredRun]]:
    """The runs of a group's systems, in the group's order; those of other toolkits last.

    A system that is taken from another group has the seeds that the group's own systems have.
    """
    runs = {
        system: [
            one
            for one in results
            if one.place.scale == scale
            and one.place.system == system
            and one.place.group == group.taken_from.get(system, name)
        ]
        for system in (*group.systems, *group.toolkit_systems)
    }
    own_seeds = {run.place.seed for run in all_runs(runs_for_group(group, runs))}
    for system in group.taken_from:
        runs[system] = [run for run in runs[system] if run.place.seed in own_seeds]
    return {system: own for system, own in runs.items() if own}


def runs_for_group(group: SystemGroup, runs: Mapping[str, list[ScoredRun]]) -> Mapping[str, list[ScoredRun]]:
    """The runs that were trained for the group; all, if every system was tuned and the recipe itself was the best."""
    own = {system: of_system for system, of_system in runs.items() if system not in group.taken_from}
    return runs if group.tuning and set(group.taken_from) >= set(group.systems) else own


def gated_runs(group: SystemGroup, runs: Mapping[str, Sequence[ScoredRun]]) -> list[Result]:
    """The runs whose contextual gates are shown: of the last system that has them and was trained for this group."""
    gated: list[Result] = []
    for system, own in runs.items():
        analysed = [run for run in own if isinstance(run, Result) and run.gates]
        if analysed and system not in group.taken_from:
            gated = analysed
    return gated


def all_runs(runs: Mapping[str, Sequence[ScoredRun]]) -> Iterator[ScoredRun]:
    return (run for own in runs.values() for run in own)


def build_results_table(
    name: str, group: SystemGroup, test: str, metric: str, runs: Mapping[str, Sequence[ScoredRun]], scale: ScaleName
) -> ResultsTable:
    """The table of one score on one test set. Runs that lack the score are left out."""
    tested = {
        system: [run for run in own if test in run.tests and metric in run.tests[test].scores]
        for system, own in runs.items()
    }
    tested = {system: own for system, own in tested.items() if own}
    first = next(all_runs(tested)).tests[test]
    (scorer,) = select_metrics([metric], first.reading)
    signature = joined_signatures([run.tests[test].scores[metric].signature for run in all_runs(tested)])
    scores = {
        system: [RunScore(run, run.tests[test].scores[metric].score, run.tests[test].of(metric)) for run in own]
        for system, own in tested.items()
    }
    rows = build_rows(group, test, scorer, signature, scores)
    published = tuple(
        PublishedRow(one.name, one.scores[test][metric], one.citation, one.settings)
        for one in group.also_published
        if metric in one.scores.get(test, {})
    )
    return ResultsTable(
        group=name,
        about=group.about,
        data=group.data_at(scale),
        test=test,
        metric=metric,
        better=scorer.better,
        signature=signature,
        rows=rows,
        unedited=first.unedited.get(metric),
        also_published=published,
    )


def build_pooled_tables(
    name: str, group: SystemGroup, runs: Mapping[str, Sequence[ScoredRun]], scale: ScaleName
) -> list[ResultsTable]:
    """A table over all sentences of the test sets, for each score that several test sets have in every run.

    A test set of joined lines is left out, since its sentences are in another one too; so are scores of alignments.
    """
    pooled: dict[str, list[str]] = {}
    for test in group.tests:
        results = [run.tests.get(test) for run in all_runs(runs)]
        if not results or any(result is None or result.joined_from for result in results):
            continue
        for metric in results[0].scores if results[0] else ():
            if metric not in ALIGNMENT and all(result and metric in result.scores for result in results):
                pooled.setdefault(metric, []).append(test)
    return [
        build_pooled_table(name, group, tuple(tests), metric, runs, scale)
        for metric, tests in pooled.items()
        if len(tests) > 1 and has_one_reading(tests, runs)
    ]


def has_one_reading(tests: Sequence[str], runs: Mapping[str, Sequence[ScoredRun]]) -> bool:
    """Whether the text of all test sets is preprocessed in one way, so that their statistics can be added."""
    return len({run.tests[test].reading for run in all_runs(runs) for test in tests}) == 1


def build_pooled_table(
    name: str,
    group: SystemGroup,
    tests: tuple[str, ...],
    metric: str,
    runs: Mapping[str, Sequence[ScoredRun]],
    scale: ScaleName,
) -> ResultsTable:
    """The table of one score over the sentences of several test sets together."""
    (scorer,) = select_metrics([metric], next(all_runs(runs)).tests[tests[0]].reading)
    signature = joined_signatures(
        [run.tests[test].scores[metric].signature for run in all_runs(runs) for test in tests]
    )

    def run_score(run: ScoredRun) -> RunScore:
        statistics = np.concatenate([run.tests[test].of(metric) for test in tests])
        return RunScore(run, float(scorer.values(statistics.sum(0, keepdims=True))[0]), statistics)

    scores = {system: [run_score(run) for run in own] for system, own in runs.items()}
    rows = build_rows(group, ALL_TESTS, scorer, signature, scores)
    return ResultsTable(
        group=name,
        about=group.about,
        data=group.data_at(scale),
        test=ALL_TESTS,
        metric=metric,
        better=scorer.better,
        signature=signature,
        rows=rows,
        pooled=tests,
    )


def joined_signatures(signatures: Sequence[str]) -> str:
    """Signatures without repetition; systems may differ in how their alignments are read."""
    return " and ".join(dict.fromkeys(signatures))


def build_rows(
    group: SystemGroup, test: str, scorer: Metric, signature: str, scores: SystemScores
) -> tuple[TableRow, ...]:
    """A row for each system, with intervals and the significance of its difference from the baseline."""
    baseline, metric = next(iter(group.systems)), scorer.name
    bootstrap: dict[str, SystemResult] = {}
    randomisation: dict[str, SystemResult] = {}
    if len(scores) > 1:
        statistics = {system: [one.statistics for one in own] for system, own in scores.items()}
        bootstrap = {one.system: one for one in compare(scorer, statistics, "bootstrap", signature).systems}
        randomisation = {one.system: one for one in compare(scorer, statistics, "randomisation", signature).systems}
    of_baseline = {one.run.place.seed: one.score for one in scores.get(baseline, ())}
    baseline_score = mean(of_baseline.values()) if of_baseline else None
    base = group.published_score(baseline, test, metric)
    gains_published = group.published == "gain" and metric == group.metric
    rows = []
    for system, own in scores.items():
        values = [one.score for one in own]
        ours = mean(values)
        interval, test_of_gain = bootstrap.get(system), randomisation.get(system)
        published = group.published_score(system, test, metric)
        seeds = tuple(one.run.place.seed for one in own)
        gains = [one - of_baseline[seed] for seed, one in zip(seeds, values, strict=True) if seed in of_baseline]
        rows.append(
            TableRow(
                system=system,
                seeds=seeds,
                ours=ours,
                spread=stdev(values) if len(values) > 1 else None,
                low=ours if interval is None or interval.low is None else interval.low,
                high=ours if interval is None or interval.high is None else interval.high,
                gain=None if baseline_score is None or system == baseline else ours - baseline_score,
                seed_gains=() if system == baseline else tuple(gains),
                p_value=test_of_gain.p_value if test_of_gain and baseline_score is not None else None,
                published=None if gains_published else published,
                published_gain=None if published is None or base is None or system == baseline else published - base,
                parameters=own[0].run.parameters,
                epochs=tuple(one.run.epochs for one in own if one.run.epochs is not None),
                minutes=tuple(one.run.minutes for one in own if one.run.minutes is not None),
                versions=tuple(dict.fromkeys(one.run.version for one in own)),
            )
        )
    return tuple(rows)


def main_tables(table: PaperTables, tables: Sequence[ResultsTable]) -> list[ResultsTable]:
    """One table for each group, on its first test set: the score that the paper reports, if there is one, else the
    first."""
    selected = []
    for name in dict.fromkeys(one.group for one in tables):
        group_tables = [one for one in tables if one.group == name]
        selected.append(next((one for one in group_tables if one.metric == table.groups[name].metric), group_tables[0]))
    return selected


def as_json(tables: "Sequence[DataclassInstance]") -> list[dict[str, Any]]:
    """The tables as dictionaries, for JSON output."""
    return [asdict(one) for one in tables]


def published_label(row: TableRow) -> str:
    """The paper's score and gain of a system, as a label in a figure."""
    published_score = "" if row.published is None else f"{row.published:.2f}"
    reported = ", ".join(filter(None, [published_score, format_gain(row.published_gain)]))
    return f"paper: {reported}" if reported else ""


def format_gain(gain: float | None, seed_gains: Sequence[float] = ()) -> str:
    """A gain with its sign; in brackets those of several seeds."""
    if gain is None:
        return ""
    of_seeds = f" ({', '.join(map(format_gain, seed_gains))})" if len(seed_gains) > 1 else ""
    return f"{gain:+.2f}{of_seeds}"
