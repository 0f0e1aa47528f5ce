"""Peak anonymous memory of `prepare` for a corpus and for one ten times as large.

    python benchmarks/prepare_memory.py [--lines 30000]

Prints the peak RssAnon of the process for both, and the ratio, which is to be at most 1.1.
"""

import argparse
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from seq2seq.text import TextConfig
from training.dataset import open_dataset
from training.prepare import prepare

WORDS = 50_000  # distinct ones, as frequent as words are


def write_corpus(folder: Path, lines: int) -> None:
    """A data set of generated words, 4 to 30 in a line."""
    random = np.random.default_rng(1)
    syllables = [
        f"{a}{b}" for a in "bdfgklmnprst" for b in ("a", "e", "i", "o", "u", "ä", "ö", "ei", "au", "ing", "er")
    ]
    forms = np.array(["".join(random.choice(syllables, random.integers(1, 5))) for _ in range(WORDS)])
    chances = 1 / np.arange(10, WORDS + 10)
    for field in ("source", "target"):
        with (folder / f"{field}.txt").open("w", encoding="utf-8") as file:
            for start in range(0, lines, 1000):
                lengths = random.integers(4, 31, min(1000, lines - start))
                words = iter(random.choice(forms, lengths.sum(), p=chances / chances.sum()))
                file.writelines(" ".join(next(words) for _ in range(length)) + ".\n" for length in lengths)
    fields = "{source: source.txt, target: target.txt}"
    (folder / "generated.yaml").write_text(
        "task: translation\nabout: generated words\nlicence: none\nlanguages: {source: de, target: en}\n"
        f"splits: {{train: {fields}, dev: {fields}}}\n"
    )


def prepare_in(folder: Path) -> None:
    config = TextConfig(units="bpe", vocabulary=8000)
    dataset = open_dataset(str(folder / "generated.yaml"), folder)
    prepare(dataset, {"source": config}, config, False, 100, folder / "prepared", progress=False)


def peak_memory(command: list[str]) -> tuple[float, float]:
    """Run a command; the peak of its anonymous memory in MB, and the seconds it took."""
    begun = time.monotonic()
    process = subprocess.Popen(command)
    peak = 0.0
    while process.poll() is None:
        peak = max(peak, anonymous(process.pid))
        time.sleep(0.02)
    if process.returncode:
        sys.exit(process.returncode)
    return peak, time.monotonic() - begun


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
    parser.add_argument("--prepare", type=Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.prepare:
        prepare_in(arguments.prepare)
        return
    peaks = []
    for lines in (arguments.lines, 10 * arguments.lines):
        with tempfile.TemporaryDirectory() as folder:
            write_corpus(Path(folder), lines)
            peak, seconds = peak_memory([sys.executable, __file__, "--prepare", folder])
        print(f"{lines:>10,} lines: peak RssAnon {peak:7.1f} MB, {seconds:6.1f} s")
        peaks.append(peak)
    print(f"ratio {peaks[1] / peaks[0]:.2f}")


if __name__ == "__main__":
    main()
