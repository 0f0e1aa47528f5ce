"""How good alignments, tags in their places and doubts are: measured by the runner of `benchmarks`."""
