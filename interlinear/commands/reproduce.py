"""`interlinear reproduce`: a paper's tables, from data at hand to figures beside the paper's own."""

import subprocess
import sys
import time
from collections.abc import Generator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from interlinear.console import say
from interlinear.options import DataRoot, PreparedFolder, Tracking
from seq2seq.errors import DataError, TrainingError, UsageError

if TYPE_CHECKING:
    from registry.evaluations import Evaluation
    from seq2seq.generate import SequenceGenerator
    from training.reproduce.papers import PaperTables, Result, RunKey, TestResult
    from training.reproduce.results_table import ResultsTable

Paper = Annotated[
    str,
    typer.Argument(
        metavar="PAPER",
        show_default=False,
        help="word-attention, interactive-attention, uam, multi-source, or a YAML file.",
    ),
]


@dataclass(frozen=True)
class ReproduceConfig:
    """Where runs are trained and kept, and with what."""

    output: Path
    runs: Path
    prepared: Path
    data_root: Path | None
    tracking: str | None
    workers: int
    gpu: bool
    address: str | None
    no_ray: bool

    def options(self) -> list[str]:
        """The same for `interlinear train`."""
        words = ["--workers", str(self.workers), "--runs", str(self.runs), "--prepared", str(self.prepared)]
        words += [option for option, on in (("--gpu", self.gpu), ("--no-ray", self.no_ray)) if on]
        given = {"--data-root": self.data_root, "--tracking": self.tracking, "--address": self.address}
        return words + [word for option, value in given.items() if value for word in (option, str(value))]


def reproduce(
    paper: Paper,
    scale: Annotated[
        Literal["small", "paper"],
        typer.Option(help="Sizes for a small machine, or the paper's own."),
    ] = "small",
    seeds: Annotated[int, typer.Option(min=1, metavar="N", help="Trainings of each system, from seeds 1 to N.")] = 1,
    only: Annotated[
        list[str] | None,
        typer.Option(
            metavar="GROUP|SYSTEM",
            show_default=False,
            help="A group of the paper's tables, GROUP/SYSTEM, or a system of the core; repeatable.",
        ),
    ] = None,
    output: Annotated[Path, typer.Option(metavar="FOLDER", help="Where results are kept and tables written.")] = Path(
        "docs/results"
    ),
    workers: Annotated[int, typer.Option(min=1, metavar="N", help="Processes that train together.")] = 1,
    at_once: Annotated[
        int, typer.Option(min=1, metavar="N", help="Trainings that run beside each other, on a cluster.")
    ] = 1,
    gpu: Annotated[bool, typer.Option("--gpu", help="A GPU for every worker.")] = False,
    address: Annotated[
        str | None, typer.Option(metavar="URI", show_default=False, help="A running Ray cluster; else one of its own.")
    ] = None,
    no_ray: Annotated[bool, typer.Option("--no-ray", help="Train without Ray.")] = False,
    tracking: Tracking = None,
    data_root: DataRoot = None,
    prepared: PreparedFolder = Path("prepared"),
    runs: Annotated[Path, typer.Option(metavar="FOLDER", help="Where runs are kept.")] = Path("runs"),
    dry: Annotated[bool, typer.Option("--dry-run", help="Say what would be trained, and end.")] = False,
) -> None:
    """Train a paper's systems and set what they score beside what the paper reports.

    Every run is kept as a file of results when it ends: a command that is interrupted goes on where it was, and what
    was run before is not run again. The tables are written anew after each run: OUTPUT/PAPER/table.md, .json and .svg.
    """
    from contextlib import closing

    from training.reproduce.papers import load_paper, plan_runs, read_results, result_file

    table, paper = load_paper(paper), Path(paper).stem
    wanted = plan_runs(paper, table, scale, seeds, only or ())
    if at_once > 1 and not address:
        raise UsageError("--at-once", "a machine of its own trains one system at a time", "name a cluster: --address")
    config = ReproduceConfig(output, runs, prepared, data_root, tracking, workers, gpu, address, no_ray)
    kept = {result.place: result for result in read_results(output, paper)}
    for place in wanted:
        if place in kept:
            check_same(place, kept[place], table, result_file(output, place))
    missing = [place for place in wanted if place not in kept]
    say(f"{paper}: {len(wanted)} runs, of which {len(wanted) - len(missing)} are there already")
    if dry:
        for place in missing:
            print(" ".join(["interlinear", *training_command(place, table, config)]))
        return
    stages: list[list[RunKey]] = []  # what a system starts from is trained before it
    for place in missing:
        start = table.groups[place.group].starts_from.get(place.system)
        after = next(
            (i for i, stage in enumerate(stages) for one in stage if start and is_start_of(one, place, start)), -1
        )
        while len(stages) <= after + 1:
            stages.append([])
        stages[after + 1].append(place)
    page = None if missing else write_tables(paper, table, scale, output)
    for stage in stages:
        with closing(train_runs(stage, table, config, at_once)) as ended:
            for place in ended:
                score_run(place, table, config)
                page = write_tables(paper, table, scale, output)
                log_tables(page.parent, paper, scale, config)
    print(page)


