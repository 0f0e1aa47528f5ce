"""Fair queueing: whoever asks for much does not keep others waiting.

Every caller has a line of their own, and start-time fair queueing (Goyal, Vin and Cheng 1996) says whose turn it is:
with v the start of what was taken last, and F the finish of what was last taken for a caller, the first of a line has

    S = max(v, F)        and, once it is taken,        F = S + cost

and the smallest S is next. So callers who always have something waiting get equal shares of the cost, whatever each of
their items costs; and one who comes with little is next but for what has begun.
"""

import itertools
from collections import deque
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import Generic, TypeVar

K = TypeVar("K", bound=int)

REMEMBERED = 256  # callers with nothing waiting, above which those who are owed as much as a new one are forgotten


@dataclass
class Line(Generic[K]):
    """What waits for one caller; `start` is S of the first of it."""

    start: float
    order: int  # of those with the same start, who came first
    keys: deque[K]


class FairQueue(Generic[K]):
    """Keys that wait, each with a cost, in the lines of those who want it. One that stands in several lines is taken
    once, for the caller whose turn comes first, who alone is charged for it."""

    def __init__(self) -> None:
        self._costs: dict[K, float] = {}
        self.lines: dict[str, Line[K]] = {}  # by caller
        self._several: set[K] = set()  # keys that stand in more lines than one
        self._finished: dict[str, float] = {}  # by caller: F
        self._now = 0.0  # v
        self._order = itertools.count()

    def __len__(self) -> int:
        return len(self._costs)

    def __iter__(self) -> Iterator[K]:
        return iter(self._costs)

    def __contains__(self, key: object) -> bool:
        return key in self._costs

    def put(self, caller: str, key: K, cost: float) -> None:
        """Have a key wait behind what else waits for the caller; or, where it waits already, for this caller too."""
        if key in self._costs:
            self._several.add(key)
        self._costs.setdefault(key, cost)
        if line := self.lines.get(caller):
            line.keys.append(key)
        else:
            self.lines[caller] = self._line(caller, deque([key]))

    def callers(self) -> list[str]:
        """For whom something waits; whose turn is first comes first."""
        return sorted(self.lines, key=lambda caller: (self.lines[caller].start, self.lines[caller].order))

    def take(self, caller: str | None = None) -> tuple[str, K]:
        """The next key and for whom it is, or the next of one caller's. There must be one."""
        if caller is None:
            caller = min(self.lines, key=lambda one: (self.lines[one].start, self.lines[one].order))
        line = self.lines.pop(caller)
        key = line.keys.popleft()
        self._now = max(self._now, line.start)
        self._finished[caller] = line.start + self._costs.pop(key)
        if line.keys:
            self.lines[caller] = self._line(caller, line.keys)
        if key in self._several:
            self._several.remove(key)
            self._clear()
        if len(self._finished) > REMEMBERED + len(self.lines):
            self._finished = {one: finish for one, finish in self._finished.items() if finish > self._now}
        return caller, key

    def remove(self, keys: Collection[K]) -> None:
        """These wait no longer, and nobody is charged for them."""
        if gone := [key for key in keys if self._costs.pop(key, None) is not None]:
            self._several.difference_update(gone)
            self._clear()

    def _line(self, caller: str, keys: deque[K]) -> Line[K]:
        return Line(max(self._now, self._finished.get(caller, 0.0)), next(self._order), keys)

    def _clear(self) -> None:
        """Take out of every line what does not wait any more."""
        for caller, line in list(self.lines.items()):
            line.keys = deque(key for key in line.keys if key in self._costs)
            if not line.keys:
                del self.lines[caller]
