"""`interlinear evaluate`: scores a model on a data set's split, or on a source file and its references."""

import json

from interlinear.cli.console import say
from interlinear.cli.evaluation.evaluation_options import EvaluationOptions
from interlinear.cli.options import Json, option_groups


@option_groups
def evaluate(options: EvaluationOptions, as_json: Json = False) -> None:
    """Score a model, or a file with a model's outputs: BLEU, ROUGE, alignment error rate and others, with signatures.

    Raw text is scored as it is written, after detokenisation; tokenised text, as its data set or --tokenised states, as
    tokens. Scores for which the data lacks something are left out, with the reason. For post-editing, the scores of the
    unedited machine translations are printed beside the model's. With --shuffle-images the score with wrong pictures is
    printed too, and the difference that the right ones make (image awareness).
    """
    from interlinear.cli.evaluation.evaluation_report import as_evaluation, as_record, as_text
    from interlinear.cli.evaluation.evaluation_run import check_options, evaluate_system

    check_options(options)
    if options.log:
        from interlinear.registry.evaluations import find_training, log_evaluation

        training = find_training(options.model, options.tracking)  # reports a model without a run before the search
    result = evaluate_system(options)
    if options.log:
        say(f"the scores are logged at {log_evaluation(training, as_evaluation(result))}")
    print(json.dumps(as_record(result)) if as_json else as_text(result))
