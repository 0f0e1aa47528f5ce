"""`interlinear tune`: runs a tuning, and prints its progress and its result."""
