"""Peak anonymous memory of `interlinear prepare` for a corpus and for one some times as large.

    python -m benchmarks.data.prepare_memory [--lines 30000] [--times 10] [--save]
    python -m benchmarks.data.prepare_memory --lines 200000 --times 20

The ratio of the two must be at most 1.1.
"""

import sys
from pathlib import Path

from benchmarks.data.growth import MEASURED, WORDS, compare, peak_memory, write_data_set

DEV_LINES = 1000

NOTES = (
    f"{MEASURED.format('prepare rnnsearch')} 8,000 subwords a side, generated text: {WORDS:,} words as frequent as "
    "words are, 4 to 30 a line. What grows at all is the list of distinct words that a vocabulary is learned from.",
)


def prepare(folder: Path, lines: int) -> tuple[float, float]:
    """Peak MB of preparing so many lines, and its seconds."""
    words = ["rnnsearch", "--data", str(write_data_set(folder, lines, DEV_LINES))]
    return peak_memory([sys.executable, "-m", "interlinear", "prepare", *words, "--prepared", str(folder / "prepared")])


if __name__ == "__main__":
    compare("prepare_memory", "Memory of preparing as the corpus grows", __doc__, 30_000, prepare, NOTES)
