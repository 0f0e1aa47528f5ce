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
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.gpu.cases import Deadline, Row
from benchmarks.gpu.worker import DEVICE_LOST
from benchmarks.reporting import ROOT

POLL_SECONDS = 0.2
SILENCE = 90.0  # seconds without a record after which a case counts as hung: a compilation takes less
GRACE = 10.0  # seconds for a process to end by itself when its part's time is over
TESTS_SHARE = 0.3
TEST_FOLDERS = ("tests/interlinear", "tests/training")
PYTEST = (  # without the project's own options, some of which need plugins of pytest
    *("-v", "--import-mode=importlib", "-p", "no:cacheprovider", "-o", "addopts=", "--durations=10", "-rsfE"),
)
NO_TESTS = 5  # pytest's status where no test was chosen
OVERDUE = "was stopped when the time of its part was over"
SUMMARY = re.compile(r"\d+ (passed|failed|skipped|deselected|error).* in [\d.]+s")  # pytest's last line


@dataclass
class Outcome:
    """What a part has brought until now."""

    rows: list[Row] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)
    cut: str | None = None  # the case that was being measured when the time was over
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
            break
        if problem == OVERDUE and outcome.rows:
            append(records, {"case": begun, "cut": True})
        elif problem != f"ended with status {DEVICE_LOST}":
            append(records, {"case": begun, "error": f"its process {problem}; see {log.name}"})
        first = begun + 1
    read_records(records, outcome)
    outcome.seconds, outcome.running = seconds - deadline.remaining, False
    changed(outcome)
    return outcome


@contextmanager
def started(command: Sequence[str], log: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A process that is ended at the end, with all that it has started. What it prints is appended to `log`."""
    with log.open("ab") as output:
        process = subprocess.Popen(command, cwd=ROOT, stdout=output, stderr=subprocess.STDOUT, start_new_session=True)
    try:
        yield process
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def run_process(
    command: Sequence[str], log: Path, deadline: Deadline, refresh: Callable[[], int], silence: float
) -> str | None:
    """Run a process until it ends, its deadline passes, or `refresh` has returned the same for `silence` seconds.

    Returns what went wrong, or None.
    """
    with started(command, log) as process:
        size, since = refresh(), time.monotonic()
        while process.poll() is None:
            if deadline.passed:
                return OVERDUE
            if time.monotonic() - since > silence:
                return f"was stopped after {silence:.0f} s without a result"
            time.sleep(POLL_SECONDS)
            if (now := refresh()) != size:
                size, since = now, time.monotonic()
        return describe_status(process.returncode)


def describe_status(status: int | None) -> str | None:
    """What went wrong in a process, or None. `status`: None if it has not ended."""
    if status is None:
        return OVERDUE
    if status == 0:
        return None
    return f"ended with {f'status {status}' if status > 0 else signal.Signals(-status).name}"


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
    outcome.cut = next((names[line["case"]] for line in lines if "cut" in line), None)
    outcome.failures = [f"{names.get(line['case'], 'start')}: {line['error']}" for line in lines if "error" in line]


def run_tests(on_gpu: bool, folder: Path, seconds: float) -> Outcome:
    """The tests that need a GPU, each file in a process of its own, all at once; without a GPU those of the same files
    that run their code on the CPU, one after the other."""
    deadline = Deadline(seconds)
    files = sorted(path.relative_to(ROOT) for test in TEST_FOLDERS for path in (ROOT / test).rglob("test_gpu*.py"))
    outcome = Outcome(cases=len(files), running=False)
    for group in [files] if on_gpu else [[file] for file in files]:
        logs = [folder / f"{'-'.join(file.with_suffix('').parts)}.log" for file in group]
        with ExitStack() as stack:
            processes = []
            for file, log in zip(group, logs, strict=True):
                log.unlink(missing_ok=True)
                command = [sys.executable, "-m", "pytest", *PYTEST, "-m", "gpu" if on_gpu else "not gpu", str(file)]
                processes.append(stack.enter_context(started(command, log)))
            while any(process.poll() is None for process in processes) and not deadline.passed:
                time.sleep(POLL_SECONDS)
            statuses = [process.poll() for process in processes]
        for file, log, status in zip(group, logs, statuses, strict=True):
            found = read_test_log(log.read_text(errors="replace"), status)
            if status == NO_TESTS and not on_gpu:  # all of them need one
                found = FileResult(found.summary, [])
            outcome.rows.append({"file": str(file), "result": found.summary})
            outcome.failures += [f"{failure}; see {log.name}" for failure in found.failures]
            outcome.ended += status is not None
    outcome.seconds = seconds - deadline.remaining
    return outcome


@dataclass(frozen=True)
class FileResult:
    """What a file of tests has brought: pytest's last line, and what has failed."""

    summary: str
    failures: list[str]


def read_test_log(text: str, status: int | None) -> FileResult:
    """The result of what pytest has printed; `status`: how it ended, None where it was ended."""
    lines = text.splitlines()
    failures = [line for line in lines if line.startswith(("FAILED", "ERROR"))]
    passed = sum(" PASSED" in line for line in lines)
    summary = next(
        (line.strip("= ") for line in reversed(lines) if SUMMARY.search(line)), f"{passed} passed before it ended"
    )
    problem = describe_status(status)
    if problem and not failures:
        failures = [f"pytest {problem}: {summary}"]
    elif not passed:
        failures = [f"no test ran: {summary}"]
    return FileResult(summary, failures)
