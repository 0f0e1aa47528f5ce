"""Compares the scores of systems by significance tests, and prints the results as a table."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from seq2seq.metrics.metric import Metric, Statistics
    from seq2seq.metrics.significance import Comparison, SystemResult, Test


def compare_systems(
    statistics: "Mapping[Metric, Mapping[str, Sequence[Statistics]]]",
    signatures: "Mapping[Metric, str]",
    samples: int,
    correction: Literal["holm", "bonferroni"] | None,
) -> "dict[str, dict[Test, Comparison]]":
    """The comparison by every test, by metric name. statistics: for each metric, by system, those of its runs.
    samples: as in --samples."""
    from seq2seq.metrics.significance import TESTS, compare, correct_p_values

    comparisons_by_metric: dict[str, dict[Test, Comparison]] = {metric.name: {} for metric in statistics}
    for test in TESTS:
        comparisons = [compare(metric, own, test, signatures[metric], samples) for metric, own in statistics.items()]
        for metric, comparison in zip(statistics, correct_p_values(comparisons, correction), strict=True):
            comparisons_by_metric[metric.name][test] = comparison
    return comparisons_by_metric


def format_table(metric: str, comparisons: "Mapping[Test, Comparison]") -> str:
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


def format_p_value(compared: "SystemResult") -> str:
    """The p-value, corrected if there is a correction."""
    p_value = compared.p_value if compared.corrected is None else compared.corrected
    if p_value is None:
        return "baseline"
    return f"{p_value:.4f}" if p_value >= 0.0001 else "< 0.0001"
