"""State of requests in the engine: pending requests, their texts, and who receives the results."""

import asyncio
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from typing import Protocol

from interlinear.generation.request import EncodedRequest, GenerationResult
from service.models import ServedModel


class OutputListener(Protocol):
    """Callbacks on the event loop for the partial and final results of a request's texts."""

    def on_accepted(self) -> None: ...

    def on_prefix(self, index: int, ids: list[int]) -> None:
        """The result starts with `ids`, whatever follows."""

    def on_answer(self, index: int, answer: GenerationResult) -> None: ...


@dataclass(eq=False)
class PendingRequest:
    """The texts of one request, until all have results."""

    loop: asyncio.AbstractEventLoop
    future: asyncio.Future[list[GenerationResult]]
    answers: list[GenerationResult | None]
    remaining: int
    caller: str = ""
    listener: OutputListener | None = None
    closed: bool = False  # answered, failed or cancelled: its other texts are not searched

    def call_soon(self, what: Callable[..., None], *arguments: object) -> None:
        """Call a function on the event loop, from any thread."""
        if not self.loop.is_closed():
            self.loop.call_soon_threadsafe(what, *arguments)

    def add_answer(self, index: int, answer: GenerationResult) -> None:
        """Add the result of one text."""
        if self.closed:
            return
        self.answers[index] = answer
        self.remaining -= 1
        if self.listener:
            self.call_soon(self.listener.on_answer, index, answer)
        if not self.remaining:
            self.resolve([answer for answer in self.answers if answer is not None])

    def resolve(self, outcome: list[GenerationResult] | Exception) -> None:
        """Finish the request with its results or an error, from any thread."""
        self.closed = True

        def resolve() -> None:
            if self.future.done():  # cancelled meanwhile
                return
            if isinstance(outcome, Exception):
                self.future.set_exception(outcome)
            else:
                self.future.set_result(outcome)

        self.call_soon(resolve)


@dataclass(eq=False)
class Subscriber:
    """One text of a request that receives a sequence's result; `sent` counts the tokens already streamed to its
    listener."""

    pending: PendingRequest
    index: int
    sent: int = 0


@dataclass(eq=False)
class QueuedSequence:
    """A text in flight, for all requests that contain it. It keeps its model loaded."""

    number: int
    model: ServedModel
    row: EncodedRequest
    deduplication_key: Hashable  # equal for requests with the same search and result
    arrived_at: float
    streamed: bool
    callers: list[str] = field(default_factory=list)  # each caller once
    attempts: int = 0  # times that it was sent to a worker
    subscribers: list[Subscriber] = field(default_factory=list)
    scheduled_at: float | None = None  # when it got a slot

    @property
    def abandoned(self) -> bool:
        """Whether no request waits for it any more."""
        return all(subscriber.pending.closed for subscriber in self.subscribers)

    def publish_prefix(self, ids: list[int]) -> None:
        """Send a longer prefix of the result to the listeners."""
        for subscriber in self.subscribers:
            if subscriber.pending.listener and subscriber.sent < len(ids) and not subscriber.pending.closed:
                subscriber.sent = len(ids)
                subscriber.pending.call_soon(subscriber.pending.listener.on_prefix, subscriber.index, ids)
