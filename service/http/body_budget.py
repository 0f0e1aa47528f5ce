"""The budget of request bodies: how many bytes of them the service holds, and which go when they are short."""

import math
from asyncio import Timeout

from service.metrics import Metrics

FREE = 2**16  # bytes of every body that are never refused: no more than its connection's buffer holds anyway
GRACE = 1.0  # seconds before a body can be called slow
WINDOW = 1.0  # seconds over which a body's pace is an exponential average


class HeldBody:
    """What is held of one request's body."""

    def __init__(self, budget: "BodyBudget", own: "BodyBudget", least: float, now: float) -> None:
        """`budget` counts it until its caller is known, `own` from then on; `least`: bytes a second below which it is
        slow; `now`: of a clock in seconds."""
        self.own = own
        self.least = least
        self.held = 0
        self.ended = False
        self.timeout: Timeout | None = None  # while the next bytes are awaited
        self._budget = budget
        self._began = self._last = now
        self._pace = 0.0

    def grow(self, length: int, now: float) -> bool:
        """Count bytes that have arrived; False where there is no room for them."""
        self._pace = self.pace(now) + length / WINDOW
        self._last = now
        return self._budget.take(self, length, now)

    def complete(self) -> None:
        """Nothing more arrives: it is not ended any more."""
        self._budget.arriving.discard(self)

    def known(self) -> None:
        """Its caller is one who may send it: it is counted with all others, whether they leave room or not."""
        held, arriving = self.held, self in self._budget.arriving
        self.keep(0)
        self._budget = self.own
        self.own.add(self, held)
        if not arriving:
            self.complete()

    def keep(self, length: int) -> None:
        """Of what was held only so many bytes are still needed, or none, and nothing more arrives."""
        self._budget.add(self, min(length, self.held) - self.held)
        self.complete()

    def end(self, now: float) -> None:
        """Let it go while it arrives; who reads it is woken."""
        self.ended = True
        self.keep(0)
        if self.timeout:
            self.timeout.reschedule(now)

    def pace(self, now: float) -> float:
        """Bytes a second, of late."""
        return self._pace * math.exp((self._last - now) / WINDOW)

    def slow(self, now: float) -> bool:
        return now - self._began > GRACE and self.pace(now) < self.least


class BodyBudget:
    """Bytes that bodies hold together, counted as they arrive, whatever length was announced.

    Where the next bytes of a body do not fit, bodies that arrive slowly are ended, the slowest first. Where none is
    slow the one that grows is refused; but not the first `FREE` bytes of a body, and not one that is alone.
    """

    def __init__(self, most: int, metrics: Metrics) -> None:
        self.most = most
        self.held = 0
        self.arriving: set[HeldBody] = set()
        self._gauge = metrics.held

    def take(self, body: HeldBody, length: int, now: float) -> bool:
        while self.held + length > self.most and self.held > body.held and body.held + length > FREE:
            slow = [other for other in self.arriving if other is not body and other.slow(now)]
            if not slow:
                return False
            min(slow, key=lambda other: other.pace(now)).end(now)
        self.add(body, length)
        return True

    def add(self, body: HeldBody, length: int) -> None:
        body.held += length
        self.held += length
        self._gauge.inc(length)
        self.arriving.add(body)
