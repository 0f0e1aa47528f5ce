"""`interlinear evaluate`: scores a model on a data set's split, or on a source file and its references."""

import json
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from interlinear.console import say
from interlinear.decoding.alignment import check_symmetrized, load_reverse
from interlinear.decoding.images import ImageFolder, ImageNames
from interlinear.decoding.search_options import BeamSize, LengthPenalty, MaxLength, SearchOverrides
from interlinear.decoding.translation import MT
from interlinear.evaluation.evaluation_report import format_score, logged_values, score_records
from interlinear.evaluation.scoring import (
    SYSTEM_HELP,
    ImageAwareness,
    MetricNames,
    ScoringRun,
    System,
    image_awareness,
    is_output_file,
    load_system,
    needs_alignments,
    needs_outputs,
    select_metrics,
)
from interlinear.evaluation.test_sets import TEST, UNEDITED, TestSetSource
from interlinear.options import (
    PRECISION_HELP,
    AlignedBy,
    DataName,
    DataRoot,
    Json,
    Lowercase,
    MtFile,
    PrecisionChoice,
    ReferenceFiles,
    Reverse,
    SourceFile,
    Split,
    Symmetrize,
    TokenisedFiles,
    Tokenize,
    Tracking,
)
from seq2seq.errors import UsageError

if TYPE_CHECKING:
    from seq2seq.metrics.score import Score

SystemName = Annotated[
    str,
    typer.Argument(
        metavar="MODEL",
        show_default=False,
        help=f"{SYSTEM_HELP[0].upper()}{SYSTEM_HELP[1:]}. Models separated by commas form an ensemble.",
    ),
]


