"""Fair queueing between callers: a caller's many requests do not delay the requests of others.

Every caller has a queue. Start-time fair queueing (Goyal, Vin and Cheng 1996) decides whose turn it is: with v the
start tag of the item taken last, and F the finish tag of the item last taken for a caller, the first item of a queue
has

    S = max(v, F)        and, once it is taken,        F = S + cost

and the smallest S is next. Callers who always have something waiting get equal shares of the cost, whatever each of
their items costs; a caller with little waiting is next after the items already started.
"""

import itertools
from collections import deque
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import Generic, TypeVar

K = TypeVar("K", bound=int)

MAX_IDLE_CALLERS = 256  # more idle callers than this: finish tags that a new caller would get anyway are dropped


@dataclass
class CallerQueue(Generic[K]):
    """The items that wait for one caller; `start` is the start tag S of the first."""

    start: float
    order: int  # breaks ties: first come, first served
    keys: deque[K]


class FairQueue(Generic[K]):
    """A queue of keys, each with a cost, shared fairly between callers.

    A key that waits for several callers is taken once, for the caller whose turn comes first; only that caller is
    charged.
    """

    def __init__(self) -> None:
        self._costs: dict[K, float] = {}
        self.queues: dict[str, CallerQueue[K]] = {}  # by caller
        self._shared_keys: set[K] = set()  # keys that wait for several callers
        self._finish_times: dict[str, float] = {}  # finish tag F, by caller
        self._virtual_time = 0.0  # virtual time v
        self._order = itertools.count()

    def __len__(self) -> int:
        return len(self._costs)

    def __iter__(self) -> Iterator[K]:
        return iter(self._costs)

    def __contains__(self, key: object) -> bool:
        return key in self._costs

    def put(self, caller: str, key: K, cost: float) -> None:
        """Append a key to the caller's queue; if it waits already, it then waits for this caller too."""
        if key in self._costs:
            self._shared_keys.add(key)
        self._costs.setdefault(key, cost)
        if queue := self.queues.get(caller):
            queue.keys.append(key)
        else:
            self.queues[caller] = self._new_queue(caller, deque([key]))

    def callers(self) -> list[str]:
        """The callers with waiting keys, in the order of their turns."""
        return sorted(self.queues, key=lambda caller: (self.queues[caller].start, self.queues[caller].order))

    def take(self, caller: str | None = None) -> tuple[str, K]:
        """Remove and return the next key and its caller, or one caller's next key. The queue must not be empty."""
        if caller is None:
            caller = min(self.queues, key=lambda other: (self.queues[other].start, self.queues[other].order))
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
                other: finish for other, finish in self._finish_times.items() if finish > self._virtual_time
            }
        return caller, key

    def remove(self, keys: Collection[K]) -> None:
        """Remove keys; no caller is charged for them."""
        if removed := [key for key in keys if self._costs.pop(key, None) is not None]:
            self._shared_keys.difference_update(removed)
            self._drop_removed()

    def _new_queue(self, caller: str, keys: deque[K]) -> CallerQueue[K]:
        return CallerQueue(max(self._virtual_time, self._finish_times.get(caller, 0.0)), next(self._order), keys)

    def _drop_removed(self) -> None:
        """Drop the keys that no longer wait from every caller's queue."""
        for caller, queue in list(self.queues.items()):
            queue.keys = deque(key for key in queue.keys if key in self._costs)
            if not queue.keys:
                del self.queues[caller]
