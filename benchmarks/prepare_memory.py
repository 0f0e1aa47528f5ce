"""Peak anonymous memory of `interlinear prepare` for a corpus and for one ten times as large.

    python -m benchmarks.prepare_memory [--lines 30000] [--save]

The ratio of the two is to be at most 1.1.
"""

import argparse
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from benchmarks.reporting import Report, say

WORDS = 50_000  # distinct ones, as frequent as words are
DEV_LINES = 1000

NOTES = (
    "The peak of RssAnon, the command and its children together, looked at 50 times a second, of `interlinear prepare "
    f"rnnsearch` (8,000 subwords a side) on generated text: {WORDS:,} words as frequent as words are, 4 to 30 a line.",
    "What grows at all is the list of distinct words that a vocabulary is learned from.",
)


def write_corpus(folder: Path, lines: int) -> None:
    """source.txt and target.txt of generated words, 4 to 30 in a line."""
    random = np.random.default_rng(1)
    syllables = [f"{a}{b}" for a in "bdfgklmnprst" for b in ("a", "e", "i", "o", "u", "ä", "ö", "ei", "au", "ing")]
    forms = np.array(["".join(random.choice(syllables, random.integers(1, 5))) for _ in range(WORDS)])
    chances = 1 / np.arange(10, WORDS + 10)
    for field in ("source", "target"):
        with (folder / f"{field}.txt").open("w", encoding="utf-8") as file:
            for start in range(0, lines, 1000):
                lengths = random.integers(4, 31, min(1000, lines - start))
                words = iter(random.choice(forms, lengths.sum(), p=chances / chances.sum()))
                file.writelines(" ".join(next(words) for _ in range(length)) + ".\n" for length in lengths)


def prepare(folder: Path, lines: int) -> tuple[float, float]:
    """MB at the peak of preparing so many lines, and the seconds that it took."""
    for split, size in (("train", lines), ("dev", DEV_LINES)):
        (folder / split).mkdir()
        write_corpus(folder / split, size)
    splits = "".join(
        f"  {split}: {{source: {split}/source.txt, target: {split}/target.txt}}\n" for split in ("train", "dev")
    )
    description = folder / "generated.yaml"
    description.write_text(
        "task: translation\nabout: generated words\nlicence: none\nlanguages: {source: de, target: en}\n"
        f"splits:\n{splits}"
    )
    words = ["rnnsearch", "--data", str(description), "--prepared", str(folder / "prepared")]
    return peak_memory([sys.executable, "-m", "interlinear", "prepare", *words])


def peak_memory(command: list[str]) -> tuple[float, float]:
    """Run a command; the peak of what it and its children hold, in MB, and the seconds it took."""
    begun = time.monotonic()
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    peak = 0.0
    while process.poll() is None:
        peak = max(peak, sum(map(anonymous, [process.pid, *children(process.pid)])))
        time.sleep(0.02)
    if process.returncode:
        sys.exit(process.returncode)
    return peak, time.monotonic() - begun


def children(parent: int) -> list[int]:
    """Processes below a process."""
    try:
        below = [int(pid) for pid in Path(f"/proc/{parent}/task/{parent}/children").read_text().split()]
    except OSError:
        return []
    return below + [pid for child in below for pid in children(child)]


def anonymous(pid: int) -> float:
    """A process's anonymous memory in MB; 0 when it is gone."""
    try:
        status = Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return 0.0
    lines = (line for line in status.splitlines() if line.startswith("RssAnon:"))
    return sum(int(line.split()[1]) for line in lines) / 1024


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--lines", type=int, default=30_000)
    parser.add_argument("--save", action="store_true", help="keep the result in benchmarks/results/")
    asked = parser.parse_args()
    peaks: dict[int, float] = {}
    rows = []
    for lines in (asked.lines, 10 * asked.lines):
        with tempfile.TemporaryDirectory(prefix="memory-") as folder:
            peaks[lines], seconds = prepare(Path(folder), lines)
        say(f"{lines:,} pairs: {peaks[lines]:.1f} MB in {seconds:.0f} s")
        rows.append([f"{lines:,}", f"{peaks[lines]:.1f}", f"{seconds:.0f}"])
    small, large = peaks.values()
    rows.append(["ratio", f"{large / small:.2f}", ""])
    Report(
        "prepare_memory",
        "Memory of preparing as the corpus grows",
        ["pairs", "peak RssAnon, MB", "seconds"],
        rows,
        NOTES,
        {"megabytes": peaks, "ratio": large / small},
    ).publish(asked.save)


if __name__ == "__main__":
    main()