def evaluate(
    model: SystemName,
    data: DataName = None,
    split: Split = None,
    source: SourceFile = None,
    reference: ReferenceFiles = None,
    mt: MtFile = None,
    image_dir: ImageFolder = None,
    images: ImageNames = None,
    no_images: Annotated[bool, typer.Option("--no-images", help="Ignore the pictures.")] = False,
    shuffle_images: Annotated[
        bool,
        typer.Option("--shuffle-images", help="Also score with the pictures shuffled between lines (Elliott 2018)."),
    ] = False,
    seed: Annotated[
        int | None,
        typer.Option(min=0, metavar="N", show_default=False, help="Random seed of --shuffle-images; else 1."),
    ] = None,
    tokenised: TokenisedFiles = False,
    metrics: MetricNames = None,
    tokenize: Tokenize = None,
    lowercase: Lowercase = None,
    by: AlignedBy = None,
    reverse: Reverse = None,
    symmetrize: Symmetrize = None,
    beam_size: BeamSize = None,
    length_penalty: LengthPenalty = None,
    max_length: MaxLength = None,
    output: Annotated[
        Path | None,
        typer.Option(dir_okay=False, metavar="FILE", show_default=False, help="Write the translations to this file."),
    ] = None,
    log: Annotated[
        bool, typer.Option("--log", help="Log the scores to MLflow, in a run nested in the training run.")
    ] = False,
    as_json: Json = False,
    data_root: DataRoot = None,
    device: Annotated[
        str | None, typer.Option(metavar="DEVICE", show_default=False, help="cpu, cuda or cuda:N; else cpu.")
    ] = None,
    precision: Annotated[
        PrecisionChoice | None, typer.Option("--precision", show_default=False, help=f"{PRECISION_HELP} Else fp32.")
    ] = None,
    tracking: Tracking = None,
) -> None:
    """Score a model, or a file with a model's outputs: BLEU, ROUGE, alignment error rate and others, with signatures.

    Raw text is scored as it is written, after detokenisation; tokenised text, as its data set or --tokenised states, as
    tokens. Scores for which the data lacks something are left out, with the reason. For post-editing, the scores of the
    unedited machine translations are printed beside the model's. With --shuffle-images the score with wrong pictures is
    printed too, and the difference that the right ones make (image awareness).
    """
    alignments = needs_alignments(metrics, by)
    check_symmetrized(reverse, symmetrize)
    if reverse and not alignments:
        raise UsageError("--reverse", "no score of alignments is asked for", "ask for them: --metrics alignment")
    if seed is not None and not shuffle_images:
        raise UsageError("--seed", "nothing is drawn at random", "give --shuffle-images, or leave it out")
    if shuffle_images and no_images:
        raise UsageError("--shuffle-images", "--no-images leaves none to be shuffled", "leave one of them out")
    if log and (is_output_file(model) or ("," in model and not Path(model).exists())):
        raise UsageError("--log", f"{model} is not a model that one run has trained", "leave it out")
    search_only: dict[str, object] = {
        "--beam-size": beam_size,
        "--length-penalty": length_penalty,
        "--max-length": max_length,
    }
    no_search = "" if output or needs_outputs(select_metrics(metrics)) else "scores of alignments need no search"
    if is_output_file(model):
        search_only |= {
            "--by": by,
            "--reverse": reverse,
            "--output": output,
            "--device": device,
            "--precision": precision,
        }
        search_only |= {"--no-images": no_images or None, "--shuffle-images": shuffle_images or None}
        description = "the machine translations" if model == UNEDITED else "a file with outputs"
        no_search = f"{model} is {description}: nothing is searched for"
    for name, value in search_only.items():
        if no_search and value is not None:
            raise UsageError(name, no_search, "leave it out")
    if output and not output.parent.is_dir():
        raise UsageError("--output", f"there is no folder {output.parent}", "make it, or name another file")
    training = None
    if log:
        from registry.evaluations import find_training

        training = find_training(model, tracking)
    system = load_system(model, tracking, device or "cpu", precision or "fp32", beam_size)
    if reverse and system.generation:
        backward = load_reverse(reverse, system.generation.bundle.card, device or "cpu", tracking)
        system = replace(system, backward=backward, symmetrization=symmetrize)
    test_set_source = TestSetSource(
        data, split, source, reference or [], data_root, mt, image_dir, images, no_images, tokenised
    )
    scoring = ScoringRun.of({model: system}, test_set_source, metrics, tokenize, lowercase, by)
    test_set, answers, selected = scoring.test_set, scoring.answers, scoring.metrics
    shuffled_set = test_set.shuffle_images(seed or 1) if shuffle_images else None
    options = None
    if system.generation:
        options = SearchOverrides(beam_size, length_penalty, max_length=max_length).apply_to(
            system.generation.bundle.card.search
        )
    search = output is not None or needs_outputs(selected)
    outputs = system.outputs(test_set, options, by, search=search)
    if output:
        output.write_text("".join(f"{line}\n" for line in outputs.hypotheses), encoding="utf-8")
    scores = {metric.name: metric.score(outputs, answers) for metric in selected}
    unedited_scores: dict[str, Score] = {}
    if MT in test_set.texts and model != UNEDITED:
        unedited = System(UNEDITED, None).outputs(test_set)
        unedited_scores = {metric.name: metric.score(unedited, answers) for metric in selected}
    awareness_by_metric: dict[str, ImageAwareness] = {}
    if shuffled_set is not None:
        shuffled = system.outputs(shuffled_set, options, by, "with other pictures", search)
        awareness_by_metric = {metric.name: image_awareness(metric, outputs, shuffled, answers) for metric in selected}
    if training:
        from registry.evaluations import Evaluation, log_evaluation

        logged_options: dict[str, object] = {"by": by, "reverse": reverse, "symmetrize": symmetrize}
        logged_options |= {"no_images": no_images or None, "shuffled_by": (seed or 1) if shuffle_images else None}
        settings = {key: str(value) for key, value in logged_options.items() if value is not None}
        settings |= {f"search.{key}": str(value) for key, value in options or () if value is not None}
        values = logged_values(scores, unedited_scores, awareness_by_metric)
        signatures = {name: score.signature for name, score in scores.items()}
        evaluation = Evaluation(
            test_set.name, split or TEST, test_set.sha256, test_set.rows, values, signatures, settings
        )
        say(f"the scores are logged at {log_evaluation(training, evaluation)}")
    if as_json:
        record: dict[str, object] = score_records(scores)
        if unedited_scores:
            record[UNEDITED] = score_records(unedited_scores)
        if shuffled_set is not None:
            record["shuffled_images"] = {
                "seed": seed or 1,
                "lines": shuffled_set.lines_with_image,
                "scores": {name: asdict(awareness) for name, awareness in awareness_by_metric.items()},
            }
        print(json.dumps(record | ({"left_out": scoring.left_out} if scoring.left_out else {})))
        return
    for name, score in scores.items():
        unedited_note = f" (unedited: {format_score(unedited_scores[name])})" if unedited_scores else ""
        print(f"{name.upper()} {format_score(score)}{unedited_note}\n{score.signature}")
        if shuffled_set is not None:
            print(
                f"{awareness_by_metric[name]}, seed {seed or 1}, "
                f"{shuffled_set.lines_with_image} of {shuffled_set.rows} lines have a picture"
            )
