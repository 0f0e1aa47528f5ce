"""`interlinear evaluate`: what a model scores on a data set's split, or on a source file and its reference."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from interlinear.align import AlignedBy
from interlinear.arguments import DataName, DataRoot, Device, Json, Tracking
from interlinear.judging import (
    JUDGED,
    MetricNames,
    System,
    applicable,
    asked_metrics,
    is_outputs,
    open_system,
    wants_alignments,
)
from interlinear.searching import Asked, BeamSize, LengthPenalty, MaxLength
from interlinear.testsets import (
    MT,
    UNEDITED,
    Lowercase,
    MtFile,
    Place,
    ReferenceFiles,
    SourceFile,
    Split,
    Tokenize,
)
from seq2seq.errors import CallError

if TYPE_CHECKING:
    from seq2seq.metrics.score import Score

JudgedName = Annotated[
    str, typer.Argument(metavar="MODEL", show_default=False, help=f"{JUDGED[0].upper()}{JUDGED[1:]}.")
]


def evaluate(
    model: JudgedName,
    data: DataName = None,
    split: Split = "test",
    source: SourceFile = None,
    reference: ReferenceFiles = None,
    mt: MtFile = None,
    metrics: MetricNames = None,
    tokenize: Tokenize = None,
    lowercase: Lowercase = None,
    by: AlignedBy = None,
    beam_size: BeamSize = None,
    length_penalty: LengthPenalty = None,
    max_length: MaxLength = None,
    output: Annotated[
        Path | None, typer.Option(metavar="FILE", show_default=False, help="Keep the translations there.")
    ] = None,
    as_json: Json = False,
    data_root: DataRoot = None,
    device: Device = "cpu",
    tracking: Tracking = None,
) -> None:
    """Score a model, or a file with a model's outputs: BLEU, ROUGE, alignment error rate and others, with signatures.

    Raw text is scored as it is written, after detokenisation; a data set that says its text is tokenised, as tokens.
    Scores that the data has no means for are left out, with the reason. Where machine translations are edited, their
    own scores are printed beside.
    """
    alignments = wants_alignments(metrics, by)
    if is_outputs(model):
        given = {"--by": by, "--beam-size": beam_size, "--length-penalty": length_penalty, "--max-length": max_length}
        for name, value in (given | {"--output": output}).items():
            if value is not None:
                raise CallError(name, f"{model} is a file with outputs: nothing is searched for", "leave it out")
    system = open_system(model, tracking, device, beam_size)
    place = Place(data, split, source, reference or [], data_root, mt)
    test_set = place.read(system.fields, system.task, alignments and system.generation is not None)
    answers = test_set.answers()
    chosen, left_out = applicable(asked_metrics(metrics, test_set.task, test_set.reading(tokenize, lowercase)), answers)
    options = None
    if system.generation:
        options = Asked(beam_size, length_penalty, max_length=max_length).over(system.generation.bundle.card.search)
    outputs = system.outputs(test_set, options, by)
    if output:
        output.write_text("".join(f"{line}\n" for line in outputs.hypotheses), encoding="utf-8")
    scores = {metric.name: metric.score(outputs, answers) for metric in chosen}
    before: dict[str, Score] = {}
    if MT in test_set.texts and model != UNEDITED:
        unedited = System(UNEDITED, None).outputs(test_set)
        before = {metric.name: metric.score(unedited, answers) for metric in chosen}
    if as_json:
        found: dict[str, object] = as_records(scores)
        if before:
            found[UNEDITED] = as_records(before)
        print(json.dumps(found | ({"left_out": left_out} if left_out else {})))
        return
    for name, score in scores.items():
        beside = f" (unedited: {shown(before[name])})" if before else ""
        print(f"{name.upper()} {shown(score)}{beside}\n{score.signature}")


def as_records(scores: "Mapping[str, Score]") -> dict[str, object]:
    """Scores as JSON has them."""
    return {name: score.model_dump() for name, score in scores.items()}


def shown(score: "Score") -> str:
    """The number, and its interval where it has one."""
    from seq2seq.metrics.score import IntervalScore

    if not isinstance(score, IntervalScore):
        return f"{score.score:.2f}"
    return f"{score.score:.2f}, 95 % interval {score.low:.2f} to {score.high:.2f} (ROUGE-1.5.5 prints {score.mean:.2f})"
