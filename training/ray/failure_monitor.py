"""Watches a worker group: waiting for nodes, failing repeatedly, or without its cluster's head."""

import socket
import time
from collections.abc import Callable, Mapping

from interlinear.errors import TrainingError
from training.ray.control import ControlStatus

MAX_FAILURES = 3  # consecutive restarts of a group without progress
WARN_AFTER_SECONDS = 10.0  # seconds of waiting before a warning
HEAD_CHECK_SECONDS = 5.0  # seconds between two checks of the head
# Ray Train's state names
WAITING_STATES = {"InitializingState", "SchedulingState", "ReschedulingState", "RestartingState"}

NodeCapacity = Mapping[str, int]  # CPUs or GPUs of each node, by its address


def missing_resources(min_workers: int, resource: str, capacity: NodeCapacity, workers_each: int = 1) -> str:
    """Describes the missing resources; empty where the nodes have enough for the workers; `workers_each` workers share
    one CPU or GPU."""
    available, needed = sum(capacity.values()), -(-min_workers // workers_each)
    if available >= needed:
        return ""
    where = ", ".join(f"{address}: {number}" for address, number in sorted(capacity.items()))
    workers = "1 worker needs" if min_workers == 1 else f"{min_workers} workers need"
    need = f"{workers} a {resource}" if needed == 1 else f"{workers} {needed} {resource}s"
    return f"{need}, and the cluster has {available} ({where or 'no node'})"


class FailureMonitor:
    """Evaluates the control actor's status of Ray Train and warns of failures, waits and a lost head."""

    def __init__(
        self,
        run: str,
        min_workers: int,
        resource: str,
        capacity: Callable[[], NodeCapacity],
        head: tuple[str, int] | None = None,
    ) -> None:
        """`capacity` returns the capacity of the nodes; `head` is the address of the head of a cluster that was not
        started here."""
        self.run, self.min_workers, self.resource, self.capacity, self.head = run, min_workers, resource, capacity, head
        self.most_updates, self.failures_before_progress = -1, 0
        self.waiting_since = time.monotonic()
        self.waiting, self.warned = True, False
        self.failures = 0
        self.head_checked, self.head_lost = time.monotonic(), False

    def started(self, done: int, status: ControlStatus) -> None:
        """A group resumes after `done` updates. Where that is more than ever before, earlier failures no longer
        count."""
        if done > self.most_updates:
            self.most_updates, self.failures_before_progress = done, status.failures

    def check(self, status: ControlStatus) -> str | None:
        """A warning for each failure and each wait. Raises TrainingError when workers fail repeatedly."""
        if status.failures - self.failures_before_progress > MAX_FAILURES:
            raise TrainingError(
                self.run,
                f"the workers failed {status.failures - self.failures_before_progress} times without coming any "
                f"further, at last with: {status.reason}",
                "see failure.txt in the run's folder, then go on with --resume",
            )
        self.waiting = status.state in WAITING_STATES
        if status.failures > self.failures:
            self.failures = status.failures
            return f"{self.run}: a worker failed: {status.reason}."
        if not self.waiting:
            self.waiting_since, self.warned = time.monotonic(), False
        if lost := self.check_head():
            return lost
        if (
            self.waiting
            and not (self.warned or self.head_lost)
            and time.monotonic() - self.waiting_since > WARN_AFTER_SECONDS
        ):
            self.waiting_since = time.monotonic()
            if missing := missing_resources(self.min_workers, self.resource, self.capacity()):
                self.warned = True
                return f"{self.run}: waiting for nodes: {missing}. Start some, or stop here and go on with --resume."
        return None

    def check_head(self) -> str | None:
        """A warning when the head is lost, and when it is back: Ray itself reports nothing before it ends."""
        if self.head is None or time.monotonic() - self.head_checked < HEAD_CHECK_SECONDS:
            return None
        self.head_checked, was_lost, where = time.monotonic(), self.head_lost, f"{self.head[0]}:{self.head[1]}"
        try:
            socket.create_connection(self.head, timeout=1).close()
            self.head_lost = False
        except OSError:
            self.head_lost = True
        if was_lost == self.head_lost:
            return None
        if not self.head_lost:
            return f"{self.run}: the cluster's head at {where} is back."
        return (
            f"{self.run}: the cluster's head at {where} does not answer. The training goes on without it; if it is not "
            "back within a minute, Ray ends this command: then go on with --resume."
        )
