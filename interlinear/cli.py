"""The console command `interlinear`: its verbs, in the order in which one meets them.

A verb's module imports what is heavy inside its function, so that `interlinear --help` answers at once.
"""

import sys
from typing import Annotated

import typer

from interlinear import terminal

app = typer.Typer(
    name="interlinear",
    help="Train attention-based sequence-to-sequence models, keep them, serve them - and see what they looked at.",
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


@app.callback(invoke_without_command=True)
def front(
    context: typer.Context,
    version: Annotated[bool, typer.Option("--version", help="Print the version and end.")] = False,
) -> None:
    if version:
        from importlib.metadata import version as installed

        print(f"interlinear {installed('interlinear')}")
        raise typer.Exit
    if context.invoked_subcommand is None:
        print(context.get_help())


def run(arguments: list[str]) -> int:
    """Run the command in this process; returns its exit code."""
    return terminal.exit_code_of(lambda: app(arguments, prog_name="interlinear", standalone_mode=False))


def main() -> None:
    """The console script."""
    terminal.end_on_sigterm()
    sys.exit(run(sys.argv[1:]))
