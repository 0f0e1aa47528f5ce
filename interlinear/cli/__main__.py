"""`python -m interlinear.cli` is `python -m interlinear`."""

from interlinear.cli.main import main

main()
