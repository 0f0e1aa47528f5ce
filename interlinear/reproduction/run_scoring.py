"""Scores the trained runs of `interlinear reproduce` and records the results in MLflow and in result files."""

from typing import TYPE_CHECKING

from interlinear.console import say
from interlinear.reproduction.run_training import ReproduceConfig

if TYPE_CHECKING:
    from registry.evaluations import Evaluation
    from seq2seq.generate import SequenceGenerator
    from training.reproduce.papers import PaperTables, RunKey, TestResult


def score_run(run_key: "RunKey", table: "PaperTables", config: ReproduceConfig) -> None:
    """Score a trained run on its group's test sets. The scores are logged to its MLflow run and added to the model
    card; the result file is written last and marks the run as done."""
    from datetime import UTC, datetime

    from interlinear.decoding.model_loading import load_generation
    from registry.curves import DEV_BLEU, DEV_PERPLEXITY, EPOCH_SECONDS, TRAINING_SECONDS, read_run_curves
    from registry.evaluations import add_to_training
    from registry.evaluations import find_training as training_of
    from seq2seq.bundle import add_scores
    from seq2seq.metrics.catalogue import ALIGNMENT
    from training.reproduce.papers import DevPoint, Result, write_result

    group = table.groups[run_key.group]
    training = group.training(run_key.system, run_key.scale)
    folder = config.runs / str(run_key)
    generation = load_generation(str(folder), config.tracking, "cuda" if config.gpu else "cpu")
    card = generation.bundle.card
    tests, evaluations, card_scores = {}, [], {}
    for split, metrics in group.tests.items():
        if has_split(training.data, split, config):
            tests[split], evaluation = score_split(generation, training.data, split, metrics, config)
            evaluations.append(evaluation)
            for name, score in tests[split].scores.items():
                beam_note = "" if name in ALIGNMENT else f", beam {card.search.beam}"
                title = f"{evaluation.test_set}: {name.upper()} ({evaluation.rows:,} sentences{beam_note})"
                card_scores[title] = score
    tags = {"table": run_key.table, "group": run_key.group, "system": run_key.system, "scale": run_key.scale}
    tags["seed"] = str(run_key.seed)
    readme = add_scores(generation.bundle, card_scores)
    add_to_training(training_of(str(folder), config.tracking), evaluations, tags, readme)
    run = read_run_curves(str(folder), config.tracking)
    points = zip(run.per_epoch(DEV_PERPLEXITY), run.per_epoch(DEV_BLEU), strict=True)
    result = Result(
        place=run_key,
        training=training,
        commit=card.git_commit,
        machine=machine(),
        date=datetime.now(UTC).isoformat(timespec="seconds"),
        seconds=run.per_epoch(TRAINING_SECONDS if TRAINING_SECONDS in run.curves else EPOCH_SECONDS)[-1],
        parameters=sum(weight.numel() for weight in generation.bundle.model.parameters()),
        weights_sha256=card.weights_sha256,
        bundle=str(folder / "bundle"),
        curve=[DevPoint(epoch=i, perplexity=a, bleu=b) for i, (a, b) in enumerate(points, 1)],
        tests=tests,
    )
    write_result(config.output, result)
    scores = {
        f"{split}/{name}": score_record.score
        for split, test in tests.items()
        for name, score_record in test.scores.items()
    }
    say(f"{run_key}: " + ", ".join(f"{name} {score:.2f}" for name, score in scores.items()))


def has_split(data: str, split: str, config: ReproduceConfig) -> bool:
    from training.data.dataset import open_dataset

    return open_dataset(data, config.data_root).has_split(split)


def score_split(
    generation: "SequenceGenerator", data: str, split: str, metrics: str, config: ReproduceConfig
) -> "tuple[TestResult, Evaluation]":
    """The scores of a model on one split, for the tables and for MLflow."""
    from interlinear.decoding.translation import MT
    from interlinear.evaluation.scoring import (
        System,
        computable_metrics,
        needs_alignments,
        needs_outputs,
        select_metrics,
    )
    from interlinear.evaluation.test_sets import UNEDITED, TestSetSource
    from registry.evaluations import Evaluation
    from training.reproduce.papers import TestResult, format_statistics

    system = System(data, generation)
    test_set_source = TestSetSource(data, split, None, [], config.data_root)
    test_set = test_set_source.read([system], needs_alignments(metrics, None))
    answers, reading = test_set.answers(), test_set.reading(None, None)
    selected, left_out = computable_metrics(select_metrics(metrics, test_set.task, reading), answers)
    outputs = system.outputs(test_set, label=f"{data}, {split}", search=needs_outputs(selected))
    statistics = {metric: metric.statistics(outputs, answers) for metric in selected}
    unedited = {}
    if MT in test_set.texts:  # the baseline of post-editing is the unedited translation
        unedited_outputs = System(UNEDITED, None).outputs(test_set)
        unedited = {metric.name: metric.score(unedited_outputs, answers).score for metric in selected}
    scores = {m.name: m.report(each, m.signature(outputs, answers)) for m, each in statistics.items()}
    values = {name: report.score for name, report in scores.items()}
    values |= {f"{UNEDITED}/{name}": score for name, score in unedited.items()}
    signatures = {name: report.signature for name, report in scores.items()}
    evaluation = Evaluation(test_set.name, split, test_set.sha256, test_set.rows, values, signatures)
    test_result = TestResult(
        reading=reading,
        scores=scores,
        left_out=left_out,
        unedited=unedited,
        lengths=[len(test_set.word_spans(text)) for text in test_set.sources],
        statistics={metric.name: format_statistics(each) for metric, each in statistics.items()},
    )
    return test_result, evaluation


def machine() -> str:
    """Description of the machine that trained."""
    import os
    import platform

    import torch

    cores = len(os.sched_getaffinity(0))
    gpus = f", {torch.cuda.device_count()} x {torch.cuda.get_device_name()}" if torch.cuda.is_available() else ""
    return f"{cores} cores, {platform.machine()}{gpus}, torch {torch.__version__}"
