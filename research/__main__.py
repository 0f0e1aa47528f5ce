"""`python -m research`: the tables and figures of the papers, reproduced by training and from stored results."""

# ruff: noqa: E402
# The working folder is first on sys.path here, and may hide our modules: the check comes before they are imported.
from interlinear.hidden_modules import end_if_hidden

end_if_hidden("research")

import sys
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Annotated, Literal

import typer
from typer.main import get_command

from interlinear.cli.console import end_on_sigterm, exit_code_of, say
from interlinear.cli.options import (
    DataRoot,
    Gpu,
    PerGpu,
    PreparedFolder,
    RunsFolder,
    Tracking,
    TrainingCluster,
    check_per_gpu,
)
from interlinear.errors import UsageError
from research.figures import PaperFigures
from research.outputs import add_outputs, archive_file, as_text, read_outputs
from research.pages import page_folder, read_tables, score_kept_runs, write_tables
from research.papers import load_paper, paper_names, plan_runs
from research.records import ScaleName, read_results
from research.runs import (
    ReproduceConfig,
    check_starts,
    missing_runs,
    train_runs,
    training_command,
    training_stages,
    tune_systems,
    tuning_command,
)
from research.scoring import score_run
from research.tracking import find_or_create_group, log_files
from research.tunings import apply_tunings, read_tunings, tunings_to_do
from training.data.text_lines import read_file

PAPER_HELP = "word-attention, interactive-attention, uam, multi-source, multi30k, or a YAML file."
Paper = Annotated[str, typer.Argument(metavar="PAPER", show_default=False, help=PAPER_HELP)]
Scale = Annotated[ScaleName, typer.Option(help="Sizes for a small machine, or the paper's own.")]
Output = Annotated[Path, typer.Option(metavar="FOLDER", help="Folder for results and tables.")]
RESULTS = Path("research/results")

app = typer.Typer(
    help=__doc__,
    add_completion=False,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


@app.command()
def reproduce(
    paper: Paper,
    scale: Scale = "small",
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
    output: Output = RESULTS,
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
    rewritten after each run: OUTPUT/PAPER/table.md and .json. Outputs are stored too, in OUTPUT/outputs/PAPER.tar.xz:
    the statistics of each sentence, and scores that a table names later, are computed from them and the corpora.
    """
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
        commands = [tuning_command(key, untuned, config) for key in to_tune]
        for words in [*commands, *(training_command(run_key, table, config) for run_key in missing)]:
            print(" ".join(["interlinear", *words]))
        if to_tune:
            say("the values that a tuning chooses are added to the trainings of its system")
        return
    check_starts(missing, table, config)
    if to_tune:
        tunings = [*tunings, *tune_systems(to_tune, untuned, config)]
        table = apply_tunings(untuned, tunings)
        tuned_keys = plan_runs(paper, table, scale, seeds, only or ())
        missing = missing_runs(tuned_keys, read_results(output, paper), table, output)
    page = None if missing else write_tables(paper, table, scale, output, data_root, tunings)
    for stage in training_stages(missing, table):
        with closing(train_runs(stage, table, config)) as finished:
            for run_key in finished:
                score_run(run_key, table, config)
                page = write_tables(paper, table, scale, output, data_root, tunings)
                tags = {"table": paper, "scale": scale}
                log_files(tracking, find_or_create_group(tracking, paper, f"{paper}.{scale}", tags), page.parent)
    print(page)


@app.command()
def figures(
    papers: Annotated[
        list[str] | None, typer.Argument(metavar="[PAPER]...", show_default=False, help="Papers; else all.")
    ] = None,
    to: Annotated[Path, typer.Option("--to", metavar="FOLDER", help="Folder for the figures.")] = Path("build/figures"),
    suffix: Annotated[Literal["svg", "png", "pdf"], typer.Option("--format", help="Format of the files.")] = "svg",
    scale: Scale = "small",
    output: Annotated[Path, typer.Option(metavar="FOLDER", help="Folder of results and tables.")] = RESULTS,
    data_root: DataRoot = None,
) -> None:
    """Draw all figures of papers from their tables and stored results, into a folder for each; prints the folders.

    Systems with their intervals, BLEU by source length, learning curves, and contextual gates.
    """
    for name in papers or paper_names():
        untuned, paper = load_paper(name), Path(name).stem
        table = apply_tunings(untuned, read_tunings(output, paper, untuned, scale))
        tables = read_tables(page_folder(output, paper, scale))
        runs = score_kept_runs(paper, table, scale, output, data_root)
        PaperFigures(table, scale, tables, runs).draw(to / paper, f".{suffix}")
        print(to / paper)


@app.command()
def add(
    paper: Paper,
    files: Annotated[list[Path], typer.Argument(metavar="PAPER.GROUP.SYSTEM.SEED.TEST.gz...", show_default=False)],
    output: Output = RESULTS,
) -> None:
    """Store outputs of another toolkit's system, a line for each sentence: the tables show it beside ours."""
    table, paper = load_paper(paper), Path(paper).stem
    systems = {f"{paper}.{name}.{system}" for name, group in table.groups.items() for system in group.toolkit_systems}
    outputs = {}
    for file in files:
        run, _, test = file.name.removesuffix(".gz").rpartition(".")
        system, _, seed = run.rpartition(".")
        if system not in systems or not seed.isdecimal():
            raise UsageError(
                str(file),
                "it is not named after a system of another toolkit in the tables, a seed and a test set",
                f"name it like {min(systems, default=f'{paper}.GROUP.SYSTEM')}.1.test.gz",
            )
        outputs[run, test] = list(read_file(file))
    add_outputs(output, paper, outputs)
    print(archive_file(output, paper))


@app.command()
def unpack(
    paper: Paper, to: Annotated[Path, typer.Argument(metavar="FOLDER", show_default=False)], output: Output = RESULTS
) -> None:
    """Write the stored outputs of a paper's runs to a folder, as files RUN.TEST that `interlinear evaluate` scores."""
    load_paper(paper)
    to.mkdir(parents=True, exist_ok=True)
    for (run, test), lines in read_outputs(output, Path(paper).stem).items():
        (to / f"{run}.{test}").write_bytes(as_text(lines))
    print(to)


def run(arguments: Sequence[str]) -> int:
    """Run a command in this process; returns its exit code."""

    def work() -> int | None:
        with get_command(app).make_context("python -m research", list(arguments)) as context:
            code: int | None = get_command(app).invoke(context)
            return code

    return exit_code_of(work)


if __name__ == "__main__":
    end_on_sigterm()
    sys.exit(run(sys.argv[1:]))
