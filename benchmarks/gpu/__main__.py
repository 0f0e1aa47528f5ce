"""Tests and measurements on a GPU in one call, in less than nine minutes.

    python -m benchmarks.gpu --output FOLDER [--only training search] [--device cpu --quick]

It needs the packages of benchmarks/gpu/requirements.txt beside torch and numpy, and no network. FOLDER receives
report.md and report.json, which are complete at every moment; for every part the records and what its process printed;
and the output of pytest. Exit status 1 means that something has failed, and the report says what.
"""

import argparse
import signal
import sys
from functools import partial
from pathlib import Path

import torch

from benchmarks.gpu.cases import Deadline, Setting
from benchmarks.gpu.report import TESTS, GpuReport
from benchmarks.gpu.run import TESTS_SHARE, run_part, run_tests
from benchmarks.gpu.worker import PARTS
from benchmarks.reporting import say
from interlinear.devices import check_device
from interlinear.errors import UsageError

MINUTES = 8.5
CHOICES = (TESTS, *(name for name in PARTS if name != "device"))
SHARES = {name: part.share for name, part in PARTS.items()} | {TESTS: TESTS_SHARE}


def run(asked: argparse.Namespace) -> int:
    """Run the chosen parts; returns the exit status. Raises UsageError."""
    check_device(asked.device)
    if asked.minutes <= 0:
        raise UsageError("--minutes", f"{asked.minutes} is no time", "leave it out for 8.5")
    asked.output.mkdir(parents=True, exist_ok=True)
    setting = Setting(torch.device(asked.device), asked.quick)
    report, deadline = GpuReport(asked.output, PARTS), Deadline(60 * asked.minutes)
    chosen = ["device", *(name for name in CHOICES if name in asked.only)]
    for number, name in enumerate(chosen):
        left = sum(SHARES[each] for each in chosen[number:])
        seconds = deadline.remaining * SHARES[name] / left  # what a part leaves over is for those after it
        say(f"{name}: {seconds:.0f} s at most")
        if name == TESTS:
            report.update(name, run_tests(setting.device.type == "cuda", asked.output, seconds))
            continue
        command = [sys.executable, "-m", "benchmarks.gpu.worker", name, "--device", asked.device]
        run_part(
            [*command, *(["--quick"] if asked.quick else [])],
            len(PARTS[name].cases(setting)),
            asked.output / f"{name}.jsonl",
            seconds,
            partial(report.update, name),
        )
    print(report.markdown())
    return 1 if report.failures else 0


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.gpu", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--output", type=Path, required=True, metavar="FOLDER")
    parser.add_argument("--device", default="cuda", help="default: cuda")
    parser.add_argument("--only", nargs="+", choices=CHOICES, default=CHOICES, help="the parts to run; default: all")
    parser.add_argument("--minutes", type=float, default=MINUTES, help=f"of all parts together; default: {MINUTES}")
    parser.add_argument("--quick", action="store_true", help="tiny models, to see that everything runs")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that the process of a part is ended too
    try:
        sys.exit(run(parser.parse_args()))
    except UsageError as error:
        sys.exit(f"benchmarks.gpu: {error}")


if __name__ == "__main__":
    main()
