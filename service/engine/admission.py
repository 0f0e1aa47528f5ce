"""Admission: how much may wait, and how much of that is one caller's."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Literal

HARD_LIMIT_FACTOR = 4  # times the queue's limit that may wait before a caller's first request is refused too


@dataclass
class QueueLoad:
    """Texts, and their tokens x beam."""

    texts: int = 0
    tokens: int = 0


class Admission:
    """Counts what waits, by caller, and says whether more may. Whoever uses it holds the engine's lock.

    A request is admitted when one of these is so:

    - the queue has room for it;
    - with it, its caller has no more waiting than their share: the queue, divided by the callers who have something
      waiting;
    - its caller has nothing waiting. Its size is bounded by the limits on a request.

    So nobody is refused because of what another has sent. What waits in all stays bounded: the last rule ends at four
    times the queue, and the shares sum to the queue times the logarithm of the callers.
    """

    def __init__(self, texts: int, tokens: int) -> None:
        self.limit = QueueLoad(texts, tokens)
        self.waiting = QueueLoad()
        self.by_caller: dict[str, QueueLoad] = {}

    def add(self, caller: str, texts: int, tokens: int) -> None:
        """So much more waits for a caller, or less."""
        own = self.by_caller.setdefault(caller, QueueLoad())
        for amount in (self.waiting, own):
            amount.texts += texts
            amount.tokens += tokens
        if own == QueueLoad():
            del self.by_caller[caller]

    def exceeded_limit(self, caller: str, texts: int, tokens: int) -> Literal["queue_texts", "queue_tokens"] | None:
        """Over which limit so much more would be; None where it may wait."""
        own = self.by_caller.get(caller, QueueLoad())
        if not texts:
            return None
        callers = len(self.by_caller) + (caller not in self.by_caller)
        over_texts, over_tokens = (
            total + new > limit and mine + new > limit // callers and (mine > 0 or total > HARD_LIMIT_FACTOR * limit)
            for total, mine, new, limit in (
                (self.waiting.texts, own.texts, texts, self.limit.texts),
                (self.waiting.tokens, own.tokens, tokens, self.limit.tokens),
            )
        )
        return "queue_texts" if over_texts else "queue_tokens" if over_tokens else None


@dataclass
class Reservation:
    """Room in the queue for a request whose texts are still being split and encoded."""

    caller: str
    waiting_load: QueueLoad
    charge: Callable[[int], Awaitable[None]] | None = None  # told the tokens x beam, once they are known
