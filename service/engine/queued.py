"""What the engine is given: the texts of a request, and where on its way each of them is."""

import asyncio
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from typing import Protocol

from seq2seq.generate import Answer, Row
from service.models import Served


class Follower(Protocol):
    """Who is told, on the event loop, what is written of every text of a request."""

    def accepted(self) -> None: ...

    def written(self, index: int, ids: list[int]) -> None:
        """The answer to a text begins so, whatever comes."""

    def answered(self, index: int, answer: Answer) -> None: ...


@dataclass(eq=False)
class Job:
    """The texts of one request, until all are answered."""

    loop: asyncio.AbstractEventLoop
    done: asyncio.Future[list[Answer]]
    answers: list[Answer | None]
    missing: int
    caller: str = ""
    follower: Follower | None = None
    over: bool = False  # answered, failed or given up: what is left of it is not searched

    def tell(self, what: Callable[..., None], *arguments: object) -> None:
        """Call something on the event loop, from any thread."""
        if not self.loop.is_closed():
            self.loop.call_soon_threadsafe(what, *arguments)

    def answer(self, index: int, answer: Answer) -> None:
        """One of the texts is answered."""
        if self.over:
            return
        self.answers[index] = answer
        self.missing -= 1
        if self.follower:
            self.tell(self.follower.answered, index, answer)
        if not self.missing:
            self.settle([answer for answer in self.answers if answer is not None])

    def settle(self, outcome: list[Answer] | Exception) -> None:
        """Give the waiter the answers or an error, from any thread."""
        self.over = True

        def settle() -> None:
            if self.done.done():  # given up meanwhile
                return
            if isinstance(outcome, Exception):
                self.done.set_exception(outcome)
            else:
                self.done.set_result(outcome)

        self.tell(settle)


@dataclass(eq=False)
class Place:
    """Where an answer belongs: one text of a job, and how many words of it the job's follower was told."""

    job: Job
    index: int
    told: int = 0


@dataclass(eq=False)
class Ticket:
    """One text on its way, for all who asked for the same. It holds its model, which is let go after it."""

    number: int
    model: Served
    row: Row
    identity: Hashable  # equal for what would be searched and answered alike
    arrived: float
    followed: bool
    callers: list[str] = field(default_factory=list)  # who asked for it, each once
    given: int = 0  # times that it was given to a lane
    places: list[Place] = field(default_factory=list)
    admitted: float | None = None  # when it had its slot

    @property
    def cost(self) -> int:
        """Tokens x beam."""
        return self.row.length * self.row.request.options.beam

    @property
    def over(self) -> bool:
        """Whether nobody waits for it any more."""
        return all(place.job.over for place in self.places)

    def tell(self, ids: list[int]) -> None:
        """Tell those who follow it how the answer begins, as far as they do not know it."""
        for place in self.places:
            if place.job.follower and place.told < len(ids) and not place.job.over:
                place.told = len(ids)
                place.job.tell(place.job.follower.written, place.index, ids)
