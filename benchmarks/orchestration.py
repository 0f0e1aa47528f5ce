"""What Ray and MLflow cost over the bare loop, and what a second worker brings.

    python -m benchmarks.orchestration [--rounds 3] [--updates 80] [--threads 1] [--save]

Everything is a process of its own, in turns: the loop alone, on Ray with one worker, on Ray with MLflow; then one
worker with 64 sentences a batch, and two with 128 together, on Ray, a thread each.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path
from statistics import mean
from typing import Any

from benchmarks.peers import write_data
from benchmarks.reporting import ROOT, Report, alone, median, say, table_number

SENTENCES = 64  # a worker
PARTS = ("sum", "update", "waiting")

NOTES = (
    "The reference model of benchmarks/reference.yaml in bf16. Seconds an update and tokens a second are those that "
    "the loop reports, about once a second, measured in the worker from one report to the next with all between; "
    "the first thirty updates are left out. A figure is a run's mean, and of the rounds the median.",
    "*Cost* compares the same updates of the same data. *Gain* compares target tokens a second of two workers, one "
    "thread each, with one worker, one thread; 64 sentences a worker.",
    "The sums of the gradients were timed in two processes without Ray, behind a barrier that takes the waiting for "
    "the slower one out of them: as the loop has them (*exchange*), in memory that both see, and through gloo "
    "(*all-reduce*).",
)


@dataclass(frozen=True)
class Run:
    """One way to train: what paced.py is told."""

    name: str
    how: str
    threads: int
    workers: int = 1
    sentences: int = 32


def run(folder: Path, one: Run, updates: int) -> dict[str, Any]:
    """Run it in a process of its own, on a calm machine; its record, and how it was disturbed."""
    output = folder / "record.json"
    output.unlink(missing_ok=True)
    settings = [f"training.batch_sentences={one.sentences}", "training.precision=bf16", "training.epochs=2"]
    command = [sys.executable, "-m", "benchmarks.paced", str(folder), str(output), one.how]
    command += ["--workers", str(one.workers), "--updates", str(updates)]
    command += [word for setting in settings for word in ("--set", setting)]
    environment = os.environ | {"OMP_NUM_THREADS": str(one.threads), "PYTHONPATH": str(ROOT)}
    with (folder / "log").open("w") as log, alone():
        subprocess.run(command, cwd=folder, env=environment, stdout=log, stderr=subprocess.STDOUT, check=False)
    if not output.exists():
        sys.exit(f"{one.name} ended without a record: {(folder / 'log').read_text()[-2000:]}")
    record: dict[str, Any] = json.loads(output.read_text())
    return record


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--updates", type=int, default=120)
    parser.add_argument("--threads", type=int, default=1, help="of the one worker whose cost is measured")
    parser.add_argument("--save", action="store_true", help="keep the result in benchmarks/results/")
    asked = parser.parse_args()
    costs = [Run(how, how, asked.threads) for how in ("bare", "ray", "ray+mlflow")]
    one = Run("one worker", "ray", 1, 1, SENTENCES)
    two = Run("two workers", "ray", 1, 2, 2 * SENTENCES)
    sums = [Run(how, how, 1, 2, 2 * SENTENCES) for how in ("exchange", "all-reduce")]

    records: dict[str, list[dict[str, Any]]] = defaultdict(list)
    with tempfile.TemporaryDirectory(prefix="orchestration-") as scratch:
        folder = Path(scratch)
        write_data.main(folder / "data")
        for _ in range(asked.rounds):
            for each in [*costs, one, two]:
                record = run(folder, each, asked.updates)
                records[each.name].append(record)
                say(f"{each.name}: {mean(record['tokens']):.0f} target tokens a second")
            for each in sums:
                record = run(folder, each, asked.updates)
                records[each.name].append(record)
                say(f"{each.name}: {1000 * record['sum']:.1f} ms of {1000 * record['update']:.1f}")

    def middle(each: Run, what: str) -> float:
        return median([mean(record[what]) for record in records[each.name]])

    bare = middle(costs[0], "seconds")
    rows = [
        [f"{each.name}, 1 worker, {asked.threads} threads", f"{1000 * middle(each, 'seconds'):.1f}",
         table_number(middle(each, "tokens")), f"cost {100 * (middle(each, 'seconds') / bare - 1):+.1f} %"]
        for each in costs
    ]  # fmt: skip
    gain = middle(two, "tokens") / middle(one, "tokens")
    rows += [
        [f"ray, {each.name}, {each.sentences} sentences", f"{1000 * middle(each, 'seconds'):.1f}",
         table_number(middle(each, "tokens")), f"gain x {gain:.2f}" if each is two else ""]
        for each in (one, two)
    ]  # fmt: skip
    for each in sums:
        took, update, waiting = (median([record[what] for record in records[each.name]]) for what in PARTS)
        rows.append([
            f"the sum by {each.name}", f"{1000 * took:.1f}", "",
            f"{took / update:.1%} of an update of {1000 * update:.1f} ms; waiting {waiting / update:.1%}",
        ])  # fmt: skip
    Report(
        "orchestration",
        "Ray, MLflow and a second worker",
        ["", "ms an update", "tokens/s", ""],
        rows,
        NOTES,
        {"runs": dict(records)},
    ).publish(asked.save)


if __name__ == "__main__":
    main()
