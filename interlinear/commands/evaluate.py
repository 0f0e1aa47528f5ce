"""`interlinear evaluate`: scores a model on a data set's split, or on a source file and its references."""

import json
from pathlib import Path
from typing import Annotated

import typer

from interlinear.console import say
from interlinear.decoding.search_options import SearchOverrides
from interlinear.options import (
    PRECISION_HELP,
    SYSTEM_HELP,
    AlignedBy,
    Json,
    Lowercase,
    MetricNames,
    PrecisionChoice,
    Reverse,
    Symmetrize,
    TestSetSource,
    Tokenize,
    Tracking,
    UseShortlist,
    option_groups,
)

SystemName = Annotated[
    str,
    typer.Argument(
        metavar="MODEL",
        show_default=False,
        help=f"{SYSTEM_HELP[0].upper()}{SYSTEM_HELP[1:]}. Models separated by commas form an ensemble.",
    ),
]


@option_groups
def evaluate(
    model: SystemName,
    test_set_source: TestSetSource = TestSetSource(),
    shuffle_images: Annotated[
        bool,
        typer.Option("--shuffle-images", help="Also score with the pictures shuffled between lines (Elliott 2018)."),
    ] = False,
    seed: Annotated[
        int | None,
        typer.Option(min=0, metavar="N", show_default=False, help="Random seed of --shuffle-images; else 1."),
    ] = None,
    metrics: MetricNames = None,
    tokenize: Tokenize = None,
    lowercase: Lowercase = None,
    by: AlignedBy = None,
    reverse: Reverse = None,
    symmetrize: Symmetrize = None,
    search: Annotated[
        SearchOverrides,
        "beam_size",
        "length_penalty",
        "max_length",
        "post_editing_penalty",
        "post_editing_confidence",
    ] = SearchOverrides(),
    confidence_curve: Annotated[
        bool,
        typer.Option(
            "--confidence-curve",
            help="Also score with every --post-editing-confidence from 0 to 1, from one search, and name the best.",
        ),
    ] = False,
    output: Annotated[
        Path | None,
        typer.Option(dir_okay=False, metavar="FILE", show_default=False, help="Write the translations to this file."),
    ] = None,
    log: Annotated[
        bool, typer.Option("--log", help="Log the scores to MLflow, in a run nested in the training run.")
    ] = False,
    as_json: Json = False,
    device: Annotated[
        str | None, typer.Option(metavar="DEVICE", show_default=False, help="cpu, cuda or cuda:N; else cpu.")
    ] = None,
    precision: Annotated[
        PrecisionChoice | None, typer.Option("--precision", show_default=False, help=f"{PRECISION_HELP} Else fp32.")
    ] = None,
    use_shortlist: UseShortlist = False,
    tracking: Tracking = None,
) -> None:
    """Score a model, or a file with a model's outputs: BLEU, ROUGE, alignment error rate and others, with signatures.

    Raw text is scored as it is written, after detokenisation; tokenised text, as its data set or --tokenised states, as
    tokens. Scores for which the data lacks something are left out, with the reason. For post-editing, the scores of the
    unedited machine translations are printed beside the model's. With --shuffle-images the score with wrong pictures is
    printed too, and the difference that the right ones make (image awareness).
    """
    from interlinear.evaluation.evaluation_options import EvaluationOptions
    from interlinear.evaluation.evaluation_report import as_evaluation, as_record, as_text
    from interlinear.evaluation.evaluation_run import evaluate_system

    options = EvaluationOptions(
        model=model,
        test_set_source=test_set_source,
        metrics=metrics,
        tokenize=tokenize,
        lowercase=lowercase,
        by=by,
        reverse=reverse,
        symmetrize=symmetrize,
        search=search,
        shuffle_images=shuffle_images,
        seed=seed,
        confidence_curve=confidence_curve,
        output=output,
        log=log,
        device=device,
        precision=precision,
        shortlist=use_shortlist,
        tracking=tracking,
    )
    options.check()
    if log:
        from registry.evaluations import find_training, log_evaluation

        training = find_training(model, tracking)  # reports a model without a run before the search
    result = evaluate_system(options)
    if log:
        say(f"the scores are logged at {log_evaluation(training, as_evaluation(result))}")
    print(json.dumps(as_record(result)) if as_json else as_text(result))
