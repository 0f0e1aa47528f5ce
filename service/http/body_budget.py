"""Memory budget for request bodies: counts the bytes held and evicts slow bodies when the budget is exhausted."""

import math
from asyncio import Timeout

from service.metrics import Metrics

FREE_BYTES = 2**16  # bytes of every body that are always accepted: the connection's buffer holds as many anyway
GRACE_SECONDS = 1.0  # seconds after its start before a body can count as slow
RATE_WINDOW = 1.0  # time constant, in seconds, of the exponential average of a body's rate


class BodyReservation:
    """The bytes of one request's body that the service holds."""

    def __init__(self, budget: "BodyBudget", shared_budget: "BodyBudget", min_rate: float, now: float) -> None:
        """`budget` counts the bytes until the caller is authenticated, `shared_budget` afterwards. A body slower than
        `min_rate` bytes a second is slow. `now` is a time in seconds on the clock that all methods use."""
        self.shared_budget = shared_budget
        self.min_rate = min_rate
        self.held = 0
        self.evicted = False
        self.refused = False  # the request is answered before its body is complete
        self.timeout: Timeout | None = None  # set while the next bytes are awaited
        self._budget = budget
        self._began = self._last = now
        self._rate = 0.0

    def reserve(self, length: int, now: float) -> bool:
        """Count `length` bytes that have arrived. Returns False if they do not fit in the budget."""
        self._rate = self.rate(now) + length / RATE_WINDOW
        self._last = now
        return self._budget.reserve(self, length, now)

    def complete(self) -> None:
        """Mark the body as complete, so that it is no longer a candidate for eviction."""
        self._budget.arriving.discard(self)

    def authenticated(self) -> None:
        """Move the bytes to the shared budget, even if they exceed it, because the caller is now authenticated."""
        held, arriving = self.held, self in self._budget.arriving
        self.shrink_to(0)
        self._budget = self.shared_budget
        self.shared_budget.add(self, held)
        if not arriving:
            self.complete()

    def release(self, length: int) -> None:
        """Release bytes that are no longer in memory; more of the body may arrive."""
        self._budget.release(self, min(length, self.held))

    def shrink_to(self, length: int) -> None:
        """Mark the body as complete and release all but `length` of its bytes."""
        self._budget.add(self, min(length, self.held) - self.held)
        self.complete()

    def evict(self, now: float) -> None:
        """Release an incomplete body and wake the task that reads it."""
        self.evicted = True
        self.shrink_to(0)
        if self.timeout:
            self.timeout.reschedule(now)

    def rate(self, now: float) -> float:
        """Recent bytes per second, as an exponential average."""
        return self._rate * math.exp((self._last - now) / RATE_WINDOW)

    def is_slow(self, now: float) -> bool:
        return now - self._began > GRACE_SECONDS and self.rate(now) < self.min_rate


class BodyBudget:
    """Limit on the bytes that all bodies hold together, counted as they arrive; an announced length is ignored.

    If the next bytes of a body do not fit, slow bodies are evicted, the slowest first. If they would not fit without
    all other slow bodies either, none is evicted, and the growing body is refused, except for its first `FREE_BYTES`
    bytes and except when it is the only one.
    """

    def __init__(self, limit: int, metrics: Metrics) -> None:
        self.limit = limit
        self.held = 0
        self.arriving: set[BodyReservation] = set()
        self._gauge = metrics.held_bytes

    def reserve(self, body: BodyReservation, length: int, now: float) -> bool:
        if not self._fits(body, length, self.held):
            slow = [other for other in self.arriving if other is not body and other.held and other.is_slow(now)]
            if not self._fits(body, length, self.held - sum(other.held for other in slow)):
                return False
            slow.sort(key=lambda other: other.rate(now), reverse=True)
            while not self._fits(body, length, self.held):
                slow.pop().evict(now)
        self.add(body, length)
        return True

    def _fits(self, body: BodyReservation, length: int, held: int) -> bool:
        """Whether a body can hold this many more bytes while all bodies hold `held` bytes."""
        return held + length <= self.limit or held == body.held or body.held + length <= FREE_BYTES

    def release(self, body: BodyReservation, length: int) -> None:
        body.held -= length
        self.held -= length
        self._gauge.dec(length)

    def add(self, body: BodyReservation, length: int) -> None:
        body.held += length
        self.held += length
        self._gauge.inc(length)
        self.arriving.add(body)
