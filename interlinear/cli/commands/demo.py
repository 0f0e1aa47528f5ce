"""`interlinear demo`: runs the whole workflow once, by the same commands that a user would type."""

from pathlib import Path
from typing import Annotated

import typer


def demo(
    folder: Annotated[Path, typer.Option(metavar="FOLDER", help="Folder for all output.")] = Path("demo"),
) -> None:
    """Create a small corpus, train through Ray, register, evaluate, serve, translate, and stop all processes again.

    A second run reuses what exists: the corpus and its prepared form, and the model if neither code nor recipe changed.
    """
    from rich.console import Console

    from interlinear.cli.demo.demo_run import DemoRun

    folder.mkdir(parents=True, exist_ok=True)
    DemoRun(folder.resolve(), Console(highlight=False, soft_wrap=True)).run_workflow()
