"""A parallel map over threads that keeps the order of the items."""

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")

THREADS = min(len(os.sched_getaffinity(0)), 8)


def map_in_order(work: Callable[[Item], Result], items: Iterable[Item]) -> Iterator[Result]:
    """Apply `work` to each item in several threads and yield the results in the order of the items.

    About 2 * THREADS results are in memory at a time. Meant for work that releases the GIL.
    """
    pending: deque[Future[Result]] = deque()
    with ThreadPoolExecutor(THREADS) as pool:
        try:
            for item in items:
                pending.append(pool.submit(work, item))
                if len(pending) > 2 * THREADS:
                    yield pending.popleft().result()
            while pending:
                yield pending.popleft().result()
        finally:
            for future in pending:
                future.cancel()
