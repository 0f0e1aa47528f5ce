"""Overhead of Ray and MLflow over the bare loop, and the speedup of a second worker.

    python -m benchmarks.training.orchestration [--rounds 3] [--updates 120] [--threads 1] [--save]

Every run is a process of its own, interleaved: the bare loop, Ray with one worker, Ray with MLflow; then one worker
with 64 sentences a batch, and two workers with 128 together, one thread each: without Ray and on Ray.
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

SENTENCES = 64  # per worker

NOTES = (
    "The reference model of benchmarks/reference.yaml in bf16. Seconds an update and tokens a second are those that "
    "the loop reports, about once a second, measured in the worker from one report to the next with all between; "
    "the first thirty updates are left out. A figure is a run's mean, and of the rounds the median.",
    "*Cost* compares the same updates of the same data. *Gain* compares target tokens a second of two workers, one "
    "thread each, with one worker, one thread; 64 sentences a worker.",
    "Two workers without Ray are two processes under torch.distributed, which sum their gradients as the loop has it, "
    "in memory that both see (*exchange*), or through gloo (*all-reduce*); the sum is timed behind a barrier that "
    "takes the waiting for the slower one out of it. On Ray they sum in shared memory too, and share the machine with "
    "Ray's own processes.",
)


@dataclass(frozen=True)
class Run:
    """One configuration: the arguments of paced.py."""

    name: str
    how: str
    threads: int
    workers: int = 1
    sentences: int = 32


def run(folder: Path, one: Run, updates: int) -> dict[str, Any]:
    """Run it in a separate process, on an idle machine; returns its result, and the processor share of other
    programs."""
    output = folder / "record.json"
    output.unlink(missing_ok=True)
    settings = [f"training.batch_sentences={one.sentences}", "training.precision=bf16", "training.epochs=2"]
    command = [sys.executable, "-m", "benchmarks.training.paced", str(folder), str(output), one.how]
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
    ones = {how: Run(f"{how}, one worker", how, 1, 1, SENTENCES) for how in ("bare", "ray")}
    twos = {how: Run(f"{how}, two workers", how, 1, 2, 2 * SENTENCES) for how in ("exchange", "all-reduce", "ray")}

    records: dict[str, list[dict[str, Any]]] = defaultdict(list)
    with tempfile.TemporaryDirectory(prefix="orchestration-") as scratch:
        folder = Path(scratch)
        write_data.main(folder / "data")
        for _ in range(asked.rounds):
            for each in [*costs, *ones.values(), *twos.values()]:
                record = run(folder, each, asked.updates)
                records[each.name].append(record)
                say(f"{each.name}: {mean(record['tokens']):.0f} target tokens a second")

    def middle(each: Run, what: str) -> float:
        return median([mean(record[what]) for record in records[each.name]])

    def row(each: Run, said: str) -> list[str]:
        milliseconds = f"{1000 * middle(each, 'seconds'):.1f}"
        return [f"{each.name}, {each.sentences} sentences", milliseconds, table_number(middle(each, "tokens")), said]

    def parts(each: Run) -> str:
        took, waiting = (median([record[what] for record in records[each.name]]) for what in ("sum", "waiting"))
        return f"; sum {1000 * took:.1f} ms, waiting {1000 * waiting:.1f} ms"

    bare = middle(costs[0], "seconds")
    rows = [row(each, f"cost {100 * (middle(each, 'seconds') / bare - 1):+.1f} %") for each in costs]
    rows += [row(each, "") for each in ones.values()]
    for how, each in twos.items():
        gain = middle(each, "tokens") / middle(ones["ray" if how == "ray" else "bare"], "tokens")
        rows.append(row(each, f"gain x {gain:.2f}{'' if how == 'ray' else parts(each)}"))
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
