"""What is done with texts before they are searched - their language detected, split, encoded - in a few threads."""

import asyncio
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future, InvalidStateError
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, TypeVar

from service.engine.fair_queue import FairQueue
from service.problems import Problem

T = TypeVar("T")
R = TypeVar("R")

PIECE = 2000  # characters of texts that are worked on without looking who else waits


@dataclass(eq=False)
class Piece:
    """Some of a request's texts, and what is to be done with each."""

    work: Callable[[Any], Any]
    items: Sequence[Any]
    done: "Future[list[Any]]"


class Preparation:
    """A bounded pool of threads that is shared fairly between callers: by characters, piece by piece.

    Its threads do not keep the process from ending: what is not done when the service ends is answered 503.
    """

    def __init__(self, threads: int) -> None:
        self.threads = threads
        self._waiting: FairQueue[int] = FairQueue()
        self._pieces: dict[int, Piece] = {}  # that wait or are worked on
        self._number = 0
        self._started = 0
        self._changed = threading.Condition()
        self._over: Problem | None = None

    @property
    def waiting(self) -> int:
        """Pieces of requests that wait."""
        return len(self._waiting)

    async def each(
        self, caller: str, work: Callable[[T], R], items: Sequence[T], size: Callable[[T], int], at_once: int = 0
    ) -> list[R]:
        """The work's result for every item, in order; items have sizes in characters. Up to `at_once` characters in all
        are worked on at once, in less time than a thread takes to wake.

        Raises what the work raises for the first item of which it does, and Problem 503 when the service ends.
        """
        sizes = [size(item) for item in items]
        if sum(sizes) <= at_once:
            return [work(item) for item in items]
        numbers: list[int] = []
        begun, characters = 0, 0
        with self._changed:
            for i, length in enumerate(sizes):
                characters += length
                if characters >= PIECE or i + 1 == len(items):
                    numbers.append(self._put(caller, Piece(work, items[begun : i + 1], Future()), characters))
                    begun, characters = i + 1, 0
            futures = [self._pieces[number].done for number in numbers]
            self._changed.notify(len(numbers))
        results: list[R] = []
        try:
            for future in futures:
                found: list[R] = await asyncio.wrap_future(future)
                results += found
        finally:
            with self._changed:
                self._waiting.remove(numbers)
                for number in numbers:
                    self._pieces.pop(number, None)
        return results

    def stop(self, problem: Problem) -> None:
        """End; whoever waits for something is answered with the problem."""
        with self._changed:
            self._over = problem
            for piece in self._pieces.values():
                with suppress(InvalidStateError):  # it is done, or nobody waits for it
                    piece.done.set_exception(again(problem))
            self._waiting.remove(list(self._waiting))
            self._changed.notify_all()

    def _put(self, caller: str, piece: Piece, characters: int) -> int:
        """Have a piece wait; its number. Raises Problem."""
        if self._over:
            raise again(self._over)
        self._number += 1
        self._pieces[self._number] = piece
        self._waiting.put(caller, self._number, characters)
        if self._started < self.threads:
            self._started += 1
            threading.Thread(target=self._run, name=f"prepares {self._started}", daemon=True).start()
        return self._number

    def _run(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._over or self._waiting)
                if self._over:
                    return
                _, number = self._waiting.take()
                piece = self._pieces[number]
                if not piece.done.set_running_or_notify_cancel():
                    continue
            results: list[Any] = []
            error: BaseException | None = None
            try:
                results = [piece.work(item) for item in piece.items]
            except BaseException as raised:  # a fault in a library, too, is for whoever waits
                error = raised
            with self._changed:
                if piece.done.done():  # the service has ended meanwhile
                    continue
                if error:
                    piece.done.set_exception(error)
                else:
                    piece.done.set_result(results)


def again(problem: Problem) -> Problem:
    """The same problem for one more request."""
    return Problem(problem.status, problem.detail, fields=problem.fields, headers=problem.headers)
