"""The gate of `promote`: whether a version is better than the one that has its place, on a test set, by more than
chance."""

import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from interlinear.evaluation.scoring import load_system, needs_alignments, needs_outputs, select_metrics
from interlinear.evaluation.test_sets import TestSetSource
from seq2seq.errors import UsageError

if TYPE_CHECKING:
    from seq2seq.metrics.metric import Metric
    from seq2seq.metrics.significance import Test

SIGNIFICANCE_LEVEL = 0.05  # that a difference as large is none: less is better
DECIDING_TEST: "Test" = "randomisation"  # the test that counts differences to both sides; the others are said beside it
METRIC_BY_TASK = {"summarization": "rouge-l"}  # the score that decides, where it is not BLEU


@dataclass(frozen=True)
class PromotionResult:
    """Two scores on the same sentences, and how likely such a difference is between equals, by each test's name."""

    metric: str
    test_set: str
    candidate: float
    current: float
    lower_is_better: bool
    p_values: "dict[Test, float]"
    signature: str

    @property
    def better(self) -> bool:
        above = self.candidate < self.current if self.lower_is_better else self.candidate > self.current
        return above and self.p_values[DECIDING_TEST] < SIGNIFICANCE_LEVEL

    def __str__(self) -> str:
        chances = ", ".join(f"{test} {value:.4f}" for test, value in self.p_values.items())
        scores = f"{self.metric.upper()} {self.candidate:.2f} against {self.current:.2f}"
        return f"{scores} on {self.test_set} (p {chances})"


def compare_for_promotion(
    candidate: str,
    current: str,
    on: str,
    metric: str | None = None,
    data_root: Path | None = None,
    tracking: str | None = None,
    device: str = "cpu",
) -> PromotionResult:
    """Score two models on DATASET[:SPLIT] as `compare` does. Raises as it does, and CallError for several metrics."""
    from seq2seq.metrics.metric import SystemOutputs
    from seq2seq.metrics.significance import TESTS, compare

    data, split = parse_dataset_split(on)
    place = TestSetSource(data, split, None, [], data_root)
    systems = {model: load_system(model, tracking, device) for model in (current, candidate)}
    test_set = place.read([*systems.values()], needs_alignments(metric, None))
    answers, reading = test_set.answers(), test_set.reading(None, None)
    by = single_metric(select_metrics(metric or METRIC_BY_TASK.get(test_set.task or "", "bleu"), None, reading))
    if problem := by.missing_requirement(answers):
        raise UsageError(f"--metric {by.name}", f"it cannot be reckoned here: {problem}", "decide by another score")
    search = needs_outputs([by])
    outputs = {model: system.outputs(test_set, label=model, search=search) for model, system in systems.items()}
    statistics = {model: [by.statistics(own, answers)] for model, own in outputs.items()}
    signature = by.signature(SystemOutputs.concatenate(outputs.values()), answers)
    compared = {test: compare(by, statistics, test, signature) for test in TESTS}
    before, after = compared[DECIDING_TEST].systems
    p_values = {test: found.systems[1].p_value for test, found in compared.items()}
    return PromotionResult(
        metric=by.name,
        test_set=test_set.name,
        candidate=after.score,
        current=before.score,
        lower_is_better=by.better == "lower",
        p_values={test: 1.0 if value is None else value for test, value in p_values.items()},
        signature=compared[DECIDING_TEST].signature,
    )


def parse_dataset_split(on: str) -> tuple[str, str]:
    """DATASET[:SPLIT] as a data set and its split."""
    match = re.fullmatch(r"(.+):([^:/\\]+)", on)
    return (match[1], match[2]) if match else (on, "test")


def single_metric(metrics: "tuple[Metric, ...]") -> "Metric":
    if len(metrics) != 1:
        names = ", ".join(metric.name for metric in metrics)
        raise UsageError("--metric", f"one score decides, and these are {names}", "name one of them")
    return metrics[0]
