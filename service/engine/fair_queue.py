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

MAX_IDLE_CALLERS = (
    256  # callers with nothing waiting, above which those who are owed as much as a new one are forgotten
)


@dataclass
class CallerQueue(Generic[K]):
    """What waits for one caller; `start` is S of the first of it."""

    start: float
    order: int  # of those with the same start, who came first
    keys: deque[K]


class FairQueue(Generic[K]):
    """Keys that wait, each with a cost, in the lines of those who want it. One that stands in several lines is taken
    once, for the caller whose turn comes first, who alone is charged for it."""

    def __init__(self) -> None:
        self._costs: dict[K, float] = {}
        self.queues: dict[str, CallerQueue[K]] = {}  # by caller
        self._shared_keys: set[K] = set()  # keys that stand in more lines than one
        self._finish_times: dict[str, float] = {}  # by caller: F
        self._virtual_time = 0.0  # v
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
            self._shared_keys.add(key)
        self._costs.setdefault(key, cost)
        if queue := self.queues.get(caller):
            queue.keys.append(key)
        else:
            self.queues[caller] = self._new_queue(caller, deque([key]))

    def callers(self) -> list[str]:
        """For whom something waits; whose turn is first comes first."""
        return sorted(self.queues, key=lambda caller: (self.queues[caller].start, self.queues[caller].order))

    def take(self, caller: str | None = None) -> tuple[str, K]:
        """The next key and for whom it is, or the next of one caller's. There must be one."""
        if caller is None:
            caller = min(self.queues, key=lambda one: (self.queues[one].start, self.queues[one].order))
        queue = self.queues.pop(caller)
        key = queue.keys.popleft()
        self._virtual_time = max(self._virtual_time, queue.start)
        self._finish_times[caller] = queue.start + self._costs.pop(key)
        if queue.keys:
            self.queues[caller] = self._new_queue(caller, queue.keys)
        if key in self._shared_keys:
            self._shared_keys.remove(key)
            self._drop_removed()
        if len(self._finish_times) > MAX_IDLE_CALLERS + len(self.queues):
            self._finish_times = {
                one: finish for one, finish in self._finish_times.items() if finish > self._virtual_time
            }
        return caller, key

    def remove(self, keys: Collection[K]) -> None:
        """These wait no longer, and nobody is charged for them."""
        if removed := [key for key in keys if self._costs.pop(key, None) is not None]:
            self._shared_keys.difference_update(removed)
            self._drop_removed()

    def _new_queue(self, caller: str, keys: deque[K]) -> CallerQueue[K]:
        return CallerQueue(max(self._virtual_time, self._finish_times.get(caller, 0.0)), next(self._order), keys)

    def _drop_removed(self) -> None:
        """Take out of every line what does not wait any more."""
        for caller, queue in list(self.queues.items()):
            queue.keys = deque(key for key in queue.keys if key in self._costs)
            if not queue.keys:
                del self.queues[caller]
