"""Runs the parts one after the other, each in a process of its own, and ends those that take too long.

A GPU that has met an illegal access is lost to its process, and a kernel may hang: neither may end the other parts. A
process that was ended or has died is followed by another one, from the next case on.
"""

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.gpu.cases import Deadline, Row
from benchmarks.gpu.worker import DEVICE_LOST
from benchmarks.reporting import ROOT, say

POLL_SECONDS = 0.2
SILENCE = 90.0  # seconds without a record after which a case counts as hung: a compilation takes less
GRACE = 10.0  # seconds for a process to end by itself when its part's time is over
TESTS_SHARE = 0.3
TEST_FOLDERS = ("tests/seq2seq", "tests/training")
SUMMARY = re.compile(r"\d+ (passed|failed|skipped|error).* in [\d.]+s")  # pytest's last line


@dataclass
class Outcome:
    """What a part has brought until now."""

    rows: list[Row] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)
    cases: int = 0  # how many it has
    ended: int = 0  # how many of them were measured, as far as their time allowed
    seconds: float = 0.0
    running: bool = True


def run_part(
    command: Sequence[str],
    cases: int,
    records: Path,
    seconds: float,
    changed: Callable[[Outcome], None],
    silence: float = SILENCE,
) -> Outcome:
    """Run a part of so many cases for at most so many seconds.

    `command`: that of `benchmarks.gpu.worker`, to which --records, --first and --seconds are added. What it prints goes
    to a file beside the records. `changed` is called whenever there is something new.
    """
    outcome, deadline = Outcome(cases=cases), Deadline(seconds)
    records.unlink(missing_ok=True)
    log = records.with_suffix(".log")
    log.unlink(missing_ok=True)
    first = 0
    while first < cases and not deadline.passed:
        soft = max(0.0, deadline.remaining - GRACE)
        arguments = ["--records", str(records), "--first", str(first), "--seconds", f"{soft:.1f}"]

        def refresh() -> int:
            before = len(outcome.rows) + len(outcome.failures) + outcome.ended
            read_records(records, outcome)
            outcome.seconds = seconds - deadline.remaining
            if len(outcome.rows) + len(outcome.failures) + outcome.ended != before:
                changed(outcome)
            return records.stat().st_size if records.exists() else 0

        problem = run_process([*command, *arguments], log, deadline, refresh, silence)
        refresh()
        begun = last_begun(records)
        if problem is None:
            break
        if begun is None or begun < first:
            append(records, {"case": first, "error": f"its process {problem} before it began; see {log.name}"})
            first = cases
        else:
            if problem != f"ended with status {DEVICE_LOST}":
                append(records, {"case": begun, "error": f"its process {problem}; see {log.name}"})
            first = begun + 1
    read_records(records, outcome)
    outcome.seconds, outcome.running = seconds - deadline.remaining, False
    changed(outcome)
    return outcome


def run_process(
    command: Sequence[str],
    log: Path,
    deadline: Deadline,
    refresh: Callable[[], int],
    silence: float = float("inf"),
) -> str | None:
    """Run a process until it ends, its deadline passes, or `refresh` has returned the same for `silence` seconds.

    Returns what went wrong, or None. Everything that it prints is appended to `log`.
    """
    with log.open("ab") as output:
        process = subprocess.Popen(
            command,
            cwd=ROOT,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,  # so that what it starts, compilers for example, ends with it
        )
    try:
        size, since = refresh(), time.monotonic()
        while process.poll() is None:
            if deadline.passed:
                return "was stopped when the time of its part was over"
            if time.monotonic() - since > silence:
                return f"was stopped after {silence:.0f} s without a result"
            time.sleep(POLL_SECONDS)
            if (now := refresh()) != size:
                size, since = now, time.monotonic()
        status = process.returncode
        return None if status == 0 else f"ended with {f'status {status}' if status > 0 else signal_name(-status)}"
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def signal_name(number: int) -> str:
    return signal.Signals(number).name


def append(records: Path, record: Mapping[str, Any]) -> None:
    with records.open("a") as file:
        file.write(json.dumps(record) + "\n")


def read_lines(records: Path) -> list[dict[str, Any]]:
    """All complete records."""
    if not records.exists():
        return []
    complete, _, _ = records.read_text().rpartition("\n")
    return [json.loads(line) for line in complete.splitlines()]


def last_begun(records: Path) -> int | None:
    return max((line["case"] for line in read_lines(records) if "begin" in line), default=None)


def read_records(records: Path, outcome: Outcome) -> None:
    """Fill an outcome with what is recorded."""
    lines = read_lines(records)
    names = {line["case"]: line["begin"] for line in lines if "begin" in line}
    outcome.rows = [line["row"] for line in lines if "row" in line]
    outcome.ended = sum("end" in line for line in lines)
    outcome.failures = [f"{names.get(line['case'], 'start')}: {line['error']}" for line in lines if "error" in line]


def run_tests(on_gpu: bool, folder: Path, seconds: float) -> Outcome:
    """The tests that need a GPU; without one, those of the same files that run their code on the CPU."""
    files = sorted(str(path.relative_to(ROOT)) for test in TEST_FOLDERS for path in (ROOT / test).rglob("test_gpu*.py"))
    log = folder / "tests.log"
    log.unlink(missing_ok=True)
    # Without the project's own options, some of which need plugins of pytest.
    options = ["-q", "--import-mode=importlib", "-p", "no:cacheprovider", "-o", "addopts=", "--durations=10", "-rs"]
    command = [sys.executable, "-m", "pytest", *options, "-m", "gpu" if on_gpu else "not gpu", *files]
    deadline = Deadline(seconds)
    problem = run_process(command, log, deadline, lambda: 0)
    lines = log.read_text(errors="replace").splitlines()
    failures = [line for line in lines if line.startswith(("FAILED", "ERROR"))]
    if problem and not failures:
        failures = [f"pytest {problem}; see {log.name}"]
    summary = next((line.strip("= ") for line in reversed(lines) if SUMMARY.search(line)), "no summary")
    if problem is None and "passed" not in summary:
        failures.append(f"no test ran: {summary}")
    say(f"tests: {summary}")
    return Outcome([{"summary": summary}], failures, 1, int(problem is None), seconds - deadline.remaining, False)
