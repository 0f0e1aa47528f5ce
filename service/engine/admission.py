"""Admission control: limits the load in the queue, in total and for one caller."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Literal

HARD_LIMIT_FACTOR = 4  # times the limit that may wait before even a caller's first request is rejected


@dataclass
class QueueLoad:
    """A number of texts, and their tokens x beam."""

    texts: int = 0
    tokens: int = 0


class Admission:
    """Counts the load that waits, by caller, and decides whether more may wait. Callers must hold the engine's lock.

    A request is admitted if one of these holds:

    - It fits into the queue.
    - With it, its caller has no more waiting than their share: the queue divided by the callers who have something
      waiting.
    - Its caller has nothing waiting. The limits on a request bound its size.

    So no request is rejected because of what another caller has sent. The total that waits stays bounded: the last
    rule ends at four times the queue, and the shares sum to the queue times the logarithm of the callers.
    """

    def __init__(self, texts: int, tokens: int) -> None:
        self.limit = QueueLoad(texts, tokens)
        self.waiting = QueueLoad()
        self.by_caller: dict[str, QueueLoad] = {}

    def add(self, caller: str, texts: int, tokens: int) -> None:
        """Add to the waiting load of a caller; negative numbers subtract."""
        caller_load = self.by_caller.setdefault(caller, QueueLoad())
        for amount in (self.waiting, caller_load):
            amount.texts += texts
            amount.tokens += tokens
        if caller_load == QueueLoad():
            del self.by_caller[caller]

    @contextmanager
    def without(self, caller: str, load: QueueLoad) -> Iterator[None]:
        """A context in which a part of a caller's waiting load is not counted."""
        self.add(caller, -load.texts, -load.tokens)
        try:
            yield
        finally:
            self.add(caller, load.texts, load.tokens)

    def exceeded_limit(self, caller: str, texts: int, tokens: int) -> Literal["queue_texts", "queue_tokens"] | None:
        """The limit that this additional load would exceed; None if it may wait."""
        caller_load = self.by_caller.get(caller, QueueLoad())
        if not texts:
            return None
        callers = len(self.by_caller) + (caller not in self.by_caller)
        over_texts, over_tokens = (
            total + new > limit and own + new > limit // callers and (own > 0 or total > HARD_LIMIT_FACTOR * limit)
            for total, own, new, limit in (
                (self.waiting.texts, caller_load.texts, texts, self.limit.texts),
                (self.waiting.tokens, caller_load.tokens, tokens, self.limit.tokens),
            )
        )
        return "queue_texts" if over_texts else "queue_tokens" if over_tokens else None


@dataclass(eq=False)
class Reservation:
    """Queue load reserved for a request whose texts are still being split and encoded."""

    caller: str
    texts: Sequence[str]  # all of the request's texts
    waiting_load: QueueLoad
    reserved_texts: int  # number of texts that `waiting_load` is for, each once
    charge: Callable[[int], None] | None = None  # called with the tokens x beam of all searches so far
    later_load: QueueLoad = field(default_factory=QueueLoad)  # load of searches that follow the first ones
    searched_tokens: int = 0  # tokens x beam of the searches so far

    def next_stage(self) -> None:
        """Move the reservation for later searches to the next searches."""
        self.waiting_load, self.later_load = self.later_load, QueueLoad()

    def share(self, texts: int) -> QueueLoad:
        """The load of some of the reserved texts, as if all were equally long; the last ones get the rest."""
        part = texts / self.reserved_texts
        return QueueLoad(int(self.waiting_load.texts * part), int(self.waiting_load.tokens * part))