def is_start_of(one: "RunKey", place: "RunKey", start: str) -> bool:
    """Whether a run is what another starts from."""
    return (one.group, one.seed, one.system) == (place.group, place.seed, start)


def check_same(place: "RunKey", result: "Result", table: "PaperTables", path: Path) -> None:
    """Raise DataError for a result that was trained otherwise than it would be now."""
    now, then = table.groups[place.group].training(place.system, place.scale), result.training
    if then != now:
        raise DataError(
            str(path),
            f"the run was trained otherwise ({then.recipe} on {then.data}, {then.settings}) than the table says",
            "remove it, and it is trained again; or name another folder by --output",
        )


def training_command(place: "RunKey", table: "PaperTables", config: ReproduceConfig) -> list[str]:
    """The words of `interlinear` that train a run; one that was begun goes on."""
    group = table.groups[place.group]
    own = group.training(place.system, place.scale)
    settings = {**own.settings, "training.seed": place.seed}
    if start := group.starts_from.get(place.system):
        settings["training.init_from"] = config.runs / str(place.model_copy(update={"system": start})) / "bundle"
    words = ["train", own.recipe, "--data", own.data, "--run", str(place)]
    words += [word for key, value in settings.items() for word in ("--set", f"{key}={value}")]
    words += ["--experiment", place.table, "--register", f"{place.table}.{place.group}.{place.system}"]
    words += ["--resume"] if (config.runs / str(place)).is_dir() else []
    return words + config.options()


def train_runs(
    stage: "Sequence[RunKey]", table: "PaperTables", config: ReproduceConfig, at_once: int
) -> "Generator[RunKey]":
    """Train runs by the ordinary command, each in a process of its own; each is given when it ends.

    Raises TrainingError, or ends as one was ended. Whatever ends this ends the trainings that still run: they save.
    """
    waiting = list(stage)
    running: dict[RunKey, subprocess.Popen[bytes]] = {}
    try:
        while waiting or running:
            while waiting and len(running) < at_once:
                place = waiting.pop(0)
                words = [*training_command(place, table, config), "--parent", system_run(place, config)]
                say(f"{place}: interlinear {' '.join(words)}")
                # In a session of its own, so that it hears one signal of one sender: a second would end it unsaved.
                running[place] = subprocess.Popen(
                    [sys.executable, "-m", "interlinear", *words], stdout=subprocess.DEVNULL, start_new_session=True
                )
            for place in [place for place, child in running.items() if child.poll() is not None]:
                code = running.pop(place).returncode
                if code > 128:
                    raise SystemExit(code)
                if code:
                    raise TrainingError(
                        str(place), "its training failed, as is said above", "the same command goes on with it"
                    )
                yield place
            time.sleep(0.2)
    finally:
        for child in running.values():
            child.terminate()
        for child in running.values():
            child.wait()


def system_run(place: "RunKey", config: ReproduceConfig) -> str:
    """The run in MLflow that stands for a system, and that the runs of its seeds are nested in."""
    from registry.curves import find_or_create_group

    tags = {"table": place.table, "group": place.group, "system": place.system, "scale": place.scale}
    return find_or_create_group(config.tracking, place.table, f"{place.group}.{place.system}.{place.scale}", tags)


