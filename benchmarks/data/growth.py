"""Memory growth of a command with the corpus: generated corpora, and the peak memory of a command."""

import argparse
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

from benchmarks.reporting import Report, say

WORDS = 50_000  # distinct words, with natural frequencies
MEASURED = (
    "The peak of RssAnon, the command and its children together, looked at 50 times a second, of `interlinear {}`."
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


def write_data_set(folder: Path, lines: int, dev_lines: int) -> Path:
    """A data set of generated words and its description."""
    for split, size in (("train", lines), ("dev", dev_lines)):
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
    return description


def peak_memory(command: list[str]) -> tuple[float, float]:
    """Run a command; returns the peak memory of it and its children, in MB, and its seconds."""
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
    """A process's anonymous memory in MB; 0 if it has ended."""
    try:
        status = Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return 0.0
    lines = (line for line in status.splitlines() if line.startswith("RssAnon:"))
    return sum(int(line.split()[1]) for line in lines) / 1024


def compare(
    name: str,
    title: str,
    description: str | None,
    lines: int,
    measure: Callable[[Path, int], tuple[float, float]],
    notes: tuple[str, ...],
) -> None:
    """A benchmark: `measure` returns peak MB and seconds for a number of lines, and is also run for `--times` as
    many."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--lines", type=int, default=lines)
    parser.add_argument("--times", type=int, default=10, help="how many times as many lines the large corpus has")
    parser.add_argument("--save", action="store_true", help="keep the result in benchmarks/results/")
    asked = parser.parse_args()
    peaks: dict[int, float] = {}
    rows = []
    for size in (asked.lines, asked.times * asked.lines):
        with tempfile.TemporaryDirectory(prefix="memory-") as folder:
            peaks[size], seconds = measure(Path(folder), size)
        say(f"{size:,} pairs: {peaks[size]:.1f} MB in {seconds:.0f} s")
        rows.append([f"{size:,}", f"{peaks[size]:.1f}", f"{seconds:.0f}"])
    small, large = peaks.values()
    rows.append(["ratio", f"{large / small:.2f}", ""])
    columns = ["pairs", "peak RssAnon, MB", "seconds"]
    Report(name, title, columns, rows, notes, {"megabytes": peaks, "ratio": large / small}).publish(asked.save)
