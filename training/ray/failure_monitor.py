"""The driver's eye on a group of workers: whether it waits for nodes, and whether it fails again and again."""

import socket
import time
from collections.abc import Callable, Mapping

from seq2seq.errors import TrainingError
from training.ray.control import ControlStatus

MAX_FAILURES = 3  # times in a row that a group is started again without coming any further
WARN_AFTER_SECONDS = 10.0  # seconds before a wait is worth a sentence
HEAD_CHECK_SECONDS = 5.0  # seconds between two looks at the head
WAITING_STATES = {"InitializingState", "SchedulingState", "ReschedulingState", "RestartingState"}  # Ray Train's names

NodeCapacity = Mapping[str, int]  # workers that each node has room for, by its address


def missing_resources(min_workers: int, resource: str, capacity: NodeCapacity) -> str:
    """What there is, where that is less than the workers need; else nothing."""
    there = sum(capacity.values())
    if there >= min_workers:
        return ""
    where = ", ".join(f"{address}: {number}" for address, number in sorted(capacity.items()))
    need = (
        f"1 worker needs a {resource}" if min_workers == 1 else f"{min_workers} workers need {min_workers} {resource}s"
    )
    return f"{need}, and the cluster has {there} ({where or 'no node'})"


class FailureMonitor:
    """Looks at what the mailbox says of Ray Train."""

    def __init__(
        self,
        run: str,
        min_workers: int,
        resource: str,
        capacity: Callable[[], NodeCapacity],
        head: tuple[str, int] | None = None,
    ) -> None:
        """`capacity` says what the nodes have, `head` where the cluster's head is, when that is another's."""
        self.run, self.min_workers, self.resource, self.capacity, self.head = run, min_workers, resource, capacity, head
        self.most_updates, self.failures_before_progress = -1, 0
        self.waiting_since = time.monotonic()
        self.waiting, self.warned = True, False
        self.failures = 0
        self.head_checked, self.head_lost = time.monotonic(), False

    def started(self, done: int, status: ControlStatus) -> None:
        """A group goes on after so many updates: failures before it count no more if it is further than any other."""
        if done > self.most_updates:
            self.most_updates, self.failures_before_progress = done, status.failures

    def check(self, status: ControlStatus) -> str | None:
        """A sentence, once, for a failure and for a wait. Raises TrainingError when workers fail again and again."""
        if status.failures - self.failures_before_progress > MAX_FAILURES:
            raise TrainingError(
                self.run,
                f"the workers failed {status.failures - self.failures_before_progress} times without coming any further, "
                f"at last with: {status.reason}",
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
        """A sentence when the head is lost, and when it is back: Ray itself has none before it ends."""
        if self.head is None or time.monotonic() - self.head_checked < HEAD_CHECK_SECONDS:
            return None
        self.head_checked, before, where = time.monotonic(), self.head_lost, f"{self.head[0]}:{self.head[1]}"
        try:
            socket.create_connection(self.head, timeout=1).close()
            self.head_lost = False
        except OSError:
            self.head_lost = True
        if before == self.head_lost:
            return None
        if not self.head_lost:
            return f"{self.run}: the cluster's head at {where} is back."
        return (
            f"{self.run}: the cluster's head at {where} does not answer. The training goes on without it; if it is not "
            "back within a minute, Ray ends this command: then go on with --resume."
        )
