"""Token buckets: how many units a caller may still take now, for very many callers in bounded memory."""

import math
import threading
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class RateLimit:
    """So many units a second in the long run, and so many at once."""

    per_second: float
    burst: int

    @classmethod
    def of(cls, per_second: float, burst: int | None = None) -> "RateLimit":
        """Without a burst of its own: what a second brings, and at least one."""
        return cls(per_second, burst or max(1, math.ceil(per_second)))

    @property
    def policy(self) -> str:
        """As the header RateLimit-Policy has it: a full bucket, and the seconds in which it fills."""
        return f'"rate";q={self.burst};w={math.ceil(self.burst / self.per_second)}'


@dataclass(frozen=True)
class RateLimitResult:
    """What came of taking a request's units from a bucket."""

    allowed: bool
    left: int
    seconds: float  # until the bucket is full, or where it had too few, until it has enough again


class RateLimiter:
    """A bucket for each caller. Of one no more is kept than the moment at which it will be full again.

    A bucket that is full is as good as none, so the longest unused are let go; over `max_callers` callers at once also those
    that are not full yet.

    Where several services share a limit, each lets requests in by its own buckets, and hears from time to time what
    the others took (`drain`, `merge`): in the long run all together keep to the rate; what they let in beyond it
    between two exchanges is paid off before more is let in.
    """

    def __init__(self, max_callers: int = 20_000, shared: bool = False) -> None:
        self.max_callers = max_callers
        self.shared = shared
        self._full_at: OrderedDict[str, float] = OrderedDict()  # the longest unused first
        self._drained: dict[
            str, tuple[float, float]
        ] = {}  # since the last exchange: seconds taken, moment of the first
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self._full_at)

    def peek(self, caller: str, rate: RateLimit, now: float) -> RateLimitResult:
        """What a request for one unit would be answered, which is not taken."""
        with self._lock:
            missing = max(self._full_at.get(caller, now) - now, 0.0) * rate.per_second
        allowed = missing + 1 <= rate.burst + 1e-9
        seconds = (missing if allowed else missing + 1 - rate.burst) / rate.per_second
        return RateLimitResult(allowed, max(0, int(rate.burst - missing + 1e-9)), seconds)

    def take(
        self, caller: str, rate: RateLimit, now: float, cost: int = 1, needed: int | None = None
    ) -> RateLimitResult:
        """Take `cost` units, at `now` in seconds of a clock that does not go back; refused requests take nothing.

        A request of more than a full bucket holds is let in when the bucket is full, and paid off after it. `needed`:
        units that must be there; the others are paid off, too.
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
        """What was taken here since the last time: by caller the seconds that it takes to fill again, and its age."""
        with self._lock:
            drained, self._drained = self._drained, {}
        return {caller: (seconds, now - since) for caller, (seconds, since) in drained.items()}

    def merge(self, full_in: Mapping[str, float], now: float) -> None:
        """Hear in how many seconds buckets will be full by what all took, with all that was drained here."""
        with self._lock:
            for caller, seconds in full_in.items():
                since_then, _ = self._drained.get(caller, (0.0, now))
                full_at = now + seconds + since_then
                if full_at > self._full_at.get(caller, now):
                    self._full_at[caller] = full_at
                    self._evict(now)

    def _evict(self, now: float) -> None:
        for _ in range(2):  # one comes, two may go: nothing is ever walked through
            oldest = next(iter(self._full_at))
            if len(self._full_at) > self.max_callers or self._full_at[oldest] <= now:
                del self._full_at[oldest]
            else:
                return
