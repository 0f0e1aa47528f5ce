"""Peak anonymous memory of `interlinear train` for a corpus and for one that is ten times as large.

    python -m benchmarks.training.memory [--lines 20000] [--save]

Both are prepared first, in separate processes, and then trained on for one epoch, from start to bundle. The ratio of
the two must be at most 1.1.
"""

import subprocess
import sys
from pathlib import Path

from benchmarks.data.growth import MEASURED, compare, peak_memory, write_data_set

DEV_LINES = 200
SETTINGS = (
    "model.embedding=64",
    "model.hidden=64",
    "training.epochs=1",
    "training.batch_tokens=1500",
)

NOTES = (
    f"{MEASURED.format('train --no-ray --no-tracking')} One epoch: it reads prepared arrays, plans the epoch, trains, "
    f"judges on a dev set of {DEV_LINES} lines, and writes checkpoints and the bundle. A small model (embedding and "
    "hidden 64, 8,000 subwords a side, 1,500 target tokens a batch), beside which what grows with the corpus would "
    "show. What new shapes of batches leave behind in pieces is given back every 20 seconds. Preparing is measured by "
    "prepare_memory.",
)


def train(folder: Path, lines: int) -> tuple[float, float]:
    """Peak MB of one epoch, and its seconds."""
    words = ["rnnsearch", "--data", str(write_data_set(folder, lines, DEV_LINES))]
    words += ["--prepared", str(folder / "prepared")]
    words += [word for setting in SETTINGS for word in ("--set", setting)]
    interlinear = [sys.executable, "-m", "interlinear"]
    subprocess.run([*interlinear, "prepare", *words], check=True, stdout=subprocess.DEVNULL)
    return peak_memory([*interlinear, "train", *words, "--runs", str(folder / "runs"), "--no-ray", "--no-tracking"])


if __name__ == "__main__":
    compare("training_memory", "Memory of training as the corpus grows", __doc__, 20_000, train, NOTES)
