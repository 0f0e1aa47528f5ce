"""Token buckets: how many requests a caller may still make now, for very many callers in bounded memory."""

import math
from collections import OrderedDict
from dataclasses import dataclass


@dataclass(frozen=True)
class Rate:
    """So many requests a second in the long run, and so many at once."""

    per_second: float
    burst: int

    @classmethod
    def of(cls, per_second: float, burst: int | None = None) -> "Rate":
        """Without a burst of its own: what a second brings, and at least one."""
        return cls(per_second, burst or max(1, math.ceil(per_second)))

    @property
    def policy(self) -> str:
        """As the header RateLimit-Policy has it: a full bucket, and the seconds in which it fills."""
        return f'"rate";q={self.burst};w={math.ceil(self.burst / self.per_second)}'


@dataclass(frozen=True)
class Taken:
    """What came of taking one request from a bucket."""

    allowed: bool
    left: int
    seconds: float  # until the bucket is full, or where it was empty, until it has one again


class Buckets:
    """A bucket for each caller. Of one no more is kept than the moment at which it will be full again.

    A bucket that is full is as good as none, so the longest unused are let go; over `most` callers at once also those
    that are not full yet.
    """

    def __init__(self, most: int = 20_000) -> None:
        self.most = most
        self._full_at: OrderedDict[str, float] = OrderedDict()  # the longest unused first

    def __len__(self) -> int:
        return len(self._full_at)

    def take(self, caller: str, rate: Rate, now: float) -> Taken:
        """Take one request, at `now` in seconds of a clock that does not go back; refused ones take nothing."""
        full_at = max(self._full_at.pop(caller, now), now)
        missing = (full_at - now) * rate.per_second
        if allowed := missing + 1 <= rate.burst + 1e-9:
            full_at += 1 / rate.per_second
            missing += 1
        self._full_at[caller] = full_at
        self._let_go(now)
        seconds = full_at - now if allowed else (missing + 1 - rate.burst) / rate.per_second
        return Taken(allowed, max(0, int(rate.burst - missing + 1e-9)), seconds)

    def _let_go(self, now: float) -> None:
        for _ in range(2):  # one comes, two may go: nothing is ever walked through
            oldest = next(iter(self._full_at))
            if len(self._full_at) > self.most or self._full_at[oldest] <= now:
                del self._full_at[oldest]
            else:
                return
