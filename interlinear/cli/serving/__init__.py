"""How `interlinear serve` runs the service: its settings, in this process, or on Ray Serve."""
