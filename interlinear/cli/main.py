"""The console command `interlinear` and its subcommands.

Command modules import heavy packages inside their functions, so that `interlinear --help` answers at once.
"""

import os
import sys
from collections.abc import Sequence
from typing import Annotated

import typer
from typer.main import get_command

from interlinear.cli import console
from interlinear.cli.commands import data, figure, jobs, keys, suggestions
from interlinear.cli.commands.align import align
from interlinear.cli.commands.compare import compare
from interlinear.cli.commands.completion import COMPLETION, completion
from interlinear.cli.commands.demo import demo
from interlinear.cli.commands.distill import distill
from interlinear.cli.commands.evaluate import evaluate, evaluate_alignments, evaluate_outputs
from interlinear.cli.commands.features import features
from interlinear.cli.commands.info import info
from interlinear.cli.commands.models import models, promote
from interlinear.cli.commands.prepare import prepare
from interlinear.cli.commands.round_trip import round_trip
from interlinear.cli.commands.serve import serve
from interlinear.cli.commands.shortlist import shortlist
from interlinear.cli.commands.submit import submit
from interlinear.cli.commands.train import train
from interlinear.cli.commands.translate import translate
from interlinear.cli.commands.tune import tune
from interlinear.cli.help import App
from interlinear.cli.options import (
    PREPARED,
    RUNS,
    CompileSearch,
    DataRoot,
    Device,
    PrecisionName,
    PreparedFolder,
    RunsFolder,
    Tracking,
    UseShortlist,
)
from interlinear.installation import DISTRIBUTION, SAFE_PATH
from interlinear.memory_allocator import keep_freed_memory

MAKE, JUDGE, KEEP, USE = "Train a model", "Evaluate it", "Register it", "Use it"

app = App(
    name="interlinear",
    help="Train attention-based sequence-to-sequence models, store and serve them, and visualise their attention.",
)


def print_version(asked: bool) -> None:
    """Print the version and exit, if it is asked for."""
    if asked:
        from importlib.metadata import version

        print(f"interlinear {version(DISTRIBUTION)}")
        raise typer.Exit


@app.callback(invoke_without_command=True)
def main_options(
    context: typer.Context,
    version: Annotated[
        bool, typer.Option("--version", is_eager=True, callback=print_version, help="Print the version and exit.")
    ] = False,
    tracking: Tracking = None,
    data_root: DataRoot = None,
    prepared: PreparedFolder = PREPARED,
    runs: RunsFolder = RUNS,
    device: Device = "cpu",
    precision: PrecisionName = "fp32",
    compile_search: CompileSearch = "auto",
    use_shortlist: UseShortlist = False,
) -> None:
    if context.invoked_subcommand is None:
        print(context.get_help())


app.command(rich_help_panel=MAKE)(demo)
app.add_typer(data.app, name="data", rich_help_panel=MAKE)
app.command(rich_help_panel=MAKE)(prepare)
app.command(rich_help_panel=MAKE)(train)
app.command(rich_help_panel=MAKE)(tune)
app.command(rich_help_panel=MAKE)(distill)
app.command(rich_help_panel=MAKE)(round_trip)
app.command(rich_help_panel=MAKE, context_settings={"ignore_unknown_options": True})(submit)
app.add_typer(jobs.app, name="jobs", rich_help_panel=MAKE)
app.command(rich_help_panel=MAKE)(features)
app.command(rich_help_panel=JUDGE)(evaluate)
app.command(rich_help_panel=JUDGE)(evaluate_outputs)
app.command(rich_help_panel=JUDGE)(evaluate_alignments)
app.command(rich_help_panel=JUDGE)(compare)
app.command(rich_help_panel=JUDGE)(info)
app.add_typer(figure.app, name="figure", rich_help_panel=JUDGE)
app.command(rich_help_panel=KEEP)(models)
app.command(rich_help_panel=KEEP)(promote)
app.command(rich_help_panel=USE)(translate)
app.command(rich_help_panel=USE)(align)
app.command(rich_help_panel=USE)(shortlist)
app.command(rich_help_panel=USE)(serve)
app.add_typer(keys.app, name="keys", rich_help_panel=USE)
app.command(rich_help_panel=USE)(completion)
app.add_typer(suggestions.app, name="suggestions", rich_help_panel=USE)


def run(arguments: Sequence[str]) -> int:
    """Run a command in this process; returns its exit code."""
    command = get_command(app)

    def work() -> int | None:
        with command.make_context("interlinear", list(arguments)) as context:
            code: int | None = command.invoke(context)
            return code

    return console.exit_code_of(work)


def main() -> None:
    """Entry point of the console script."""
    os.environ.update(SAFE_PATH)
    if COMPLETION in os.environ:
        from typer.completion import completion_init  # type: ignore[attr-defined]

        completion_init()
        get_command(app).main(prog_name="interlinear")
    console.end_on_sigterm()
    keep_freed_memory()
    sys.exit(console.exit_code_of(console.write_utf8) or run(sys.argv[1:]))
