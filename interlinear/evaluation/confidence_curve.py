"""Scores of a post-editing model at every confidence below which machine translations stay unedited."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from interlinear.evaluation.test_sets import TestSet
from seq2seq.source_names import MT

if TYPE_CHECKING:
    from seq2seq.generation_request import Candidate
    from seq2seq.metrics.metric import Metric, ReferenceSet

STEPS = 20  # confidences are the multiples of 1 / 20


@dataclass(frozen=True)
class ConfidencePoint:
    """Scores at one confidence (`search.post_editing_confidence`). `edited`: lines with the model's own output."""

    confidence: float
    edited: int
    scores: Mapping[str, float]


@dataclass(frozen=True)
class ConfidenceCurve:
    """Scores at confidences from 0 to 1. `metric`: the one by which the best is chosen, HTER if it was computed."""

    points: Sequence[ConfidencePoint]
    metric: str
    lower_is_better: bool

    @property
    def best(self) -> ConfidencePoint:
        """The point with the best score; of equal ones that with the lowest confidence."""
        sign = -1 if self.lower_is_better else 1
        return max(self.points, key=lambda point: sign * point.scores[self.metric])


def confidence_curve(
    outputs: "Sequence[Candidate | None]", test_set: TestSet, metrics: "Sequence[Metric]", answers: "ReferenceSet"
) -> ConfidenceCurve:
    """The scores at every confidence, from the outputs of one search without any. None: a line that the model cannot
    read, whose output is empty."""
    from seq2seq.metrics.metric import SystemOutputs

    points = []
    for step in range(STEPS + 1):
        confidence = step / STEPS
        lines = [answer(*pair, confidence) for pair in zip(outputs, test_set.texts[MT], strict=True)]
        scored = SystemOutputs.from_lines([text for text, _ in lines])
        scores = {metric.name: metric.score(scored, answers).score for metric in metrics}
        points.append(ConfidencePoint(confidence, sum(edited for _, edited in lines), scores))
    decides = next((metric for metric in metrics if metric.name == "hter"), metrics[0])
    return ConfidenceCurve(points, decides.name, decides.better == "lower")


def answer(output: "Candidate | None", mt: str, confidence: float) -> tuple[str, bool]:
    """A line's answer at a confidence, and whether it is the model's own, as always without a machine translation."""
    if output is None:
        return "", False
    edited = not mt.strip() or output.mean_probability >= confidence
    return (output.text if edited else mt), edited
