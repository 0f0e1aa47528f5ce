"""The command-line program `interlinear`, with one module for each command."""
