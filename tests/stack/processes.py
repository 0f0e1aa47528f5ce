"""Processes that outlive the command that started them: recorded by pid and start time, stopped in order."""

import contextlib
import signal
import subprocess
from pathlib import Path

import psutil
from pydantic import BaseModel, ConfigDict


class Process(BaseModel):
    """A started process; `born`, its start time, distinguishes it from a later process with the same pid."""

    model_config = ConfigDict(frozen=True)

    pid: int
    born: float

    def alive(self) -> bool:
        """Whether it is running."""
        return self._found() is not None

    def command(self) -> int | None:
        """The pid of the sandboxed command: the child of the namespace's first process, which is bubblewrap's child."""
        with contextlib.suppress(psutil.NoSuchProcess, IndexError):
            if found := self._found():
                return int(found.children()[0].children()[0].pid)
        return None

    def end(self, by: str, within: float) -> None:
        """Send SIGTERM to the command; after a number of seconds kill its namespace, with all its processes."""
        found = self._found()
        if not found:
            return
        with contextlib.suppress(psutil.NoSuchProcess):
            family = found.children(recursive=True)
            if command := self.command():
                psutil.Process(command).send_signal(signal.Signals[by])
                psutil.wait_procs([found], timeout=within)
            for process in [*family[:1], found]:  # when the namespace's first process ends, so do the others
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
    """Start a process that outlives this one, with its output in a file."""
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("ab") as said:
        child = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=said, stderr=said, start_new_session=True)
    return Process(pid=child.pid, born=psutil.Process(child.pid).create_time())
