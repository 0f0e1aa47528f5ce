"""Scores the trained runs of `interlinear reproduce` and records the results in MLflow and in result files."""

from typing import TYPE_CHECKING

from interlinear.console import say
from interlinear.reproduction.gate_analysis import analyse_gates, has_gates
from interlinear.reproduction.run_training import ReproduceConfig
from interlinear.reproduction.split_scoring import ScoredSplit, SplitScorer

if TYPE_CHECKING:
    from registry.curves import RunCurves
    from training.reproduce.papers import PaperTables
    from training.reproduce.results import DevPoint, RunKey, TestResult


def score_run(run_key: "RunKey", table: "PaperTables", config: ReproduceConfig) -> None:
    """Score a trained run on its group's test sets. The scores are logged to its MLflow run and added to the model
    card, and its outputs are stored; the result file is written last and marks the run as done."""
    from datetime import UTC, datetime

    from interlinear.decoding.model_loading import load_generation
    from interlinear.evaluation.scoring import System
    from registry.curves import TRAINING_SECONDS, read_run_curves
    from registry.evaluations import add_to_training
    from registry.evaluations import find_training as training_of
    from seq2seq.bundle import add_scores
    from seq2seq.metrics.catalogue import ALIGNMENT
    from training.reproduce.results import Result, write_result
    from training.runs.machine import describe_machine

    group = table.groups[run_key.group]
    training = group.training(run_key.system, run_key.scale)
    folder = config.runs / str(run_key)
    generation = load_generation(str(folder), config.tracking, "cuda" if config.gpu else "cpu")
    card = generation.bundle.card
    system = System(training.data, generation)
    tests, evaluations, card_scores = {}, [], {}
    for split, metrics in group.tests.items():
        if has_split(training.data, split, config):
            scorer = SplitScorer(training.data, split, metrics, config.data_root, split in group.shuffle_images)
            scored = scorer.score(system)
            tests[split] = store_outputs(scored, run_key, config)
            evaluations.append(evaluation := scored.evaluation())
            for name, score in tests[split].scores.items():
                beam_note = "" if name in ALIGNMENT else f", beam {card.search.beam}"
                title = f"{evaluation.test_set}: {name.upper()} ({evaluation.rows:,} sentences{beam_note})"
                card_scores[title] = score
    tags = {"table": run_key.table, "group": run_key.group, "system": run_key.system, "scale": run_key.scale}
    tags["seed"] = str(run_key.seed)
    readme = add_scores(generation.bundle, card_scores)
    add_to_training(training_of(str(folder), config.tracking), evaluations, tags, readme)
    run = read_run_curves(str(folder), config.tracking)
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
    write_result(config.output, result)
    scores = {
        f"{split}/{name}": score_record.score
        for split, test in tests.items()
        for name, score_record in test.scores.items()
    }
    say(f"{run_key}: " + ", ".join(f"{name} {score:.2f}" for name, score in scores.items()))


def dev_curve(run: "RunCurves") -> "list[DevPoint]":
    """The dev set's scores after every epoch."""
    from registry.curves import DEV_BLEU, DEV_GATE, DEV_PERPLEXITY
    from training.reproduce.results import DevPoint

    perplexities = run.per_epoch(DEV_PERPLEXITY)
    gates = run.per_epoch(DEV_GATE) if DEV_GATE in run.curves else [None] * len(perplexities)
    points = zip(perplexities, run.per_epoch(DEV_BLEU), gates, strict=True)
    return [DevPoint(epoch=i, perplexity=a, bleu=b, gate=c) for i, (a, b, c) in enumerate(points, 1)]


def store_outputs(scored: ScoredSplit, run_key: "RunKey", config: ReproduceConfig) -> "TestResult":
    """Store the outputs of a split, if there are any; returns its result with their checksum."""
    from training.reproduce.stored_outputs import outputs_file, write_outputs

    if not scored.outputs:
        return scored.result
    sha256 = write_outputs(outputs_file(config.output, run_key, scored.split), scored.outputs)
    return scored.result.model_copy(update={"outputs_sha256": sha256})


def has_split(data: str, split: str, config: ReproduceConfig) -> bool:
    from training.data.dataset import open_dataset

    return open_dataset(data, config.data_root).has_split(split)
