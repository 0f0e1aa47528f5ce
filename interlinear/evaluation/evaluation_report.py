"""Scores of an evaluation in the forms for MLflow, for JSON and for the terminal."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

from interlinear.evaluation.scoring import ImageAwareness
from interlinear.evaluation.test_sets import UNEDITED

if TYPE_CHECKING:
    from seq2seq.metrics.score import Score


def logged_values(
    scores: "Mapping[str, Score]", unedited: "Mapping[str, Score]", shuffled: Mapping[str, ImageAwareness]
) -> dict[str, float]:
    """All scores to log: the model's, the unedited machine translations', and the model's with shuffled images."""
    return (
        {name: score.score for name, score in scores.items()}
        | {f"{UNEDITED}/{name}": score.score for name, score in unedited.items()}
        | {f"shuffled/{name}": awareness.score for name, awareness in shuffled.items()}
        | {f"awareness/{name}": awareness.awareness for name, awareness in shuffled.items()}
    )


def score_records(scores: "Mapping[str, Score]") -> dict[str, object]:
    """Scores in the form of the JSON output."""
    return {name: score.model_dump() for name, score in scores.items()}


def format_score(score: "Score") -> str:
    """The score, with its interval if it has one."""
    from seq2seq.metrics.score import IntervalScore

    if not isinstance(score, IntervalScore):
        return f"{score.score:.2f}"
    return f"{score.score:.2f}, 95 % interval {score.low:.2f} to {score.high:.2f} (ROUGE-1.5.5 prints {score.mean:.2f})"
