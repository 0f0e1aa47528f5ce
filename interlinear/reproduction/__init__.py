"""The work of `interlinear reproduce`: trains and scores the runs of a paper's tables, and writes the pages."""
