"""`interlinear completion`: the script by which a shell completes commands, options and names."""

from typing import Annotated, Literal

import typer

COMPLETION = "_INTERLINEAR_COMPLETE"  # a shell sets it where it asks for completions


def completion(
    shell: Annotated[
        Literal["bash", "zsh", "fish"], typer.Argument(metavar="bash|zsh|fish", show_default=False, help="The shell.")
    ],
) -> None:
    """Print a script for a shell, which completes commands, options, recipes and data sets."""
    from typer.completion import get_completion_script  # type: ignore[attr-defined]

    print(get_completion_script(prog_name="interlinear", complete_var=COMPLETION, shell=shell))
