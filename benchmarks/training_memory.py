"""Peak anonymous memory of `interlinear train` for a corpus and for one ten times as large.

    python -m benchmarks.training_memory [--lines 20000] [--save]

Both are prepared first, by a process of their own, and then trained on for one epoch, from start to bundle.
"""

import argparse
import subprocess
import sys
import tempfile
from pathlib import Path

from benchmarks.prepare_memory import peak_memory, write_corpus
from benchmarks.reporting import Report, say

DEV_LINES = 200
SETTINGS = (
    "model.embedding=64",
    "model.hidden=64",
    "training.epochs=1",
    "training.batch_tokens=1500",
)

NOTES = (
    "The peak of RssAnon, the command and its children together, looked at 50 times a second, of `interlinear train "
    "--no-ray --no-tracking` for one epoch: it reads prepared arrays, plans the epoch, trains, judges on a dev set of "
    f"{DEV_LINES} lines, and writes checkpoints and the bundle. A small model (embedding and hidden 64, 8,000 subwords "
    "a side, 1,500 target tokens a batch), beside which what grows with the corpus would show. Preparing is measured "
    "by prepare_memory.",
)


def write_data_set(folder: Path, lines: int) -> Path:
    """A data set of generated words, as its description says; all sizes have the same dev set."""
    for split, size in (("train", lines), ("dev", DEV_LINES)):
        (folder / split).mkdir()
        write_corpus(folder / split, size)
    splits = "".join(
        f"  {split}: {{source: {split}/source.txt, target: {split}/target.txt}}\n" for split in ("train", "dev")
    )
    description = folder / "memory.yaml"
    description.write_text(
        "task: translation\nabout: generated words\nlicence: none\nlanguages: {source: de, target: en}\n"
        f"splits:\n{splits}"
    )
    return description


def train(folder: Path, lines: int) -> tuple[float, float]:
    """MB at the peak of one epoch, and the seconds that it took."""
    description = write_data_set(folder, lines)
    words = ["rnnsearch", "--data", str(description), "--prepared", str(folder / "prepared")]
    words += [word for setting in SETTINGS for word in ("--set", setting)]
    interlinear = [sys.executable, "-m", "interlinear"]
    subprocess.run([*interlinear, "prepare", *words], check=True, stdout=subprocess.DEVNULL)
    return peak_memory([*interlinear, "train", *words, "--runs", str(folder / "runs"), "--no-ray", "--no-tracking"])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--lines", type=int, default=20_000)
    parser.add_argument("--save", action="store_true", help="keep the result in benchmarks/results/")
    asked = parser.parse_args()
    peaks: dict[int, float] = {}
    rows = []
    for lines in (asked.lines, 10 * asked.lines):
        with tempfile.TemporaryDirectory(prefix="memory-") as folder:
            peaks[lines], seconds = train(Path(folder), lines)
        say(f"{lines:,} pairs: {peaks[lines]:.1f} MB in {seconds:.0f} s")
        rows.append([f"{lines:,}", f"{peaks[lines]:.1f}", f"{seconds:.0f}"])
    small, large = peaks.values()
    rows.append(["ratio", f"{large / small:.2f}", ""])
    Report(
        "training_memory",
        "Memory of training as the corpus grows",
        ["pairs", "peak RssAnon, MB", "seconds"],
        rows,
        NOTES,
        {"megabytes": peaks, "ratio": large / small},
    ).publish(asked.save)


if __name__ == "__main__":
    main()
