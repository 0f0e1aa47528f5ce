"""Work outside the event loop: a thread pool for language detection, segmentation and encoding, and single calls."""

import asyncio
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Executor, Future, InvalidStateError
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, TypeVar

from service.engine.fair_queue import FairQueue
from service.problems import Problem

T = TypeVar("T")
R = TypeVar("R")

CHUNK_CHARACTERS = 2000  # characters of a chunk, which is processed without rescheduling


@dataclass(eq=False)
class Chunk:
    """Some of a request's texts, and the function to apply to each."""

    work: Callable[[Any], Any]
    items: Sequence[Any]
    future: "Future[list[Any]]"


class PreparationPool:
    """A bounded thread pool, shared fairly between callers: by characters, chunk by chunk.

    Its threads are daemons. Work that is not done when the service stops fails with 503.
    """

    def __init__(self, threads: int) -> None:
        self.threads = threads
        self._waiting: FairQueue[int] = FairQueue()
        self._chunks: dict[int, Chunk] = {}  # waiting or in work
        self._number = 0
        self._started = 0
        self._changed = threading.Condition()
        self._stop_problem: Problem | None = None

    @property
    def waiting(self) -> int:
        """Number of waiting chunks."""
        return len(self._waiting)

    async def map(
        self,
        caller: str,
        work: Callable[[T], R],
        items: Sequence[T],
        size: Callable[[T], int],
        inline_limit: int = 0,
        shared: int = 0,
    ) -> list[R]:
        """Apply `work` to every item and return the results in order; `size` gives an item's characters, and `shared`
        the characters that are processed once for all items.

        Items of up to `inline_limit` characters in total are processed at once, in less time than it takes to wake a
        thread. Raises the exception of the first item whose work raises, and Problem 503 when the service stops.
        """
        sizes = [size(item) for item in items]
        if shared + sum(sizes) <= inline_limit:
            return [work(item) for item in items]
        numbers: list[int] = []
        start, characters = 0, shared
        with self._changed:
            for i, length in enumerate(sizes):
                characters += length
                if characters >= CHUNK_CHARACTERS or i + 1 == len(items):
                    numbers.append(self._put(caller, Chunk(work, items[start : i + 1], Future()), characters))
                    start, characters = i + 1, 0
            futures = [self._chunks[number].future for number in numbers]
            self._changed.notify(len(numbers))
        results: list[R] = []
        try:
            for future in futures:
                batch: list[R] = await asyncio.wrap_future(future)
                results += batch
        finally:
            with self._changed:
                self._waiting.remove(numbers)
                for number in numbers:
                    self._chunks.pop(number, None)
        return results

    def stop(self, problem: Problem) -> None:
        """Stop; all waiting work fails with the problem."""
        with self._changed:
            self._stop_problem = problem
            for chunk in self._chunks.values():
                with suppress(InvalidStateError):  # done or cancelled already
                    chunk.future.set_exception(copy_of(problem))
            self._waiting.remove(list(self._waiting))
            self._changed.notify_all()

    def _put(self, caller: str, chunk: Chunk, characters: int) -> int:
        """Queue a chunk and return its number. Raises Problem."""
        if self._stop_problem:
            raise copy_of(self._stop_problem)
        self._number += 1
        self._chunks[self._number] = chunk
        self._waiting.put(caller, self._number, characters)
        if self._started < self.threads:
            self._started += 1
            threading.Thread(target=self._run, name=f"prepares {self._started}", daemon=True).start()
        return self._number

    def _run(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._stop_problem or self._waiting)
                if self._stop_problem:
                    return
                _, number = self._waiting.take()
                chunk = self._chunks[number]
                if not chunk.future.set_running_or_notify_cancel():
                    continue
            results: list[Any] = []
            error: BaseException | None = None
            try:
                results = [chunk.work(item) for item in chunk.items]
            except BaseException as raised:  # any exception belongs to the waiting request
                error = raised
            with self._changed:
                if chunk.future.done():  # the service has stopped meanwhile
                    continue
                if error:
                    chunk.future.set_exception(error)
                else:
                    chunk.future.set_result(results)


def copy_of(problem: Problem) -> Problem:
    """A copy of the problem, so that every request raises its own."""
    return Problem(problem.status, problem.detail, fields=problem.fields, headers=problem.headers)


async def run_inline_or_in_thread(
    inline: bool, work: Callable[..., R], *arguments: object, executor: Executor | None = None
) -> R:
    """Call `work`: directly if it takes less time than waking a thread, otherwise in a thread of the executor (default:
    the event loop's), so that the event loop is never blocked for long."""
    if inline:
        return work(*arguments)
    return await asyncio.get_running_loop().run_in_executor(executor, work, *arguments)