def score_run(place: "RunKey", table: "PaperTables", config: ReproduceConfig) -> None:
    """Score a trained run on its group's test sets; keep the result in its run in MLflow, with its model there and on
    the model's card; then here, by which the run is done."""
    from datetime import UTC, datetime

    from interlinear.decoding.model_loading import load_generation
    from registry.curves import DEV_BLEU, DEV_PERPLEXITY, EPOCH_SECONDS, TRAINING_SECONDS, read_run_curves
    from registry.evaluations import add_to_training
    from registry.evaluations import find_training as training_of
    from seq2seq.bundle import add_scores
    from seq2seq.metrics.catalogue import ALIGNMENT
    from training.reproduce.papers import DevPoint, Result, write_result

    group = table.groups[place.group]
    own = group.training(place.system, place.scale)
    folder = config.runs / str(place)
    generation = load_generation(str(folder), config.tracking, "cuda" if config.gpu else "cpu")
    card = generation.bundle.card
    tests, evaluations, on_card = {}, [], {}
    for split, metrics in group.tests.items():
        if has_split(own.data, split, config):
            tests[split], evaluation = score_split(generation, own.data, split, metrics, config)
            evaluations.append(evaluation)
            for name, score in tests[split].scores.items():
                searched = "" if name in ALIGNMENT else f", beam {card.search.beam}"
                title = f"{evaluation.test_set}: {name.upper()} ({evaluation.rows:,} sentences{searched})"
                on_card[title] = score
    tags = {"table": place.table, "group": place.group, "system": place.system, "scale": place.scale}
    tags["seed"] = str(place.seed)
    readme = add_scores(generation.bundle, on_card)
    add_to_training(training_of(str(folder), config.tracking), evaluations, tags, readme)
    run = read_run_curves(str(folder), config.tracking)
    points = zip(run.per_epoch(DEV_PERPLEXITY), run.per_epoch(DEV_BLEU), strict=True)
    result = Result(
        place=place,
        training=own,
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
    scores = {f"{split}/{name}": one.score for split, test in tests.items() for name, one in test.scores.items()}
    say(f"{place}: " + ", ".join(f"{name} {score:.2f}" for name, score in scores.items()))


def has_split(data: str, split: str, config: ReproduceConfig) -> bool:
    from training.data.dataset import open_dataset

    return open_dataset(data, config.data_root).has_split(split)


def score_split(
    generation: "SequenceGenerator", data: str, split: str, metrics: str, config: ReproduceConfig
) -> "tuple[TestResult, Evaluation]":
    """What a model scores on one split: for the tables, and for MLflow."""
    from interlinear.evaluation.scoring import (
        System,
        computable_metrics,
        needs_alignments,
        needs_outputs,
        select_metrics,
    )
    from interlinear.evaluation.test_sets import MT, UNEDITED, TestSetSource
    from registry.evaluations import Evaluation
    from training.reproduce.papers import TestResult, format_statistics

    system = System(data, generation)
    place = TestSetSource(data, split, None, [], config.data_root)
    test_set = place.read([system], needs_alignments(metrics, None))
    answers, reading = test_set.answers(), test_set.reading(None, None)
    chosen, left_out = computable_metrics(select_metrics(metrics, test_set.task, reading), answers)
    outputs = system.outputs(test_set, label=f"{data}, {split}", search=needs_outputs(chosen))
    statistics = {metric: metric.statistics(outputs, answers) for metric in chosen}
    unedited = {}
    if MT in test_set.texts:  # post-editing is held against doing nothing
        before = System(UNEDITED, None).outputs(test_set)
        unedited = {metric.name: metric.score(before, answers).score for metric in chosen}
    scores = {m.name: m.report(each, m.signature(outputs, answers)) for m, each in statistics.items()}
    values = {name: one.score for name, one in scores.items()}
    values |= {f"{UNEDITED}/{name}": score for name, score in unedited.items()}
    signatures = {name: one.signature for name, one in scores.items()}
    evaluation = Evaluation(test_set.name, split, test_set.sha256, test_set.rows, values, signatures)
    own = TestResult(
        reading=reading,
        scores=scores,
        left_out=left_out,
        unedited=unedited,
        lengths=[len(test_set.word_spans(text)) for text in test_set.sources],
        statistics={metric.name: format_statistics(each) for metric, each in statistics.items()},
    )
    return own, evaluation


def machine() -> str:
    """Where it was trained, in words."""
    import os
    import platform

    import torch

    cores = len(os.sched_getaffinity(0))
    gpus = f", {torch.cuda.device_count()} x {torch.cuda.get_device_name()}" if torch.cuda.is_available() else ""
    return f"{cores} cores, {platform.machine()}{gpus}, torch {torch.__version__}"


def write_tables(paper: str, table: "PaperTables", scale: Literal["small", "paper"], output: Path) -> Path:
    """Write the tables as they stand: a page, the same for programs, and the figures that the page shows."""
    import json

    from training.reproduce.papers import paper_names, read_results
    from training.reproduce.results_table import as_json, build_results_tables, markdown

    results = [one for one in read_results(output, paper) if one.place.scale == scale]
    found = build_results_tables(table, results, scale)
    folder = output / paper if scale == "small" else output / f"{paper}-{scale}"
    folder.mkdir(parents=True, exist_ok=True)
    named = paper if paper in paper_names() else f"{paper}.yaml"
    asked = f"interlinear reproduce {named} --scale {scale}"
    page = folder / "table.md"
    pictures = draw_figures(table, found, results, folder)
    page.write_text(markdown(table, scale, found, results, asked, pictures), encoding="utf-8")
    (folder / "table.json").write_text(json.dumps(as_json(found), indent=1) + "\n", encoding="utf-8")
    return page


def log_tables(folder: Path, paper: str, scale: str, config: ReproduceConfig) -> None:
    """Keep the tables and their pictures with the run in MLflow that stands for them."""
    from registry.curves import find_or_create_group, log_files

    run_id = find_or_create_group(config.tracking, paper, f"{paper}.{scale}", {"table": paper, "scale": scale})
    log_files(config.tracking, run_id, folder)


def draw_figures(
    table: "PaperTables", found: "Sequence[ResultsTable]", results: "Sequence[Result]", folder: Path
) -> "dict[ResultsTable | str | None, list[str]]":
    """The table in one picture; of every standing its scores with their intervals, and BLEU by length; of every group
    its learning curves. Returns the files' names by what they are of: all (None), a standing, a group."""
    import numpy as np

    from seq2seq.figures.curves import Curve, Panel, learning_curves
    from seq2seq.figures.lengths import MIN_SENTENCES, score_by_length, score_curve_by_length
    from seq2seq.figures.systems import Comparison, SystemScore, system_comparison, system_comparisons
    from seq2seq.metrics.catalogue import select_metrics
    from training.reproduce.results_table import main_tables, published_label

    compared = {
        one: Comparison(
            f"{one.group}: {one.metric.upper()}, {one.data}, {one.test}",
            tuple(
                SystemScore(row.system, row.ours, row.low, row.high, row.p_value, published_label(row))
                for row in one.rows
            ),
        )
        for one in found
    }
    heading = f"{table.about.partition(',')[0]}, {results[0].place.scale} scale"
    system_comparisons([compared[one] for one in main_tables(table, found)], heading, folder / "table.svg")
    pictures: dict[ResultsTable | str | None, list[str]] = {None: ["table.svg"]}
    for one in found:
        drawn = []
        if len(one.rows) > 1:
            path = folder / f"{one.group}.{one.test}.{one.metric}.svg"
            drawn.append(system_comparison(compared[one].systems, compared[one].title, path))
        runs = {
            row.system: [
                result.tests[one.test]
                for result in results
                if (result.place.group, result.place.system) == (one.group, row.system)
            ]
            for row in one.rows
        }
        first = next(iter(runs.values()))[0]
        if one.metric == "bleu" and sum(length > 0 for length in first.lengths) >= MIN_SENTENCES:
            (bleu,) = select_metrics([one.metric], first.reading)
            lines = [  # of several seeds together
                score_curve_by_length(
                    system, first.lengths, bleu, np.sum([score_split.of(one.metric) for score_split in own], axis=0)
                )
                for system, own in runs.items()
            ]
            drawn.append(score_by_length(lines, "BLEU", folder / f"{one.group}.{one.test}.lengths.svg"))
        pictures[one] = [path.name for path in drawn]
    for group in dict.fromkeys(one.group for one in found):
        own = [result for result in results if result.place.group == group]
        systems = dict.fromkeys(row.system for one in found if one.group == group for row in one.rows)
        learnt = [
            Curve(name, tuple(tuple(p.bleu for p in r.curve) for r in own if r.place.system == name))
            for name in systems
        ]
        path = learning_curves([Panel("dev BLEU", tuple(learnt))], folder / f"{group}.curves.svg")
        pictures[group] = [path.name]
    return pictures
