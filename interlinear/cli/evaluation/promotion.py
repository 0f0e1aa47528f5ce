"""Check of `promote --if-better-on`: whether a version is significantly better on a test set than the current one."""

from dataclasses import dataclass
from pathlib import Path

from interlinear.cli.evaluation.scoring import load_system, needs_alignments, needs_outputs, select_metrics
from interlinear.cli.evaluation.test_sets import parse_dataset_split, read_test_set
from interlinear.cli.options import TestSetSource
from interlinear.errors import UsageError
from interlinear.metrics.metric import Metric, SystemOutputs
from interlinear.metrics.significance import TESTS, Test, compare

SIGNIFICANCE_LEVEL = 0.05  # a candidate is promoted only if its p-value is below this
DECIDING_TEST: Test = "randomisation"  # two-sided; the other tests are only reported
METRIC_BY_TASK = {"summarization": "rouge-l"}  # deciding metric by task; BLEU for all others


@dataclass(frozen=True)
class PromotionResult:
    """Two scores on the same sentences, and the p-value of their difference by each test."""

    metric: str
    test_set: str
    candidate: float
    current: float
    lower_is_better: bool
    p_values: dict[Test, float]
    signature: str

    @property
    def better(self) -> bool:
        improved = self.candidate < self.current if self.lower_is_better else self.candidate > self.current
        return improved and self.p_values[DECIDING_TEST] < SIGNIFICANCE_LEVEL

    def __str__(self) -> str:
        p_values = ", ".join(f"{test} {value:.4f}" for test, value in self.p_values.items())
        scores = f"{self.metric.upper()} {self.candidate:.2f} against {self.current:.2f}"
        return f"{scores} on {self.test_set} (p {p_values})"


def compare_for_promotion(
    candidate: str,
    current: str,
    on: str,
    metric: str | None = None,
    data_root: Path | None = None,
    tracking: str | None = None,
    device: str = "cpu",
) -> PromotionResult:
    """Score two models on DATASET[:SPLIT] as `compare` does. Raises the same errors, and UsageError for several
    metrics."""
    data, split = parse_dataset_split(on)
    test_set_source = TestSetSource(data, split, None, [], data_root)
    systems = {model: load_system(model, tracking, device) for model in (current, candidate)}
    test_set = read_test_set(test_set_source, [*systems.values()], needs_alignments(metric))
    answers, reading = test_set.answers(), test_set.reading(None, None)
    deciding_metric = single_metric(
        select_metrics(metric or METRIC_BY_TASK.get(test_set.task or "", "bleu"), None, reading)
    )
    if problem := deciding_metric.missing_requirement(answers):
        raise UsageError(
            f"--metric {deciding_metric.name}", f"it cannot be computed here: {problem}", "decide by another score"
        )
    search = needs_outputs([deciding_metric])
    outputs = {model: system.outputs(test_set, label=model, search=search) for model, system in systems.items()}
    statistics = {
        model: [deciding_metric.statistics(model_outputs, answers)] for model, model_outputs in outputs.items()
    }
    signature = deciding_metric.signature(SystemOutputs.concatenate(outputs.values()), answers)
    compared = {test: compare(deciding_metric, statistics, test, signature) for test in TESTS}
    current_result, candidate_result = compared[DECIDING_TEST].systems
    p_values = {test: comparison.systems[1].p_value for test, comparison in compared.items()}
    return PromotionResult(
        metric=deciding_metric.name,
        test_set=test_set.name,
        candidate=candidate_result.score,
        current=current_result.score,
        lower_is_better=deciding_metric.better == "lower",
        p_values={test: 1.0 if value is None else value for test, value in p_values.items()},
        signature=compared[DECIDING_TEST].signature,
    )


def single_metric(metrics: tuple[Metric, ...]) -> Metric:
    if len(metrics) != 1:
        names = ", ".join(metric.name for metric in metrics)
        raise UsageError("--metric", f"one score decides, and these are {names}", "name one of them")
    return metrics[0]
