"""Processes that outlive the command which started them: recorded by pid and birth, found again, ended in order."""

import contextlib
import signal
import subprocess
from pathlib import Path

import psutil
from pydantic import BaseModel, ConfigDict


class Process(BaseModel):
    """A process that was started: `born` tells it from another that has its number later."""

    model_config = ConfigDict(frozen=True)

    pid: int
    born: float

    def alive(self) -> bool:
        """Whether it still runs."""
        return self._found() is not None

    def command(self) -> int | None:
        """The pid of what a sandbox runs: below bubblewrap is the namespace's first process, below that the command."""
        with contextlib.suppress(psutil.NoSuchProcess, IndexError):
            if found := self._found():
                return int(found.children()[0].children()[0].pid)
        return None

    def end(self, by: str, within: float) -> None:
        """Ask the command to end; after so many seconds end it and all that it started, which the namespace holds."""
        found = self._found()
        if not found:
            return
        with contextlib.suppress(psutil.NoSuchProcess):
            family = found.children(recursive=True)
            if command := self.command():
                psutil.Process(command).send_signal(signal.Signals[by])
                psutil.wait_procs([found], timeout=within)
            for process in [*family[:1], found]:  # the namespace's first process takes the others with it
                with contextlib.suppress(psutil.NoSuchProcess):
                    process.kill()
            psutil.wait_procs([*family, found], timeout=10)

    def _found(self) -> psutil.Process | None:
        with contextlib.suppress(psutil.NoSuchProcess):
            process = psutil.Process(self.pid)
            if process.create_time() == self.born and process.status() != psutil.STATUS_ZOMBIE:
                return process
        return None


def started(words: list[str], log: Path) -> Process:
    """Start a process that stays when this one ends, what it says going to a file."""
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("ab") as said:
        child = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=said, stderr=said, start_new_session=True)
    return Process(pid=child.pid, born=psutil.Process(child.pid).create_time())
