"""Scores trained runs, and records the results in MLflow, in model cards and in files."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from interlinear.cli.console import say
from interlinear.cli.decoding.model_loading import load_generation
from interlinear.cli.evaluation.evaluation_options import SHUFFLE_SEED
from interlinear.cli.evaluation.scoring import (
    System,
    computable_metrics,
    image_awareness,
    needs_alignments,
    needs_outputs,
    select_metrics,
)
from interlinear.cli.evaluation.test_sets import UNEDITED, TestSet, read_test_set
from interlinear.cli.options import TestSetSource
from interlinear.metrics.catalogue import ALIGNMENT
from interlinear.metrics.metric import Metric
from interlinear.registry.curves import DEV_BLEU, DEV_GATE, DEV_PERPLEXITY, TRAINING_SECONDS, RunCurves, read_run_curves
from interlinear.registry.evaluations import Evaluation, find_training
from interlinear.source_names import MT
from research.gates import analyse_gates, has_gates
from research.outputs import add_outputs, outputs_sha256
from research.papers import PaperTables
from research.records import (
    DevPoint,
    Result,
    RunKey,
    ShuffledImages,
    TestResult,
    format_statistics,
    result_file,
    write_record,
)
from research.runs import ReproduceConfig
from research.tracking import add_scores, add_to_training
from training.data.dataset import open_dataset
from training.runs.machine import describe_machine


def score_run(run_key: RunKey, table: PaperTables, config: ReproduceConfig) -> None:
    """Score a trained run on its group's test sets. The scores are logged to its MLflow run and added to the model
    card, and its outputs are stored; the result file is written last and marks the run as done."""
    group = table.groups[run_key.group]
    training = group.training(run_key.system, run_key.scale)
    folder = str(config.runs / str(run_key))
    generation = load_generation(folder, config.tracking, "cuda" if config.gpu else "cpu")
    card = generation.bundle.card
    system = System(training.data, generation)
    tests, evaluations, card_scores, outputs = {}, [], {}, {}
    for split, names in group.tests.items():
        if open_dataset(training.data, config.data_root).has_split(split):
            scored = score_split(system, training.data, split, names, config.data_root, split in group.shuffle_images)
            tests[split] = scored.result
            if scored.outputs:
                outputs[str(run_key), split] = scored.outputs
            evaluations.append(evaluation := scored.evaluation())
            for name, score in scored.result.scores.items():
                beam_note = "" if name in ALIGNMENT else f", beam {card.search.beam}"
                title = f"{evaluation.test_set}: {name.upper()} ({evaluation.rows:,} sentences{beam_note})"
                card_scores[title] = score
    add_outputs(config.output, run_key.table, outputs)
    tags = {key: str(value) for key, value in run_key.model_dump().items()}
    readme = add_scores(generation.bundle, card_scores)
    add_to_training(find_training(folder, config.tracking), evaluations, tags, readme)
    run = read_run_curves(folder, config.tracking)
    first_test = next(iter(group.tests))
    result = Result(
        place=run_key,
        training=training,
        commit=card.git_commit,
        machine=describe_machine(),
        date=datetime.now(UTC).isoformat(timespec="seconds"),
        seconds=run.per_epoch(TRAINING_SECONDS)[-1],
        parameters=sum(weight.numel() for weight in generation.bundle.model.parameters()),
        weights_sha256=card.weights_sha256,
        curve=dev_curve(run),
        tests=tests,
        gates=analyse_gates(generation, training.data, first_test, config.data_root) if has_gates(generation) else None,
    )
    write_record(result_file(config.output, run_key), result)
    scores = (f"{split}/{name} {one.score:.2f}" for split, test in tests.items() for name, one in test.scores.items())
    say(f"{run_key}: {', '.join(scores)}")


def dev_curve(run: RunCurves) -> list[DevPoint]:
    """The dev set's scores after every epoch."""
    perplexities = run.per_epoch(DEV_PERPLEXITY)
    gates = run.per_epoch(DEV_GATE) if DEV_GATE in run.curves else [None] * len(perplexities)
    points = zip(perplexities, run.per_epoch(DEV_BLEU), gates, strict=True)
    return [DevPoint(epoch=i, perplexity=a, bleu=b, gate=c) for i, (a, b, c) in enumerate(points, 1)]


