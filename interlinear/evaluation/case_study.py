"""The sentences in which systems differ most, side by side: what `compare --cases` shows."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from interlinear.evaluation.test_sets import TestSet
from seq2seq.errors import UsageError

if TYPE_CHECKING:
    from seq2seq.metrics.metric import Metric, Statistics, SystemOutputs


@dataclass(frozen=True)
class Case:
    """One sentence as the baseline and another system have it.

    line: from 1. gain: by how much the baseline's score would be better with the other's output for this sentence.
    texts: what is translated, by field.
    """

    line: int
    gain: float
    texts: Mapping[str, str]
    references: tuple[str, ...]
    baseline: str
    output: str


def ranking_metric(metrics: "Sequence[Metric]") -> "Metric":
    """The first score that says which of two outputs is better. Raises CallError where none does."""
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
    """By system, `count` sentences with which it gains most on the first one, then as many with which it loses most;
    fewer where there are no more. systems: what each wrote, and its statistics by that score."""
    from seq2seq.metrics.significance import sentence_effects

    (_, (own, before)), *others = systems.items()
    found = {}
    for name, (other, after) in others:
        sign = -1 if metric.better == "lower" else 1
        gains = (sign * sentence_effects(metric, before, after)).tolist()
        found[name] = [
            Case(
                row + 1,
                gains[row],
                {field: lines[row] for field, lines in test_set.texts.items()},
                tuple(lines[row] for lines in test_set.references),
                own.hypotheses[row],
                other.hypotheses[row],
            )
            for row in extreme_rows(gains, count)
        ]
    return found


def extreme_rows(gains: Sequence[float], count: int) -> list[int]:
    """The rows that gain most, the largest first, and those that lose most, the worst last."""
    from seq2seq.metrics.significance import EQUAL

    in_order = sorted(range(len(gains)), key=lambda row: -gains[row])
    most = [row for row in in_order if gains[row] > EQUAL][:count]
    least = [row for row in in_order if gains[row] < -EQUAL][-count:]
    return most + least


def format_cases(baseline: str, cases: Mapping[str, Sequence[Case]], score: str) -> Iterator[str]:
    """Each case as lines with their labels."""
    for system, own in cases.items():
        for case in own:
            rows = [*case.texts.items()]
            rows += [("reference", reference) for reference in case.references]
            rows += [(baseline, case.baseline), (system, case.output)]
            width = max(len(label) for label, _ in rows)
            title = f"line {case.line}: {case.gain:+.3f} {score} by {system}"
            yield "\n".join([title, *(f"  {label.ljust(width)}  {text}" for label, text in rows)])
