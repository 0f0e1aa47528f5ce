"""The budget of request bodies: how many bytes of them the service holds, and which go when they are short."""

import math
from asyncio import Timeout

from service.metrics import Metrics

FREE_BYTES = 2**16  # bytes of every body that are never refused: no more than its connection's buffer holds anyway
GRACE_SECONDS = 1.0  # seconds before a body can be called slow
RATE_WINDOW = 1.0  # seconds over which a body's pace is an exponential average


class BodyReservation:
    """What is held of one request's body."""

    def __init__(self, budget: "BodyBudget", shared_budget: "BodyBudget", min_rate: float, now: float) -> None:
        """`budget` counts it until its caller is known, `shared_budget` from then on; `min_rate`: bytes a second below which it is
        slow; `now`: of a clock in seconds."""
        self.shared_budget = shared_budget
        self.min_rate = min_rate
        self.held = 0
        self.evicted = False
        self.timeout: Timeout | None = None  # while the next bytes are awaited
        self._budget = budget
        self._began = self._last = now
        self._rate = 0.0

    def reserve(self, length: int, now: float) -> bool:
        """Count bytes that have arrived; False where there is no room for them."""
        self._rate = self.rate(now) + length / RATE_WINDOW
        self._last = now
        return self._budget.reserve(self, length, now)

    def complete(self) -> None:
        """Nothing more arrives: it is not ended any more."""
        self._budget.arriving.discard(self)

    def authenticated(self) -> None:
        """Its caller is one who may send it: it is counted with all others, whether they leave room or not."""
        held, arriving = self.held, self in self._budget.arriving
        self.shrink_to(0)
        self._budget = self.shared_budget
        self.shared_budget.add(self, held)
        if not arriving:
            self.complete()

    def shrink_to(self, length: int) -> None:
        """Of what was held only so many bytes are still needed, or none, and nothing more arrives."""
        self._budget.add(self, min(length, self.held) - self.held)
        self.complete()

    def evict(self, now: float) -> None:
        """Let it go while it arrives; who reads it is woken."""
        self.evicted = True
        self.shrink_to(0)
        if self.timeout:
            self.timeout.reschedule(now)

    def rate(self, now: float) -> float:
        """Bytes a second, of late."""
        return self._rate * math.exp((self._last - now) / RATE_WINDOW)

    def is_slow(self, now: float) -> bool:
        return now - self._began > GRACE_SECONDS and self.rate(now) < self.min_rate


class BodyBudget:
    """Bytes that bodies hold together, counted as they arrive, whatever length was announced.

    Where the next bytes of a body do not fit, bodies that arrive slowly are ended, the slowest first. Where none is
    slow the one that grows is refused; but not the first `FREE_BYTES` bytes of a body, and not one that is alone.
    """

    def __init__(self, limit: int, metrics: Metrics) -> None:
        self.limit = limit
        self.held = 0
        self.arriving: set[BodyReservation] = set()
        self._gauge = metrics.held_bytes

    def reserve(self, body: BodyReservation, length: int, now: float) -> bool:
        while self.held + length > self.limit and self.held > body.held and body.held + length > FREE_BYTES:
            slow = [other for other in self.arriving if other is not body and other.is_slow(now)]
            if not slow:
                return False
            min(slow, key=lambda other: other.rate(now)).evict(now)
        self.add(body, length)
        return True

    def add(self, body: BodyReservation, length: int) -> None:
        body.held += length
        self.held += length
        self._gauge.inc(length)
        self.arriving.add(body)
