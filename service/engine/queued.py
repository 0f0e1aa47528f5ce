"""What the engine is given: the texts of a request, and where on its way each of them is."""

import asyncio
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from typing import Protocol

from seq2seq.generate import EncodedRequest, GenerationResult
from service.models import ServedModel


class OutputListener(Protocol):
    """Who is told, on the event loop, what is written of every text of a request."""

    def on_accepted(self) -> None: ...

    def on_prefix(self, index: int, ids: list[int]) -> None:
        """The answer to a text begins so, whatever comes."""

    def on_answer(self, index: int, answer: GenerationResult) -> None: ...


@dataclass(eq=False)
class PendingRequest:
    """The texts of one request, until all are answered."""

    loop: asyncio.AbstractEventLoop
    done: asyncio.Future[list[GenerationResult]]
    answers: list[GenerationResult | None]
    remaining: int
    caller: str = ""
    listener: OutputListener | None = None
    closed: bool = False  # answered, failed or given up: what is left of it is not searched

    def call_soon(self, what: Callable[..., None], *arguments: object) -> None:
        """Call something on the event loop, from any thread."""
        if not self.loop.is_closed():
            self.loop.call_soon_threadsafe(what, *arguments)

    def add_answer(self, index: int, answer: GenerationResult) -> None:
        """One of the texts is answered."""
        if self.closed:
            return
        self.answers[index] = answer
        self.remaining -= 1
        if self.listener:
            self.call_soon(self.listener.on_answer, index, answer)
        if not self.remaining:
            self.resolve([answer for answer in self.answers if answer is not None])

    def resolve(self, outcome: list[GenerationResult] | Exception) -> None:
        """Give the waiter the answers or an error, from any thread."""
        self.closed = True

        def resolve() -> None:
            if self.done.done():  # given up meanwhile
                return
            if isinstance(outcome, Exception):
                self.done.set_exception(outcome)
            else:
                self.done.set_result(outcome)

        self.call_soon(resolve)


@dataclass(eq=False)
class Subscriber:
    """Where an answer belongs: one text of a job, and how many words of it the job's follower was told."""

    pending: PendingRequest
    index: int
    sent: int = 0


@dataclass(eq=False)
class QueuedSequence:
    """One text on its way, for all who asked for the same. It holds its model, which is let go after it."""

    number: int
    model: ServedModel
    row: EncodedRequest
    deduplication_key: Hashable  # equal for what would be searched and answered alike
    arrived_at: float
    streamed: bool
    callers: list[str] = field(default_factory=list)  # who asked for it, each once
    attempts: int = 0  # times that it was given to a lane
    subscribers: list[Subscriber] = field(default_factory=list)
    scheduled_at: float | None = None  # when it had its slot

    @property
    def cost(self) -> int:
        """Tokens x beam."""
        return self.row.length * self.row.request.options.beam

    @property
    def abandoned(self) -> bool:
        """Whether nobody waits for it any more."""
        return all(subscriber.pending.closed for subscriber in self.subscribers)

    def publish_prefix(self, ids: list[int]) -> None:
        """Tell those who follow it how the answer begins, as far as they do not know it."""
        for subscriber in self.subscribers:
            if subscriber.pending.listener and subscriber.sent < len(ids) and not subscriber.pending.closed:
                subscriber.sent = len(ids)
                subscriber.pending.call_soon(subscriber.pending.listener.on_prefix, subscriber.index, ids)
