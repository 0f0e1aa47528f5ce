"""Selects and prints the sentences in which systems differ most, for `compare --cases`."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from interlinear.evaluation.test_sets import TestSet
from seq2seq.errors import UsageError

if TYPE_CHECKING:
    from seq2seq.metrics.metric import Metric, Statistics, SystemOutputs


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


def ranking_metric(metrics: "Sequence[Metric]") -> "Metric":
    """The first metric that has a better direction. Raises UsageError if there is none."""
    from seq2seq.metrics.catalogue import ALIGNMENT

    for metric in metrics:
        if metric.name not in ALIGNMENT and metric.better != "neither":
            return metric
    raise UsageError(
        "--cases", "no score that is asked for says which output is better", "ask for one that does: --metrics bleu"
    )


def find_cases(
    metric: "Metric", systems: "Mapping[str, tuple[SystemOutputs, Statistics]]", test_set: TestSet, count: int
) -> dict[str, list[Case]]:
    """For each system but the first, the baseline: the `count` sentences with the largest gain, then the `count` with
    the largest loss, or fewer if there are no more. systems: the outputs of each, and its statistics for the metric."""
    from seq2seq.metrics.significance import sentence_effects

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
    """The rows with the largest gains, in descending order, then those with the largest losses, the worst last."""
    from seq2seq.metrics.significance import EQUAL

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
