"""`python -m interlinear` is the console command."""

from interlinear.cli import main

main()
