"""Scores a model's outputs, beside the unedited machine translations and with shuffled images; outputs in a file; or a
model's word alignments."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from interlinear.cli.decoding.alignment import load_reverse
from interlinear.cli.evaluation.evaluation_options import (
    SHUFFLE_SEED,
    AlignmentEvaluationOptions,
    EvaluationOptions,
    OutputEvaluationOptions,
)
from interlinear.cli.evaluation.scoring import (
    ALIGNMENTS,
    TEXTS,
    ImageAwareness,
    ScoringRun,
    System,
    image_awareness,
    is_output_file,
    load_system,
    select_metrics,
)
from interlinear.cli.evaluation.test_sets import UNEDITED, TestSet
from interlinear.cli.options import TestSetSource
from interlinear.errors import UsageError
from interlinear.generation.request import Candidate
from interlinear.installation import shell_command
from interlinear.metrics.metric import Metric, ReferenceSet, SystemOutputs
from interlinear.metrics.score import Score
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
    """Scores at confidences from 0 to 1. `metric`: decides which point is best; HTER if it was computed."""

    points: Sequence[ConfidencePoint]
    metric: str
    lower_is_better: bool

    @property
    def best(self) -> ConfidencePoint:
        """The point with the best score; in a tie, the one with the lowest confidence."""
        sign = -1 if self.lower_is_better else 1
        return max(self.points, key=lambda point: sign * point.scores[self.metric])


def confidence_curve(
    outputs: Sequence[Candidate | None], test_set: TestSet, metrics: Sequence[Metric], answers: ReferenceSet
) -> ConfidenceCurve:
    """The scores at every confidence, from the outputs of one search without confidence. None: a line that the model
    cannot read, whose output is empty."""
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

    settings: the options that decide the scores and are set, by name. unedited: the scores of the unedited machine
    translations, empty if there are none. awareness: of --shuffle-images, otherwise empty. left_out: the reasons why
    metrics are left out. confidence: of --confidence-curve.
    """

    test_set: TestSet
    split: str | None
    settings: Mapping[str, object]
    scores: Mapping[str, Score]
    left_out: Mapping[str, str]
    unedited: Mapping[str, Score] = field(default_factory=dict)
    awareness: Mapping[str, ImageAwareness] = field(default_factory=dict)
    confidence: ConfidenceCurve | None = None


def evaluate_model(options: EvaluationOptions) -> EvaluationResult:
    """Score a model's outputs; with `options.output`, they are written to that file.

    Raises UsageError, DataError, and the errors of `load_system`.
    """
    system = load_system(
        options.model, options.tracking, options.device, options.precision, options.search.beam, options.use_shortlist
    )
    assert system.generation
    scoring = ScoringRun.of(
        {options.model: system}, options.test_set_source, options.metrics, options.tokenize, options.lowercase, TEXTS
    )
    test_set, answers, metrics = scoring.test_set, scoring.answers, scoring.metrics
    shuffled_set = test_set.shuffle_images(SHUFFLE_SEED) if options.shuffle_images else None
    search = options.search.apply_to(system.generation.bundle)
    found: list[Candidate | None] = []
    if options.confidence_curve:
        check_edits(options.model, system)
        search = search.model_copy(update={"post_editing_confidence": 0.0})
    outputs = system.outputs(test_set, search, found=found.append)
    if options.output:
        options.output.write_text("".join(f"{line}\n" for line in outputs.hypotheses), encoding="utf-8")
    awareness: dict[str, ImageAwareness] = {}
    if shuffled_set is not None:
        shuffled = system.outputs(shuffled_set, search, label="with other pictures")
        awareness = {metric.name: image_awareness(metric, outputs, shuffled, answers) for metric in metrics}
    settings: dict[str, object] = {
        "no_images": options.test_set_source.no_images or None,
        "shuffled_by": SHUFFLE_SEED if options.shuffle_images else None,
        "shortlist": options.use_shortlist or None,
    }
    settings |= {f"search.{key}": value for key, value in search}
    return EvaluationResult(
        test_set,
        options.test_set_source.split,
        settings,
        {metric.name: metric.score(outputs, answers) for metric in metrics},
        scoring.left_out,
        unedited_scores(scoring),
        awareness,
        confidence_curve(found, test_set, metrics, answers) if options.confidence_curve else None,
    )


def evaluate_file(options: OutputEvaluationOptions) -> EvaluationResult:
    """Score outputs in a file. Raises UsageError, DataError."""
    if not is_output_file(options.outputs):
        raise UsageError(options.outputs, "there is no such file", "name a file with one output a line")
    system, source = System(options.outputs, None), options.test_set_source
    scoring = ScoringRun.of(
        {options.outputs: system}, source, options.metrics, options.tokenize, options.lowercase, TEXTS
    )
    outputs = system.outputs(scoring.test_set)
    scores = {metric.name: metric.score(outputs, scoring.answers) for metric in scoring.metrics}
    unedited = {} if options.outputs == UNEDITED else unedited_scores(scoring)
    return EvaluationResult(scoring.test_set, source.split, {}, scores, scoring.left_out, unedited)


def unedited_scores(scoring: ScoringRun) -> dict[str, Score]:
    """The scores of the unedited machine translations; none where there are none."""
    if MT not in scoring.test_set.texts:
        return {}
    unedited = System(UNEDITED, None).outputs(scoring.test_set)
    return {metric.name: metric.score(unedited, scoring.answers) for metric in scoring.metrics}


def score_alignments(options: AlignmentEvaluationOptions) -> EvaluationResult:
    """Score a model's word alignments. Raises UsageError, DataError, and the errors of `load_system`."""
    system = load_system(options.model, options.tracking, options.device, options.precision)
    if system.generation is None:
        raise UsageError(options.model, "is no model, and outputs have no alignments", "name a model")
    if options.reverse:
        backward = load_reverse(options.reverse, system.generation.bundle.card, options.device, options.tracking)
        system = replace(system, backward=backward, symmetrization=options.symmetrize)
    source = TestSetSource(options.data, options.split, data_root=options.data_root)
    scoring = ScoringRun.of({options.model: system}, source, None, kind=ALIGNMENTS)
    outputs = system.outputs(scoring.test_set, by=options.by, search=False)
    scores = {metric.name: metric.score(outputs, scoring.answers) for metric in scoring.metrics}
    settings = {"by": options.by, "reverse": options.reverse, "symmetrize": options.symmetrize}
    return EvaluationResult(scoring.test_set, options.split, settings, scores, scoring.left_out)


def check_options(options: EvaluationOptions) -> None:
    """Raises UsageError for options that contradict each other or have no effect, before a model is loaded."""
    if is_output_file(options.model):
        raise UsageError(
            options.model,
            "it is no model",
            f"outputs are scored by {shell_command('evaluate-outputs', options.model)}",
        )
    select_metrics(options.metrics, kind=TEXTS)
    if options.shuffle_images and options.test_set_source.no_images:
        raise UsageError("--shuffle-images", "--no-images leaves none to be shuffled", "leave one of them out")
    if options.log and "," in options.model and not Path(options.model).exists():
        raise UsageError("--log", f"{options.model} is not a model that one run has trained", "leave it out")
    if options.output and not options.output.parent.is_dir():
        raise UsageError("--output", f"there is no folder {options.output.parent}", "make it, or name another file")


def check_edits(model: str, system: System) -> None:
    """Raises UsageError for a model that does not edit machine translations."""
    if MT not in system.fields:
        raise UsageError(
            model, f"the model has no source '{MT}', which would stay unedited", "leave --confidence-curve out"
        )
