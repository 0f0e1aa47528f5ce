"""Token buckets for rate limits, for many callers in bounded memory."""

import math
import threading
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass

TOKENS_PER_UNIT = 1000  # tokens x beam that quotas and rate limits count as one text


def units_of_tokens(tokens: int) -> int:
    """The number of texts that tokens x beam count as."""
    return -(-tokens // TOKENS_PER_UNIT)


@dataclass(frozen=True)
class RateLimit:
    """A sustained rate in units a second, and a burst in units."""

    per_second: float
    burst: int

    @classmethod
    def of(cls, per_second: float, burst: int | None = None) -> "RateLimit":
        """Without `burst`, the units of one second, and at least one."""
        return cls(per_second, burst or max(1, math.ceil(per_second)))

    @property
    def policy(self) -> str:
        """Value of the header RateLimit-Policy: the size of the bucket, and the seconds in which it fills."""
        return f'"rate";q={self.burst};w={math.ceil(self.burst / self.per_second)}'


@dataclass(frozen=True)
class RateLimitResult:
    """The result of taking a request's units from a bucket."""

    allowed: bool
    left: int
    seconds: float  # until the bucket is full; if not allowed, until it has enough units


class RateLimiter:
    """A token bucket for each caller, stored as the time at which it will be full again.

    A full bucket is the same as none, so the least recently used ones are dropped; with more than `max_callers` callers
    at once, also buckets that are not full yet.

    Services that share a limit each admit requests by their own buckets and exchange the units taken from time to
    time (`drain`, `merge`). In the long run all together keep to the rate; units admitted beyond it between two syncs
    delay later requests.
    """

    def __init__(self, max_callers: int = 20_000, shared: bool = False) -> None:
        self.max_callers = max_callers
        self.shared = shared
        self._full_at: OrderedDict[str, float] = OrderedDict()  # least recently used first
        self._drained: dict[str, tuple[float, float]] = {}  # since the last sync: seconds taken, time of the first
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self._full_at)

    def peek(self, caller: str, rate: RateLimit, now: float) -> RateLimitResult:
        """The result that a request for one unit would have; takes nothing."""
        with self._lock:
            missing = max(self._full_at.get(caller, now) - now, 0.0) * rate.per_second
        allowed = missing + 1 <= rate.burst + 1e-9
        seconds = (missing if allowed else missing + 1 - rate.burst) / rate.per_second
        return RateLimitResult(allowed, max(0, int(rate.burst - missing + 1e-9)), seconds)

    def take(
        self, caller: str, rate: RateLimit, now: float, cost: int = 1, needed: int | None = None
    ) -> RateLimitResult:
        """Take `cost` units, at `now` in seconds of a monotonic clock; rejected requests take nothing.

        A request for more than a full bucket is admitted when the bucket is full, and the excess delays later
        requests. `needed`: units that must be available; the others may go into debt.
        """
        with self._lock:
            full_at = max(self._full_at.pop(caller, now), now)
            missing = (full_at - now) * rate.per_second
            needed = min(cost, rate.burst) if needed is None else needed
            if allowed := not needed or missing + needed <= rate.burst + 1e-9:
                full_at += cost / rate.per_second
                missing += cost
                if self.shared:
                    seconds, since = self._drained.get(caller, (0.0, now))
                    self._drained[caller] = (seconds + cost / rate.per_second, since)
            self._full_at[caller] = full_at
            self._evict(now)
        seconds = full_at - now if allowed else (missing + needed - rate.burst) / rate.per_second
        return RateLimitResult(allowed, max(0, int(rate.burst - missing + 1e-9)), seconds)

    def drain(self, now: float) -> dict[str, tuple[float, float]]:
        """The units taken here since the last call: by caller, the seconds in which they refill, and their age."""
        with self._lock:
            drained, self._drained = self._drained, {}
        return {caller: (seconds, now - since) for caller, (seconds, since) in drained.items()}

    def merge(self, full_in: Mapping[str, float], now: float) -> None:
        """Merge the shared state: by caller, seconds until the bucket is full, including all units drained here."""
        with self._lock:
            for caller, seconds in full_in.items():
                since_then, _ = self._drained.get(caller, (0.0, now))
                full_at = now + seconds + since_then
                if full_at > self._full_at.get(caller, now):
                    self._full_at[caller] = full_at
                    self._evict(now)

    def _evict(self, now: float) -> None:
        for _ in range(2):  # one is added and up to two are removed, in constant time
            oldest = next(iter(self._full_at))
            if len(self._full_at) > self.max_callers or self._full_at[oldest] <= now:
                del self._full_at[oldest]
            else:
                return
