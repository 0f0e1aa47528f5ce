"""Comparisons of a table's systems: our scores and gains beside the paper's, and scores with the images of other lines
(Elliott 2018)."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import mean, stdev
from typing import Literal

import numpy as np

from interlinear.metrics.catalogue import ALIGNMENT, select_metrics
from interlinear.metrics.metric import Metric, Statistics
from interlinear.metrics.significance import SystemResult, compare
from research.papers import PaperTables, SystemGroup
from research.records import ScaleName, ScoredRun, parse_statistics

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


def build_results_tables(table: PaperTables, results: Sequence[ScoredRun], scale: ScaleName) -> list[ResultsTable]:
    """A table for each group, test set and score that at least one of the group's own runs has; then one for each
    score that several test sets of a group have, over all their sentences."""
    tables = []
    for name, group in table.groups.items():
        runs = runs_by_system(name, group, results, scale)
        own = list(all_runs(runs_for_group(group, runs)))
        for test in dict.fromkeys(test for run in own for test in run.tests):
            metrics = dict.fromkeys(m for run in own if test in run.tests for m in run.tests[test].result.scores)
            tables += [build_table(name, group, (test,), metric, runs, scale) for metric in metrics]
        for metric, tests in pooled_tests(group, list(all_runs(runs))).items():
            tables.append(build_table(name, group, tuple(tests), metric, runs, scale))
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


def all_runs(runs: Mapping[str, Sequence[ScoredRun]]) -> Iterator[ScoredRun]:
    return (run for own in runs.values() for run in own)


def pooled_tests(group: SystemGroup, runs: Sequence[ScoredRun]) -> dict[str, list[str]]:
    """The test sets whose sentences are taken together, by score: several that have it in every run, preprocessed in
    one way, so that their statistics can be added.

    A test set of joined lines is left out, since its sentences are in another one too; so are scores of alignments.
    """
    pooled: dict[str, list[str]] = {}
    for test in group.tests:
        results = [run.tests[test].result for run in runs if test in run.tests]
        if not results or len(results) < len(runs) or any(result.joined_from for result in results):
            continue
        for metric in results[0].scores:
            if metric not in ALIGNMENT and all(metric in result.scores for result in results):
                pooled.setdefault(metric, []).append(test)
    return {
        metric: tests
        for metric, tests in pooled.items()
        if len(tests) > 1 and len({run.tests[test].result.reading for run in runs for test in tests}) == 1
    }


def build_table(
    name: str,
    group: SystemGroup,
    tests: tuple[str, ...],
    metric: str,
    runs: Mapping[str, Sequence[ScoredRun]],
    scale: ScaleName,
) -> ResultsTable:
    """The table of one score on one test set, or over the sentences of several together. Runs that lack the score are
    left out."""
    tested = {
        system: [run for run in own if all(t in run.tests and metric in run.tests[t].result.scores for t in tests)]
        for system, own in runs.items()
    }
    tested = {system: own for system, own in tested.items() if own}
    first = next(all_runs(tested)).tests[tests[0]].result
    (scorer,) = select_metrics([metric], first.reading)
    # Without repetition; systems may differ in how their alignments are read.
    signatures = dict.fromkeys(
        run.tests[test].result.scores[metric].signature for run in all_runs(tested) for test in tests
    )

    def run_score(run: ScoredRun) -> RunScore:
        statistics = np.concatenate([run.tests[test].statistics[metric] for test in tests])
        score = run.tests[tests[0]].result.scores[metric].score
        return RunScore(run, score if len(tests) == 1 else score_of(scorer, statistics), statistics)

    scores = {system: [run_score(run) for run in own] for system, own in tested.items()}
    pooled = tests if len(tests) > 1 else ()
    test = ALL_TESTS if pooled else tests[0]
    return ResultsTable(
        group=name,
        about=group.about,
        data=group.data_at(scale),
        test=test,
        metric=metric,
        better=scorer.better,
        signature=" and ".join(signatures),
        rows=build_rows(group, test, scorer, scores),
        unedited=None if pooled else first.unedited.get(metric),
        also_published=tuple(
            PublishedRow(one.name, one.scores[test][metric], one.citation, one.settings)
            for one in group.also_published
            if metric in one.scores.get(test, {})
        ),
        pooled=pooled,
    )


def build_rows(group: SystemGroup, test: str, scorer: Metric, scores: SystemScores) -> tuple[TableRow, ...]:
    """A row for each system, with intervals and the significance of its difference from the baseline."""
    baseline, metric = next(iter(group.systems)), scorer.name
    bootstrap: dict[str, SystemResult] = {}
    randomisation: dict[str, SystemResult] = {}
    if len(scores) > 1:
        statistics = {system: [one.statistics for one in own] for system, own in scores.items()}
        bootstrap = {one.system: one for one in compare(scorer, statistics, "bootstrap", "").systems}
        randomisation = {one.system: one for one in compare(scorer, statistics, "randomisation", "").systems}
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


def score_of(scorer: Metric, statistics: Statistics) -> float:
    """The score of all sentences together."""
    return float(scorer.values(statistics.sum(0, keepdims=True))[0])


def format_gain(gain: float | None, seed_gains: Sequence[float] = ()) -> str:
    """A gain with its sign; in brackets those of several seeds."""
    if gain is None:
        return ""
    of_seeds = f" ({', '.join(map(format_gain, seed_gains))})" if len(seed_gains) > 1 else ""
    return f"{gain:+.2f}{of_seeds}"


def build_awareness_tables(table: PaperTables, results: Sequence[ScoredRun], scale: ScaleName) -> list[AwarenessTable]:
    """A table for each group, test set and score for which at least one run was scored with wrong images too."""
    tables = []
    for name, group in table.groups.items():
        runs = runs_by_system(name, group, results, scale)
        for test in group.shuffle_images:
            tested = {
                system: [run for run in own if test in run.tests and run.tests[test].result.shuffled]
                for system, own in runs.items()
            }
            tested = {system: own for system, own in tested.items() if own}
            shuffled = [one for run in all_runs(tested) if (one := run.tests[test].result.shuffled)]
            for metric in dict.fromkeys(metric for one in shuffled for metric in one.scores):
                rows = tuple(awareness_row(system, own, test, metric) for system, own in tested.items())
                tables.append(AwarenessTable(name, group.data_at(scale), test, metric, shuffled[0].lines, rows))
    return tables


def awareness_row(system: str, runs: Sequence[ScoredRun], test: str, metric: str) -> AwarenessRow:
    """The row of a system. All its runs were scored with wrong images."""
    results = [run.tests[test].result for run in runs]
    shuffled = [result.shuffled for result in results if result.shuffled]
    (scorer,) = select_metrics([metric], results[0].reading)
    statistics = {
        "shuffled": [parse_statistics(one.statistics[metric]) for one in shuffled],
        "right": [run.tests[test].statistics[metric] for run in runs],
    }
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
