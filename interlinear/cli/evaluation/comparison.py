"""Compares the scores of systems by significance tests, and prints the results as a table."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from interlinear.cli.evaluation.test_sets import TestSet
from interlinear.errors import UsageError
from interlinear.metrics.catalogue import ALIGNMENT
from interlinear.metrics.metric import Metric, Statistics, SystemOutputs
from interlinear.metrics.significance import (
    EQUAL,
    TESTS,
    Comparison,
    SystemResult,
    Test,
    compare,
    correct_p_values,
    sentence_effects,
)


def compare_systems(
    statistics: Mapping[Metric, Mapping[str, Sequence[Statistics]]],
    signatures: Mapping[Metric, str],
    samples: int,
    correction: Literal["holm", "bonferroni"] | None,
) -> dict[str, dict[Test, Comparison]]:
    """The comparison by every test, by metric name. statistics: for each metric, by system, the statistics of its runs.
    samples: as in --samples."""
    comparisons_by_metric: dict[str, dict[Test, Comparison]] = {metric.name: {} for metric in statistics}
    for test in TESTS:
        comparisons = [compare(metric, own, test, signatures[metric], samples) for metric, own in statistics.items()]
        for metric, comparison in zip(statistics, correct_p_values(comparisons, correction), strict=True):
            comparisons_by_metric[metric.name][test] = comparison
    return comparisons_by_metric


def format_table(metric: str, comparisons: Mapping[Test, Comparison]) -> str:
    """A table of one metric with a line for every system, followed by the scores of the runs, where a system has
    several, and by the tests' signatures."""
    bootstrap = comparisons["bootstrap"].systems
    width = max(len(result.system) for result in bootstrap)
    names = "".join(f"  {f'p {test.upper()}':>15}" for test in comparisons)
    score_width = max(8, len(metric))
    lines = [f"{'MODEL'.ljust(width)}  {metric.upper():>{score_width}}     95 % INTERVAL{names}"]
    for result, *test_results in zip(
        bootstrap, *(comparison.systems for comparison in comparisons.values()), strict=True
    ):
        interval = f"{result.mean:.2f} ± {result.interval:.2f}"
        p_values = "".join(f"  {format_p_value(test_result):>15}" for test_result in test_results)
        lines.append(f"{result.system.ljust(width)}  {result.score:>{score_width}.2f}  {interval:>16}{p_values}")
    lines += [
        f"{'runs:':<14} {result.system}: {', '.join(f'{score:.2f}' for score in result.runs)}"
        for result in bootstrap
        if len(result.runs) > 1
    ]
    return "\n".join(
        [*lines, *(f"{test + ':':<14} {comparison.signature}" for test, comparison in comparisons.items())]
    )


def format_p_value(compared: SystemResult) -> str:
    """The p-value, corrected if there is a correction."""
    p_value = compared.p_value if compared.corrected is None else compared.corrected
    if p_value is None:
        return "baseline"
    return f"{p_value:.4f}" if p_value >= 0.0001 else "< 0.0001"


@dataclass(frozen=True)
class Case:
    """One sentence with the outputs of the baseline and of another system.

    line: counted from 1. gain: improvement of the baseline's score if it had the other's output for this sentence.
    texts: the inputs, by field.
    """

    line: int
    gain: float
    texts: Mapping[str, str]
    references: tuple[str, ...]
    baseline: str
    output: str


def ranking_metric(metrics: Sequence[Metric]) -> Metric:
    """The first metric that has a better direction. Raises UsageError if there is none."""
    for metric in metrics:
        if metric.name not in ALIGNMENT and metric.better != "neither":
            return metric
    raise UsageError(
        "--cases", "no score that is asked for says which output is better", "ask for one that does: --metrics bleu"
    )


def find_cases(
    metric: Metric, systems: Mapping[str, tuple[SystemOutputs, Statistics]], test_set: TestSet, count: int
) -> dict[str, list[Case]]:
    """For each system but the first, the baseline: the `count` sentences with the largest gain, then the `count` with
    the largest loss, or fewer if there are no more. systems: the outputs of each, and its statistics for the metric."""
    (_, (baseline_outputs, baseline_statistics)), *others = systems.items()
    cases = {}
    for name, (outputs, statistics) in others:
        sign = -1 if metric.better == "lower" else 1
        gains = (sign * sentence_effects(metric, baseline_statistics, statistics)).tolist()
        cases[name] = [
            Case(
                row + 1,
                gains[row],
                {field: lines[row] for field, lines in test_set.texts.items()},
                tuple(lines[row] for lines in test_set.references),
                baseline_outputs.hypotheses[row],
                outputs.hypotheses[row],
            )
            for row in extreme_rows(gains, count)
        ]
    return cases


def extreme_rows(gains: Sequence[float], count: int) -> list[int]:
    """The rows with the largest gains, in descending order, then the rows with the largest losses, the worst last."""
    in_order = sorted(range(len(gains)), key=lambda row: -gains[row])
    most = [row for row in in_order if gains[row] > EQUAL][:count]
    least = [row for row in in_order if gains[row] < -EQUAL][-count:]
    return most + least


def format_cases(baseline: str, cases: Mapping[str, Sequence[Case]], score: str) -> Iterator[str]:
    """Each case as labelled lines."""
    for system, system_cases in cases.items():
        for case in system_cases:
            rows = [*case.texts.items()]
            rows += [("reference", reference) for reference in case.references]
            rows += [(baseline, case.baseline), (system, case.output)]
            width = max(len(label) for label, _ in rows)
            title = f"line {case.line}: {case.gain:+.3f} {score} by {system}"
            yield "\n".join([title, *(f"  {label.ljust(width)}  {text}" for label, text in rows)])