@dataclass(frozen=True)
class ScoredSplit:
    """The result of a model on a split, and its outputs, which are empty if only alignments were scored."""

    split: str
    test_set: TestSet
    result: TestResult
    outputs: tuple[str, ...]

    def evaluation(self) -> Evaluation:
        """The record for MLflow."""
        result, test_set = self.result, self.test_set
        values = {name: score.score for name, score in result.scores.items()}
        values |= {f"{UNEDITED}/{name}": score for name, score in result.unedited.items()}
        if result.shuffled:
            values |= {f"shuffled/{name}": score for name, score in result.shuffled.scores.items()}
            values |= {f"awareness/{name}": score for name, score in result.shuffled.awareness.items()}
        signatures = {name: score.signature for name, score in result.scores.items()}
        return Evaluation(test_set.name, self.split, test_set.sha256, test_set.rows, values, signatures)


def score_split(
    system: System, data: str, split: str, names: str, data_root: Path | None, shuffle_images: bool = False
) -> ScoredSplit:
    """Search and score a split of a data set.

    `names`: of scores, as a group names them. `shuffle_images`: a model that reads images is scored with those of other
    lines too. Raises UsageError, DataError.
    """
    test_set = read_test_set(TestSetSource(data, split, None, [], data_root), [system], needs_alignments(names))
    answers, reading = test_set.answers(), test_set.reading(None, None)
    selected, left_out = computable_metrics(select_metrics(names, test_set.task, reading), answers)
    search = needs_outputs(selected)
    outputs = system.outputs(test_set, label=f"{data}, {split}", search=search)
    statistics = {metric: metric.statistics(outputs, answers) for metric in selected}
    shuffled = None
    if shuffle_images and test_set.pictures:
        wrong = system.outputs(test_set.shuffle_images(SHUFFLE_SEED), label=f"{data}, {split}, images shuffled")
        awareness = {metric.name: image_awareness(metric, outputs, wrong, answers) for metric in selected}
        shuffled = ShuffledImages(
            seed=SHUFFLE_SEED,
            lines=test_set.lines_with_image,
            scores={name: one.score for name, one in awareness.items()},
            awareness={name: one.awareness for name, one in awareness.items()},
            p_values={name: one.p_values for name, one in awareness.items()},
            statistics={metric.name: format_statistics(metric.statistics(wrong, answers)) for metric in selected},
        )
    result = TestResult(
        reading=reading,
        scores={m.name: m.report(each, m.signature(outputs, answers)) for m, each in statistics.items()},
        left_out=left_out,
        unedited=unedited_scores(test_set, selected),
        statistics={
            metric.name: format_statistics(each) for metric, each in statistics.items() if metric.name in ALIGNMENT
        },
        joined_from=joined_from(data, split, data_root),
        shuffled=shuffled,
        outputs_sha256=outputs_sha256(outputs.hypotheses) if search else None,
    )
    return ScoredSplit(split, test_set, result, outputs.hypotheses if search else ())


def unedited_scores(test_set: TestSet, metrics: Sequence[Metric]) -> dict[str, float]:
    """The scores of the unedited machine translations, the baseline of post-editing; empty if there are none."""
    if MT not in test_set.texts:
        return {}
    unedited, answers = System(UNEDITED, None).outputs(test_set), test_set.answers()
    return {metric.name: metric.score(unedited, answers).score for metric in metrics}


def joined_from(data: str, split: str, data_root: Path | None) -> str | None:
    """The split whose lines are joined to this one; None for any other split."""
    joined = open_dataset(data, data_root).joined.get(split)
    return joined.split if joined else None
