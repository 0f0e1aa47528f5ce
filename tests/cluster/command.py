"""`interlinear train` on a host, in a pseudo-terminal where it prints every step; its output is recorded with times."""

import itertools
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Self

import psutil

from tests.cluster.hosts import PORT, Host, wait_until
from tests.training.toy import SETTINGS
from training.loop.checkpoints.checkpoint_upload import complete_states
from training.storage.storage import Storage

STEP = re.compile(r"step ([\d,]+)/")
ONWARDS = re.compile(r"going on after update ([\d,]+)")
SAVED = 2.0  # seconds between two states
EPOCH = re.compile(r"epoch \d+  loss")
PATIENT = ("training.patience=1000000", "training.batch_tokens=200", f"training.save_minutes={SAVED / 60}")


@dataclass(frozen=True)
class OutputLine:
    """A line of the command's output, and its arrival by the monotonic clock."""

    text: str
    at: float


class Training:
    """The command, in a process of the host. Its run is stored in the folder that the hosts share, or on a storage."""

    def __init__(
        self,
        host: Host,
        run: str,
        *more: str,
        settings: tuple[str, ...] = (),
        seconds: float = 25.0,
        address: str | None = None,
        storage: Storage | None = None,
        **environment: str,
    ) -> None:
        """Train for as many epochs as one worker completes in that many `seconds`."""
        epochs = f"training.epochs={max(12, round(seconds / host.epoch_seconds))}"
        given = [word for one in (*SETTINGS, *PATIENT, epochs, *settings) for word in ("--set", one)]
        if address:
            given += ["--address", f"{address}:{PORT}"]
        if storage:
            given += ["--storage", storage.uri]
        ours, theirs = os.openpty()
        self.folder, self.storage = host.seen(host.folder.parent / "runs" / run), storage
        self.said: list[OutputLine] = []
        self.process = host.run(
            sys.executable, "-m", "interlinear", "train", "rnnsearch", "--data", "toy.yaml", "--tracking", "none",
            "--run", run, *given, *more, output=theirs, **environment,
        )  # fmt: skip
        os.close(theirs)
        self.reader = threading.Thread(target=self.read, args=(ours,), daemon=True)
        self.reader.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """However the test ends, the command and Ray's workers are ended."""
        if self.process.poll() is None:
            self.signal(signal.SIGKILL)
            self.process.wait(30)

    def read(self, terminal: int) -> None:
        rest = b""
        while True:
            try:
                some = os.read(terminal, 65536)
            except OSError:  # EIO: all writers of the terminal have closed it
                some = b""
            if not some:
                os.close(terminal)
                return
            *lines, rest = re.split(rb"[\r\n]+", rest + some)
            self.said += [
                OutputLine(line.decode(errors="replace").strip(), time.monotonic()) for line in lines if line.strip()
            ]

    @property
    def text(self) -> str:
        return "\n".join(line.text for line in self.said)

    def signal(self, number: int) -> None:
        """Send a signal to the command itself, a child of the process that entered the host."""
        for process in psutil.Process(self.process.pid).children():
            process.send_signal(number)

    def steps(self, since: float = 0.0) -> list[tuple[int, float]]:
        """Reported updates, with times."""
        return [
            (number(match[1]), line.at) for line in self.said if line.at > since and (match := STEP.search(line.text))
        ]

    def epoch_seconds(self) -> float:
        """The duration of an epoch, without the first."""
        ends = [line.at for line in self.said if EPOCH.search(line.text)]
        return (ends[-1] - ends[0]) / (len(ends) - 1)

    def until(self, what: Callable[[], object], seconds: float, why: str) -> None:
        """Wait until a condition holds while the command runs; otherwise fail with its output."""
        try:
            wait_until(lambda: what() or self.process.poll() is not None, seconds, why)
        except AssertionError as error:
            raise AssertionError(f"{error}\n{self.text}") from None
        assert what(), f"it ended ({self.process.returncode}) before {why}\n{self.text}"

    def states(self) -> list[str]:
        """The names of the resumable states, oldest first."""
        if self.storage:
            return complete_states(self.storage, f"runs/{self.folder.name}/checkpoints")
        return sorted(path.name for path in self.folder.glob("checkpoints/state-*"))

    def until_states(self, states: int = 2) -> None:
        """Wait until there are states, and updates after the newest one."""
        self.until(lambda: len(self.states()) >= states, 300, "states are saved")
        told = len(self.steps())
        self.until(lambda: len(self.steps()) > told, 120, "it goes on")
        time.sleep(0.5)

    def ended(self, seconds: float = 600) -> int:
        """Wait for its end; returns the exit code."""
        try:
            code = self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"it did not end within {seconds:.0f} s\n{self.text}") from None
        self.reader.join(10)
        return code

    def weights(self, seconds: float = 600) -> str:
        """The SHA-256 that it prints last; it must succeed."""
        assert self.ended(seconds) == 0, self.text
        assert re.fullmatch("[0-9a-f]{64}", self.said[-1].text), self.text
        return self.said[-1].text

    def setback(self, fault: float) -> "FaultCost":
        """The cost of a fault at that time, after the training has resumed from a state."""
        onwards = [(number(found[1]), line.at) for line in self.said if (found := ONWARDS.search(line.text))]
        state, at = [one for one in onwards if one[1] > fault][-1]
        again = [(update, when) for update, when in self.steps() if when <= fault and update > state]
        first = min((when for _, when in self.steps(since=at)), default=at)
        if not again:
            return FaultCost(0, 0.0, first - fault)
        return FaultCost(again[-1][0] - state, fault - again[0][1], first - fault)

    def pause(self, fault: float) -> "FaultCost":
        """The longest gap in the output after a fault at that time, in a training without other faults."""
        moments = [fault, *(line.at for line in self.said if line.at > fault)]
        return FaultCost(0, 0.0, max(after - before for before, after in itertools.pairwise(moments)))


@dataclass(frozen=True)
class FaultCost:
    """The cost of a fault: repeated updates, the seconds since the first of them, and the seconds to recover."""

    updates: int
    worth: float
    seconds: float


def number(digits: str) -> int:
    return int(digits.replace(",", ""))
