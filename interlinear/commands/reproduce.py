"""`interlinear reproduce`: trains a paper's systems and writes tables that compare them with the published results."""

import subprocess
import sys
import time
from collections.abc import Generator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from interlinear.console import say
from interlinear.evaluation.reproduction import ReproduceConfig, score_run, system_run
from interlinear.evaluation.result_pages import log_tables, write_tables
from interlinear.options import DataRoot, PreparedFolder, Tracking
from seq2seq.errors import DataError, TrainingError, UsageError

if TYPE_CHECKING:
    from training.reproduce.papers import PaperTables, Result, RunKey

Paper = Annotated[
    str,
    typer.Argument(
        metavar="PAPER",
        show_default=False,
        help="word-attention, interactive-attention, uam, multi-source, or a YAML file.",
    ),
]


def reproduce(
    paper: Paper,
    scale: Annotated[
        Literal["small", "paper"],
        typer.Option(help="Sizes for a small machine, or the paper's own."),
    ] = "small",
    seeds: Annotated[
        int, typer.Option(min=1, metavar="N", help="Number of runs of each system, with seeds 1 to N.")
    ] = 1,
    only: Annotated[
        list[str] | None,
        typer.Option(
            metavar="GROUP|SYSTEM",
            show_default=False,
            help="A group of the paper's tables, GROUP/SYSTEM, or a core system; may be repeated.",
        ),
    ] = None,
    output: Annotated[Path, typer.Option(metavar="FOLDER", help="Folder for results and tables.")] = Path(
        "docs/results"
    ),
    workers: Annotated[int, typer.Option(min=1, metavar="N", help="Number of training processes.")] = 1,
    at_once: Annotated[int, typer.Option(min=1, metavar="N", help="Number of concurrent trainings, on a cluster.")] = 1,
    gpu: Annotated[bool, typer.Option("--gpu", help="A GPU for every worker.")] = False,
    address: Annotated[
        str | None, typer.Option(metavar="URI", show_default=False, help="A running Ray cluster; else one of its own.")
    ] = None,
    no_ray: Annotated[bool, typer.Option("--no-ray", help="Train without Ray.")] = False,
    tracking: Tracking = None,
    data_root: DataRoot = None,
    prepared: PreparedFolder = Path("prepared"),
    runs: Annotated[Path, typer.Option(metavar="FOLDER", help="Where runs are kept.")] = Path("runs"),
    dry: Annotated[bool, typer.Option("--dry-run", help="Print what would be trained, and exit.")] = False,
) -> None:
    """Train a paper's systems and compare their scores with the paper's.

    The result of each run is stored in a file when it ends: an interrupted command continues where it stopped, and
    completed runs are not repeated. The tables are rewritten after each run: OUTPUT/PAPER/table.md, .json and .svg.
    """
    from contextlib import closing

    from training.reproduce.papers import load_paper, plan_runs, read_results, result_file

    table, paper = load_paper(paper), Path(paper).stem
    run_keys = plan_runs(paper, table, scale, seeds, only or ())
    if at_once > 1 and not address:
        raise UsageError("--at-once", "a machine of its own trains one system at a time", "name a cluster: --address")
    config = ReproduceConfig(output, runs, prepared, data_root, tracking, workers, gpu, address, no_ray)
    stored = {result.place: result for result in read_results(output, paper)}
    for run_key in run_keys:
        if run_key in stored:
            check_same(run_key, stored[run_key], table, result_file(output, run_key))
    missing = [run_key for run_key in run_keys if run_key not in stored]
    say(f"{paper}: {len(run_keys)} runs, of which {len(run_keys) - len(missing)} are there already")
    if dry:
        for run_key in missing:
            print(" ".join(["interlinear", *training_command(run_key, table, config)]))
        return
    stages: list[list[RunKey]] = []  # a run comes in a later stage than the run whose weights it starts from
    for run_key in missing:
        start = table.groups[run_key.group].starts_from.get(run_key.system)
        last_stage = next(
            (i for i, stage in enumerate(stages) for other in stage if start and is_start_of(other, run_key, start)), -1
        )
        while len(stages) <= last_stage + 1:
            stages.append([])
        stages[last_stage + 1].append(run_key)
    page = None if missing else write_tables(paper, table, scale, output)
    for stage in stages:
        with closing(train_runs(stage, table, config, at_once)) as finished:
            for run_key in finished:
                score_run(run_key, table, config)
                page = write_tables(paper, table, scale, output)
                log_tables(page.parent, paper, scale, config)
    print(page)


def is_start_of(other: "RunKey", run_key: "RunKey", start: str) -> bool:
    """Whether a run is the one whose weights another run starts from."""
    return (other.group, other.seed, other.system) == (run_key.group, run_key.seed, start)


def check_same(run_key: "RunKey", result: "Result", table: "PaperTables", path: Path) -> None:
    """Raise DataError for a stored result whose training settings differ from the current ones."""
    current, stored = table.groups[run_key.group].training(run_key.system, run_key.scale), result.training
    if stored != current:
        raise DataError(
            str(path),
            f"the run was trained otherwise ({stored.recipe} on {stored.data}, {stored.settings}) than the table says",
            "remove it, and it is trained again; or name another folder by --output",
        )


def training_command(run_key: "RunKey", table: "PaperTables", config: ReproduceConfig) -> list[str]:
    """The arguments of `interlinear` that train a run, or resume it if it exists."""
    group = table.groups[run_key.group]
    training = group.training(run_key.system, run_key.scale)
    settings = {**training.settings, "training.seed": run_key.seed}
    if start := group.starts_from.get(run_key.system):
        settings["training.init_from"] = config.runs / str(run_key.model_copy(update={"system": start})) / "bundle"
    arguments = ["train", training.recipe, "--data", training.data, "--run", str(run_key)]
    arguments += [word for key, value in settings.items() for word in ("--set", f"{key}={value}")]
    arguments += ["--experiment", run_key.table, "--register", f"{run_key.table}.{run_key.group}.{run_key.system}"]
    arguments += ["--resume"] if (config.runs / str(run_key)).is_dir() else []
    return arguments + config.options()


def train_runs(
    stage: "Sequence[RunKey]", table: "PaperTables", config: ReproduceConfig, at_once: int
) -> "Generator[RunKey]":
    """Train runs with `interlinear train`, each in its own process; yields each run when it ends.

    Raises TrainingError if one fails, and SystemExit if one was interrupted. Runs still in progress are then
    terminated; they save a checkpoint.
    """
    waiting = list(stage)
    running: dict[RunKey, subprocess.Popen[bytes]] = {}
    try:
        while waiting or running:
            while waiting and len(running) < at_once:
                run_key = waiting.pop(0)
                arguments = [*training_command(run_key, table, config), "--parent", system_run(run_key, config)]
                say(f"{run_key}: interlinear {' '.join(arguments)}")
                # In its own session, out of reach of the terminal's Ctrl-C: a second signal would end it unsaved.
                running[run_key] = subprocess.Popen(
                    [sys.executable, "-m", "interlinear", *arguments], stdout=subprocess.DEVNULL, start_new_session=True
                )
            for run_key in [run_key for run_key, child in running.items() if child.poll() is not None]:
                code = running.pop(run_key).returncode
                if code > 128:
                    raise SystemExit(code)
                if code:
                    raise TrainingError(
                        str(run_key), "its training failed, as is said above", "the same command goes on with it"
                    )
                yield run_key
            time.sleep(0.2)
    finally:
        for child in running.values():
            child.terminate()
        for child in running.values():
            child.wait()
