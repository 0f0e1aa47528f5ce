"""The commands of `interlinear`, one module each."""
