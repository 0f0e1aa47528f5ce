"""Parallel text as users have it (two files, TSV, TMX, a folder of them): read, split, and described as a data set."""

from training.data.parallel.inputs import ParallelText, find_parallel_text, parse_languages
from training.data.parallel.split_folder import SplitFolder, make_dataset
from training.data.parallel.splitting import SplitCounts, SplitOptions, SplitSize

__all__ = [
    "ParallelText",
    "SplitCounts",
    "SplitFolder",
    "SplitOptions",
    "SplitSize",
    "find_parallel_text",
    "make_dataset",
    "parse_languages",
]
