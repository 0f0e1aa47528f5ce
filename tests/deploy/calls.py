"""The options of a call of `interlinear`, as the command reads them."""

from collections.abc import Sequence
from dataclasses import asdict

from typer.main import get_command

from interlinear.cli import app
from interlinear.cli.commands.submit import training_options


def options_of(words: Sequence[str]) -> dict[str, object]:
    """The values of the options by their names; `words` begin with the command's name."""
    with get_command(app).make_context("interlinear", list(words)) as root:
        name, command, rest = root.command.resolve_command(root, [*root._protected_args, *root.args])
        with command.make_context(name, rest, parent=root) as called:
            trained = asdict(training_options(called, called.params["training"])) if name == "submit" else {}
            return root.params | trained | trained.get("log", {}) | called.params
