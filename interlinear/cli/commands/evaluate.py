"""The commands that evaluate, each by what it scores: a model's outputs, outputs in a file, or a model's alignments."""

import json
from collections.abc import Callable
from typing import TYPE_CHECKING

from interlinear.cli.console import say
from interlinear.cli.evaluation.evaluation_options import (
    AlignmentEvaluationOptions,
    EvaluationOptions,
    OutputEvaluationOptions,
)
from interlinear.cli.options import Json

if TYPE_CHECKING:
    from interlinear.cli.evaluation.evaluation_run import EvaluationResult


def evaluate(options: EvaluationOptions, as_json: Json = False) -> None:
    """Score the outputs of a model: BLEU, ROUGE, HTER and others, with signatures.

    Raw text is scored as it is written, after detokenisation; tokenised text, as its data set or --tokenised states, as
    tokens. Scores for which the data lacks something are left out, with the reason. For post-editing, the scores of the
    unedited machine translations are printed beside the model's. With --shuffle-images the score with wrong pictures is
    printed too, and the difference that the right ones make (image awareness).
    """
    from interlinear.cli.evaluation.evaluation_run import check_options, evaluate_model

    check_options(options)
    report(options.model, lambda: evaluate_model(options), options.log, options.tracking, as_json)


def evaluate_outputs(options: OutputEvaluationOptions, as_json: Json = False) -> None:
    """Score outputs in a file, one a line, as `evaluate` scores those of a model."""
    from interlinear.cli.evaluation.evaluation_run import evaluate_file

    report(options.outputs, lambda: evaluate_file(options), False, None, as_json)


def evaluate_alignments(options: AlignmentEvaluationOptions, as_json: Json = False) -> None:
    """Score the word alignments of a model by the gold alignments of a data set: alignment error rate and others.

    Words are aligned by forced decoding, as `align` does it; --by, --reverse and --symmetrize are as there.
    """
    from interlinear.cli.decoding.alignment import check_symmetrized
    from interlinear.cli.evaluation.evaluation_run import score_alignments

    check_symmetrized(options.reverse, options.symmetrize)
    report(options.model, lambda: score_alignments(options), options.log, options.tracking, as_json)


def report(
    name: str, evaluated: Callable[[], "EvaluationResult"], log: bool, tracking: str | None, as_json: bool
) -> None:
    """Print the scores, and log them, in the run of the model that has this name."""
    from interlinear.cli.evaluation.evaluation_report import as_evaluation, as_record, as_text

    if log:
        from interlinear.registry.evaluations import find_training, log_evaluation

        training = find_training(name, tracking)  # reports a model without a run before the search
    result = evaluated()
    if log:
        say(f"the scores are logged at {log_evaluation(training, as_evaluation(result))}")
    print(json.dumps(as_record(result)) if as_json else as_text(result))
