"""Runs the command-line program: `python -m interlinear`."""

from interlinear.cli import main

main()
