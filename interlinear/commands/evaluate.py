"""`interlinear evaluate`: what a model scores on a data set's split, or on a source file and its reference."""

import json
from collections.abc import Mapping
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from interlinear.commands.align import AlignedBy, Reverse, Symmetrize, check_symmetrized, load_reverse
from interlinear.console import say
from interlinear.decoding.images import ImageFolder, ImageNames
from interlinear.decoding.search_options import BeamSize, LengthPenalty, MaxLength, SearchOverrides
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
from interlinear.evaluation.test_sets import (
    MT,
    TEST,
    UNEDITED,
    Lowercase,
    MtFile,
    ReferenceFiles,
    SourceFile,
    Split,
    TestSetSource,
    TokenisedFiles,
    Tokenize,
)
from interlinear.options import PRECISION_HELP, DataName, DataRoot, Json, PrecisionChoice, Tracking
from seq2seq.errors import UsageError

if TYPE_CHECKING:
    from seq2seq.metrics.score import Score

SystemName = Annotated[
    str,
    typer.Argument(
        metavar="MODEL",
        show_default=False,
        help=f"{SYSTEM_HELP[0].upper()}{SYSTEM_HELP[1:]}. Models with commas between them are an ensemble.",
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
    no_images: Annotated[bool, typer.Option("--no-images", help="Show the model no pictures.")] = False,
    shuffle_images: Annotated[
        bool, typer.Option("--shuffle-images", help="Score it with every picture at another line too (Elliott 2018).")
    ] = False,
    seed: Annotated[
        int | None, typer.Option(min=0, metavar="N", show_default=False, help="Of --shuffle-images; else 1.")
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
        typer.Option(dir_okay=False, metavar="FILE", show_default=False, help="Keep the translations there."),
    ] = None,
    log: Annotated[
        bool, typer.Option("--log", help="Log the scores to MLflow, nested in the run that trained the model.")
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

    Raw text is scored as it is written, after detokenisation; text that is tokenised, as its data set or --tokenised
    says, as tokens. Scores that the data has no means for are left out, with the reason. Where machine translations are
    edited, their own scores are printed beside. With --shuffle-images the score with wrong pictures is printed too, and
    what right ones are worth: how far the model is aware of them.
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
        what = "the machine translations" if model == UNEDITED else "a file with outputs"
        no_search = f"{model} is {what}: nothing is searched for"
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
    place = TestSetSource(data, split, source, reference or [], data_root, mt, image_dir, images, no_images, tokenised)
    scoring = ScoringRun.of({model: system}, place, metrics, tokenize, lowercase, by)
    test_set, answers, chosen = scoring.test_set, scoring.answers, scoring.metrics
    wrong = test_set.shuffle_images(seed or 1) if shuffle_images else None
    options = None
    if system.generation:
        options = SearchOverrides(beam_size, length_penalty, max_length=max_length).apply_to(
            system.generation.bundle.card.search
        )
    search = output is not None or needs_outputs(chosen)
    outputs = system.outputs(test_set, options, by, search=search)
    if output:
        output.write_text("".join(f"{line}\n" for line in outputs.hypotheses), encoding="utf-8")
    scores = {metric.name: metric.score(outputs, answers) for metric in chosen}
    before: dict[str, Score] = {}
    if MT in test_set.texts and model != UNEDITED:
        unedited = System(UNEDITED, None).outputs(test_set)
        before = {metric.name: metric.score(unedited, answers) for metric in chosen}
    awareness_by_metric: dict[str, ImageAwareness] = {}
    if wrong is not None:
        shuffled = system.outputs(wrong, options, by, "with other pictures", search)
        awareness_by_metric = {metric.name: image_awareness(metric, outputs, shuffled, answers) for metric in chosen}
    if training:
        from registry.evaluations import Evaluation, log_evaluation

        logged_options: dict[str, object] = {"by": by, "reverse": reverse, "symmetrize": symmetrize}
        logged_options |= {"no_images": no_images or None, "shuffled_by": (seed or 1) if shuffle_images else None}
        settings = {key: str(value) for key, value in logged_options.items() if value is not None}
        settings |= {f"search.{key}": str(value) for key, value in options or () if value is not None}
        values = logged_values(scores, before, awareness_by_metric)
        signatures = {name: score.signature for name, score in scores.items()}
        evaluation = Evaluation(
            test_set.name, split or TEST, test_set.sha256, test_set.rows, values, signatures, settings
        )
        say(f"the scores are logged at {log_evaluation(training, evaluation)}")
    if as_json:
        found: dict[str, object] = score_records(scores)
        if before:
            found[UNEDITED] = score_records(before)
        if wrong is not None:
            found["shuffled_images"] = {
                "seed": seed or 1,
                "lines": wrong.lines_with_image,
                "scores": {name: asdict(one) for name, one in awareness_by_metric.items()},
            }
        print(json.dumps(found | ({"left_out": scoring.left_out} if scoring.left_out else {})))
        return
    for name, score in scores.items():
        beside = f" (unedited: {format_score(before[name])})" if before else ""
        print(f"{name.upper()} {format_score(score)}{beside}\n{score.signature}")
        if wrong is not None:
            print(
                f"{awareness_by_metric[name]}, seed {seed or 1}, {wrong.lines_with_image} of {wrong.rows} lines have a picture"
            )


def logged_values(
    scores: "Mapping[str, Score]", unedited: "Mapping[str, Score]", shuffled: Mapping[str, ImageAwareness]
) -> dict[str, float]:
    """All that was scored: the model, the machine translations that it edited, and it with wrong pictures."""
    return (
        {name: score.score for name, score in scores.items()}
        | {f"{UNEDITED}/{name}": score.score for name, score in unedited.items()}
        | {f"shuffled/{name}": one.score for name, one in shuffled.items()}
        | {f"awareness/{name}": one.awareness for name, one in shuffled.items()}
    )


def score_records(scores: "Mapping[str, Score]") -> dict[str, object]:
    """Scores as JSON has them."""
    return {name: score.model_dump() for name, score in scores.items()}


def format_score(score: "Score") -> str:
    """The number, and its interval where it has one."""
    from seq2seq.metrics.score import IntervalScore

    if not isinstance(score, IntervalScore):
        return f"{score.score:.2f}"
    return f"{score.score:.2f}, 95 % interval {score.low:.2f} to {score.high:.2f} (ROUGE-1.5.5 prints {score.mean:.2f})"
