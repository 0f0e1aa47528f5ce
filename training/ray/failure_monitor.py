"""The driver's eye on a group of workers: whether it waits for nodes, and whether it fails again and again."""

import socket
import time
from collections.abc import Callable, Mapping

from seq2seq.errors import TrainingError
from training.ray.control import Post

MAX_FAILURES = 3  # times in a row that a group is started again without coming any further
WAIT = 10.0  # seconds before a wait is worth a sentence
LOOK = 5.0  # seconds between two looks at the head
WAITING = {"InitializingState", "SchedulingState", "ReschedulingState", "RestartingState"}  # Ray Train's names

Room = Mapping[str, int]  # workers that each node has room for, by its address


def lacking(fewest: int, unit: str, room: Room) -> str:
    """What there is, where that is less than the workers need; else nothing."""
    there = sum(room.values())
    if there >= fewest:
        return ""
    where = ", ".join(f"{address}: {number}" for address, number in sorted(room.items()))
    need = f"1 worker needs a {unit}" if fewest == 1 else f"{fewest} workers need {fewest} {unit}s"
    return f"{need}, and the cluster has {there} ({where or 'no node'})"


class Lookout:
    """Looks at what the mailbox says of Ray Train."""

    def __init__(
        self, run: str, fewest: int, unit: str, room: Callable[[], Room], head: tuple[str, int] | None = None
    ) -> None:
        """`room` says what the nodes have, `head` where the cluster's head is, when that is another's."""
        self.run, self.fewest, self.unit, self.room, self.head = run, fewest, unit, room, head
        self.furthest, self.forgiven = -1, 0
        self.since = time.monotonic()
        self.waiting, self.said = True, False
        self.failures = 0
        self.looked, self.headless = time.monotonic(), False

    def started(self, done: int, post: Post) -> None:
        """A group goes on after so many updates: failures before it count no more if it is further than any other."""
        if done > self.furthest:
            self.furthest, self.forgiven = done, post.failures

    def look(self, post: Post) -> str | None:
        """A sentence, once, for a failure and for a wait. Raises TrainingError when workers fail again and again."""
        if post.failures - self.forgiven > MAX_FAILURES:
            raise TrainingError(
                self.run,
                f"the workers failed {post.failures - self.forgiven} times without coming any further, "
                f"at last with: {post.why}",
                "see failure.txt in the run's folder, then go on with --resume",
            )
        self.waiting = post.state in WAITING
        if post.failures > self.failures:
            self.failures = post.failures
            return f"{self.run}: a worker failed: {post.why}."
        if not self.waiting:
            self.since, self.said = time.monotonic(), False
        if lost := self.look_at_head():
            return lost
        if self.waiting and not (self.said or self.headless) and time.monotonic() - self.since > WAIT:
            self.since = time.monotonic()
            if missing := lacking(self.fewest, self.unit, self.room()):
                self.said = True
                return f"{self.run}: waiting for nodes: {missing}. Start some, or stop here and go on with --resume."
        return None

    def look_at_head(self) -> str | None:
        """A sentence when the head is lost, and when it is back: Ray itself has none before it ends."""
        if self.head is None or time.monotonic() - self.looked < LOOK:
            return None
        self.looked, before, where = time.monotonic(), self.headless, f"{self.head[0]}:{self.head[1]}"
        try:
            socket.create_connection(self.head, timeout=1).close()
            self.headless = False
        except OSError:
            self.headless = True
        if before == self.headless:
            return None
        if not self.headless:
            return f"{self.run}: the cluster's head at {where} is back."
        return (
            f"{self.run}: the cluster's head at {where} does not answer. The training goes on without it; if it is not "
            "back within a minute, Ray ends this command: then go on with --resume."
        )
