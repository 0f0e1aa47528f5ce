"""The command `interlinear`; `commands/` has a module for each of its commands."""

from interlinear.cli.main import app, main, run

__all__ = ["app", "main", "run"]
