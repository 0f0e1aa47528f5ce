"""Scores one system on a test set, beside the unedited machine translations and with shuffled images."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from interlinear.cli.decoding.alignment import check_symmetrized, load_reverse
from interlinear.cli.evaluation.evaluation_options import EvaluationOptions
from interlinear.cli.evaluation.scoring import (
    ImageAwareness,
    ScoringRun,
    System,
    image_awareness,
    is_output_file,
    load_system,
    needs_alignments,
    needs_outputs,
    select_metrics,
)
from interlinear.cli.evaluation.test_sets import UNEDITED, TestSet
from interlinear.errors import UsageError
from interlinear.generation.request import Candidate
from interlinear.metrics.metric import Metric, ReferenceSet, SystemOutputs
from interlinear.metrics.score import Score
from interlinear.search import SearchOptions
from interlinear.source_names import MT

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
    outputs: Sequence[Candidate | None], test_set: TestSet, metrics: Sequence[Metric], answers: ReferenceSet
) -> ConfidenceCurve:
    """The scores at every confidence, from the outputs of one search without any. None: a line that the model cannot
    read, whose output is empty."""
    points = []
    for step in range(STEPS + 1):
        confidence = step / STEPS
        lines = [answer(*pair, confidence) for pair in zip(outputs, test_set.texts[MT], strict=True)]
        scored = SystemOutputs.from_lines([text for text, _ in lines])
        scores = {metric.name: metric.score(scored, answers).score for metric in metrics}
        points.append(ConfidencePoint(confidence, sum(edited for _, edited in lines), scores))
    decides = next((metric for metric in metrics if metric.name == "hter"), metrics[0])
    return ConfidenceCurve(points, decides.name, decides.better == "lower")


def answer(output: Candidate | None, mt: str, confidence: float) -> tuple[str, bool]:
    """A line's answer at a confidence, and whether it is the model's own, as always without a machine translation."""
    if output is None:
        return "", False
    edited = not mt.strip() or output.mean_probability >= confidence
    return (output.text if edited else mt), edited


@dataclass(frozen=True)
class EvaluationResult:
    """The scores of an evaluation, by metric name.

    search: the search options of a model, None for a file of outputs. unedited: the scores of the unedited machine
    translations, empty if there are none. awareness: of --shuffle-images, otherwise empty. left_out: the reasons why
    metrics are left out. confidence: of --confidence-curve.
    """

    options: EvaluationOptions
    test_set: TestSet
    search: SearchOptions | None
    scores: Mapping[str, Score]
    unedited: Mapping[str, Score]
    awareness: Mapping[str, ImageAwareness]
    left_out: Mapping[str, str]
    confidence: ConfidenceCurve | None = None


def evaluate_system(options: EvaluationOptions) -> EvaluationResult:
    """Score a system; with `options.output`, its outputs are written to that file.

    Raises UsageError, DataError, and the errors of `load_system`.
    """
    system = load_system_and_reverse(options)
    scoring = ScoringRun.of(
        {options.model: system},
        options.test_set_source,
        options.metrics,
        options.tokenize,
        options.lowercase,
        options.by,
    )
    test_set, answers, metrics = scoring.test_set, scoring.answers, scoring.metrics
    shuffled_set = test_set.shuffle_images(options.shuffle_seed) if options.shuffle_images else None
    search_options = options.search.apply_to(system.generation.bundle) if system.generation else None
    search = options.output is not None or needs_outputs(metrics)
    found: list[Candidate | None] = []
    if options.confidence_curve and search_options:
        check_edits(options, system, metrics)
        search_options = search_options.model_copy(update={"post_editing_confidence": 0.0})
    outputs = system.outputs(test_set, search_options, options.by, search=search, found=found.append)
    if options.output:
        options.output.write_text("".join(f"{line}\n" for line in outputs.hypotheses), encoding="utf-8")
    scores = {metric.name: metric.score(outputs, answers) for metric in metrics}
    unedited_scores: dict[str, Score] = {}
    if MT in test_set.texts and options.model != UNEDITED:
        unedited = System(UNEDITED, None).outputs(test_set)
        unedited_scores = {metric.name: metric.score(unedited, answers) for metric in metrics}
    awareness: dict[str, ImageAwareness] = {}
    if shuffled_set is not None:
        shuffled = system.outputs(shuffled_set, search_options, options.by, "with other pictures", search)
        awareness = {metric.name: image_awareness(metric, outputs, shuffled, answers) for metric in metrics}
    curve = confidence_curve(found, test_set, metrics, answers) if options.confidence_curve else None
    return EvaluationResult(
        options, test_set, search_options, scores, unedited_scores, awareness, scoring.left_out, curve
    )


def check_options(options: EvaluationOptions) -> None:
    """Raises UsageError for options that contradict each other or have no effect."""
    alignments = needs_alignments(options.metrics, options.by)
    check_symmetrized(options.reverse, options.symmetrize)
    if options.reverse and not alignments:
        raise UsageError("--reverse", "no score of alignments is asked for", "ask for them: --metrics alignment")
    if options.seed is not None and not options.shuffle_images:
        raise UsageError("--seed", "nothing is drawn at random", "give --shuffle-images, or leave it out")
    if options.confidence_curve and options.search.post_editing_confidence is not None:
        raise UsageError("--confidence-curve", "it has every confidence", "leave it or --post-editing-confidence out")
    if options.shuffle_images and options.test_set_source.no_images:
        raise UsageError("--shuffle-images", "--no-images leaves none to be shuffled", "leave one of them out")
    ensemble = "," in options.model and not Path(options.model).exists()
    if options.log and (is_output_file(options.model) or ensemble):
        raise UsageError("--log", f"{options.model} is not a model that one run has trained", "leave it out")
    check_search_options(options)
    if options.output and not options.output.parent.is_dir():
        raise UsageError("--output", f"there is no folder {options.output.parent}", "make it, or name another file")


def check_search_options(options: EvaluationOptions) -> None:
    """Raises UsageError for an option of the search, or of a model, where there is none."""
    given: dict[str, object] = {
        "--beam-size": options.search.beam_size,
        "--length-penalty": options.search.length_penalty,
        "--max-length": options.search.max_length,
        "--post-editing-penalty": options.search.post_editing_penalty,
        "--post-editing-confidence": options.search.post_editing_confidence,
        "--confidence-curve": options.confidence_curve or None,
        "--shortlist": options.shortlist or None,
    }
    if is_output_file(options.model):
        given |= {
            "--by": options.by,
            "--reverse": options.reverse,
            "--output": options.output,
            "--device": options.device,
            "--precision": options.precision,
            "--no-images": options.test_set_source.no_images or None,
            "--shuffle-images": options.shuffle_images or None,
        }
        description = "the machine translations" if options.model == UNEDITED else "a file with outputs"
        reason = f"{options.model} is {description}: nothing is searched for"
    elif options.output or needs_outputs(select_metrics(options.metrics)):
        return
    else:
        reason = "scores of alignments need no search"
    for name, value in given.items():
        if value is not None:
            raise UsageError(name, reason, "leave it out")


def check_edits(options: EvaluationOptions, system: System, metrics: Sequence[Metric]) -> None:
    """Raises UsageError for a model that does not edit machine translations, and for scores that are not of texts."""
    remedy = "leave --confidence-curve out"
    if MT not in system.fields:
        raise UsageError(options.model, f"the model has no source '{MT}', which would stay unedited", remedy)
    if aligned := [metric.name for metric in metrics if not needs_outputs([metric])]:
        raise UsageError("--metrics", f"{aligned[0]} is none of texts", f"{remedy}, or ask for hter or bleu")


def load_system_and_reverse(options: EvaluationOptions) -> System:
    """The system to score, with the model of the opposite direction for its alignments if --reverse names one."""
    device, precision = options.device or "cpu", options.precision or "fp32"
    system = load_system(
        options.model, options.tracking, device, precision, options.search.beam_size, options.shortlist
    )
    if not options.reverse or not system.generation:
        return system
    backward = load_reverse(options.reverse, system.generation.bundle.card, device, options.tracking)
    return replace(system, backward=backward, symmetrization=options.symmetrize)
