"""`interlinear reproduce`: trains a paper's systems and writes tables that compare them with the published results."""

from contextlib import closing
from pathlib import Path
from typing import Annotated, Literal

import typer

from interlinear.console import say
from interlinear.options import (
    DataRoot,
    Gpu,
    PerGpu,
    PreparedFolder,
    RunsFolder,
    Tracking,
    TrainingCluster,
    check_per_gpu,
)
from interlinear.reproduction.result_pages import log_tables, write_tables
from interlinear.reproduction.run_scoring import score_run
from interlinear.reproduction.run_training import (
    ReproduceConfig,
    check_starts,
    missing_runs,
    train_runs,
    training_command,
    training_stages,
)
from interlinear.reproduction.system_tuning import tune_systems, tuning_command
from seq2seq.errors import UsageError

Paper = Annotated[
    str,
    typer.Argument(
        metavar="PAPER",
        show_default=False,
        help="word-attention, interactive-attention, uam, multi-source, multi30k, or a YAML file.",
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
    gpu: Gpu = False,
    per_gpu: PerGpu = 1,
    address: TrainingCluster = None,
    no_ray: Annotated[bool, typer.Option("--no-ray", help="Train without Ray.")] = False,
    tracking: Tracking = None,
    data_root: DataRoot = None,
    prepared: PreparedFolder = Path("prepared"),
    runs: RunsFolder = Path("runs"),
    dry: Annotated[bool, typer.Option("--dry-run", help="Print what would be trained, and exit.")] = False,
) -> None:
    """Train a paper's systems and compare their scores with the paper's.

    The result of each run is stored in a file when it ends: an interrupted command continues where it stopped, and
    completed runs are not repeated. Systems of a group with a budget of tuning are tuned first. The tables are
    rewritten after each run: OUTPUT/PAPER/table.md, .json and .svg. Outputs are stored too: scores that a table names
    later are computed from them.
    """
    from training.reproduce.papers import load_paper, plan_runs
    from training.reproduce.results import read_results
    from training.reproduce.tunings import apply_tunings, read_tunings, tunings_to_do

    untuned, paper = load_paper(paper), Path(paper).stem
    planned = plan_runs(paper, untuned, scale, seeds, only or ())
    if at_once > 1 and not address:
        raise UsageError("--at-once", "a machine of its own trains one system at a time", "name a cluster: --address")
    check_per_gpu(per_gpu, gpu)
    config = ReproduceConfig(
        output, runs, prepared, data_root, tracking, workers, gpu, address, no_ray, at_once, per_gpu
    )
    tunings = read_tunings(output, paper, untuned, scale)
    to_tune = tunings_to_do(planned, untuned, tunings)
    table = apply_tunings(untuned, tunings)
    run_keys = plan_runs(paper, table, scale, seeds, only or ())
    missing = missing_runs(run_keys, read_results(output, paper), table, output)
    say(f"{paper}: {len(run_keys)} runs, of which {len(run_keys) - len(missing)} are there already")
    if dry:
        for tuning_key in to_tune:
            print(" ".join(["interlinear", *tuning_command(tuning_key, untuned, config)]))
        for run_key in missing:
            print(" ".join(["interlinear", *training_command(run_key, table, config)]))
        if to_tune:
            say("the values that a tuning chooses are added to the trainings of its system")
        return
    check_starts(missing, table, config)
    if to_tune:
        tunings = [*tunings, *tune_systems(to_tune, untuned, config)]
        table = apply_tunings(untuned, tunings)
        tuned_keys = plan_runs(paper, table, scale, seeds, only or ())
        missing = missing_runs(tuned_keys, read_results(output, paper), table, output)
    page = None if missing else write_tables(paper, table, scale, config, tunings)
    for stage in training_stages(missing, table):
        with closing(train_runs(stage, table, config)) as finished:
            for run_key in finished:
                score_run(run_key, table, config)
                page = write_tables(paper, table, scale, config, tunings)
                log_tables(page.parent, paper, scale, config)
    print(page)
