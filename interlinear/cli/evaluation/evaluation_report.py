"""Scores of an evaluation in the forms for MLflow, for JSON and for the terminal."""

from collections.abc import Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING

from interlinear.cli.evaluation.evaluation_options import SHUFFLE_SEED
from interlinear.cli.evaluation.evaluation_run import ConfidenceCurve, EvaluationResult
from interlinear.cli.evaluation.test_sets import TEST, UNEDITED
from interlinear.metrics.score import IntervalScore, Score

if TYPE_CHECKING:
    from interlinear.registry.evaluations import Evaluation


def as_evaluation(result: EvaluationResult) -> "Evaluation":
    """The record for MLflow: scores, signatures, and the options that are set."""
    from interlinear.registry.evaluations import Evaluation  # only --log needs MLflow

    test_set, split = result.test_set, result.split or TEST
    settings = {key: str(value) for key, value in result.settings.items() if value is not None}
    signatures = {name: score.signature for name, score in result.scores.items()}
    return Evaluation(test_set.name, split, test_set.sha256, test_set.rows, logged_values(result), signatures, settings)


def logged_values(result: EvaluationResult) -> dict[str, float]:
    """All scores to log: the model's, the unedited machine translations', and the model's with shuffled images."""
    return (
        {name: score.score for name, score in result.scores.items()}
        | {f"{UNEDITED}/{name}": score.score for name, score in result.unedited.items()}
        | {f"shuffled/{name}": awareness.score for name, awareness in result.awareness.items()}
        | {f"awareness/{name}": awareness.awareness for name, awareness in result.awareness.items()}
    )


def as_record(result: EvaluationResult) -> dict[str, object]:
    """The scores in the form of the JSON output."""
    record: dict[str, object] = score_records(result.scores)
    if result.unedited:
        record[UNEDITED] = score_records(result.unedited)
    if result.awareness:
        record["shuffled_images"] = {
            "seed": SHUFFLE_SEED,
            "lines": result.test_set.lines_with_image,
            "scores": {name: asdict(awareness) for name, awareness in result.awareness.items()},
        }
    if result.confidence:
        record["confidence_curve"] = [asdict(point) for point in result.confidence.points]
        record["best_confidence"] = result.confidence.best.confidence
    return record | ({"left_out": result.left_out} if result.left_out else {})


def score_records(scores: Mapping[str, Score]) -> dict[str, object]:
    return {name: score.model_dump() for name, score in scores.items()}


def as_text(result: EvaluationResult) -> str:
    """Each score with its signature, and with the image awareness if images were shuffled."""
    lines = []
    for name, score in result.scores.items():
        unedited_note = f" (unedited: {format_score(result.unedited[name])})" if result.unedited else ""
        lines += [f"{name.upper()} {format_score(score)}{unedited_note}", score.signature]
        if result.awareness:
            test_set = result.test_set
            lines.append(
                f"{result.awareness[name]}, seed {SHUFFLE_SEED}, "
                f"{test_set.lines_with_image} of {test_set.rows} lines have a picture"
            )
    return "\n".join([*lines, *(curve_lines(result.confidence) if result.confidence else ())])


def curve_lines(curve: ConfidenceCurve) -> list[str]:
    """The scores at every confidence, and the best confidence as a recipe's setting."""
    names = list(curve.best.scores)
    rows = [["confidence", "edited", *(name.upper() for name in names)]]
    rows += [
        [f"{point.confidence:.2f}", str(point.edited), *(f"{point.scores[name]:.2f}" for name in names)]
        for point in curve.points
    ]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    table = ["  ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True)) for row in rows]
    best = curve.best
    setting = f"search.post_editing_confidence: {best.confidence:g}"
    return ["", *table, "", f"best {curve.metric.upper()} {best.scores[curve.metric]:.2f} with {setting}"]


def format_score(score: Score) -> str:
    """The score, with its interval if it has one."""
    if not isinstance(score, IntervalScore):
        return f"{score.score:.2f}"
    return f"{score.score:.2f}, 95 % interval {score.low:.2f} to {score.high:.2f} (ROUGE-1.5.5 prints {score.mean:.2f})"
