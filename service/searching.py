"""Searching: one thread that steps every model's search in turn. It knows texts by numbers, not who waits for them.

It takes orders and tells events, both plain data: the same whether it runs in the service's process or in another.
"""

import os
import queue
import threading
from collections import deque
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from typing import Protocol

import torch

from seq2seq.bundle import Bundle
from seq2seq.errors import ServiceError
from seq2seq.generation import Answer, Generation, Request, Row, blank
from seq2seq.looks import Explanation
from seq2seq.model import Model
from service.logs import place_of

SHARE = 4  # once all slots were taken, texts enter when one in so many of them is free,
HELD_STEPS = 8  # or after so many steps
TELL_STEPS = 64  # steps of a search of which nothing is told but that they were made


@dataclass(frozen=True)
class Text:
    """A text to search with a model, and whether somebody wants to know what is written of it meanwhile."""

    number: int
    model: int
    row: Row
    followed: bool


@dataclass(frozen=True)
class Put:
    """Search these."""

    texts: tuple[Text, ...]


@dataclass(frozen=True)
class Follow:
    """Tell from now on what is written of these."""

    numbers: frozenset[int]


@dataclass(frozen=True)
class Cancel:
    """Nobody waits for these any more."""

    numbers: frozenset[int]


@dataclass(frozen=True)
class Unload:
    """Nothing will be searched with this model again."""

    model: int


@dataclass(frozen=True)
class Ping:
    """Say that the search goes on."""


Order = Put | Follow | Cancel | Unload | Ping


@dataclass(frozen=True)
class Admitted:
    """These have their slots."""

    numbers: tuple[int, ...]


@dataclass(frozen=True)
class Stepped:
    """What became of a model's texts, and what was stepped since this was last told: source positions `read`, and
    those of `padding` beside them."""

    model: int
    searching: int
    steps: int
    texts: int
    read: int
    padding: int
    written: dict[int, list[int]]  # how answers begin, whatever comes
    answered: tuple[tuple[int, Answer], ...]


@dataclass(frozen=True)
class Failed:
    """The search itself broke, at this place of the program, with these texts in it or before it."""

    model: int
    numbers: tuple[int, ...]
    place: str


@dataclass(frozen=True)
class Pong:
    """The search goes on: whoever was asked has come between two steps."""


@dataclass(frozen=True)
class Lost:
    """Whoever searched has ended, and all that it had was lost."""

    reason: str


Event = Admitted | Stepped | Failed | Pong | Lost


class LostError(ServiceError):
    """Whoever should have done something has ended."""


class Searcher(Protocol):
    """What searches texts for an engine: it takes orders, and tells events in a thread of its own."""

    @property
    def alive(self) -> bool: ...

    @property
    def pid(self) -> int:
        """The process that searches."""

    def start(self) -> None: ...

    def load(self, model: int, bundle: Bundle[Model], slots: int, width: int) -> Explanation:
        """Have a model ready and warm under this number, in any thread, beside the search; an explanation as it gives
        them. Raises InterlinearError, LostError."""

    def send(self, order: Order) -> None:
        """Never waits, and may be called from anywhere, also from what the garbage collector calls."""

    def end(self, seconds: float) -> None:
        """End within so many seconds, whatever is still searched."""


@dataclass(eq=False)
class Table:
    """A model's slots, who waits for them, and what has been stepped and not told yet."""

    number: int
    bundle: Bundle[Model]
    slots: int
    width: int
    patience: int = HELD_STEPS
    waiting: deque[Text] = field(default_factory=deque)
    searching: set[int] = field(default_factory=set)  # texts in slots
    followed: dict[int, int] = field(default_factory=dict)  # by text: how many words of it were told
    full: bool = False  # whether somebody waited when texts last entered
    held: int = 0  # steps for which those who wait have been kept waiting beside a free slot
    told: int = 0  # texts in slots, as was last told
    steps: int = 0
    texts: int = 0
    read: int = 0
    padding: int = 0

    def __post_init__(self) -> None:
        self.clear()

    def clear(self) -> None:
        """Nothing waits, and the slots are empty."""
        self.waiting.clear()
        self.searching.clear()
        self.followed.clear()
        self.generation = Generation(self.bundle, slots=self.slots, width=self.width)

    @property
    def busy(self) -> bool:
        return bool(self.waiting or self.searching or self.told)

    @property
    def numbers(self) -> set[int]:
        """The texts that it has."""
        return {text.number for text in self.waiting} | self.searching

    def admitted(self) -> list[Text]:
        """Those who enter now.

        To enter costs a batch of its own in the encoder, and all that the table holds is moved for it: where more
        wait than there is room for, they enter together. Where there is room, nobody waits for others.
        """
        free = self.generation.free
        if self.full and 0 < free < self.slots // SHARE and self.held < self.patience:
            self.held += 1
            return []
        entering = [self.waiting.popleft() for _ in range(min(len(self.waiting), free))]
        self.full, self.held = bool(self.waiting), 0
        self.searching.update(text.number for text in entering)
        return entering

    def cancel(self, numbers: frozenset[int]) -> None:
        """Those of these texts that it has leave it."""
        if any(text.number in numbers for text in self.waiting):
            self.waiting = deque(text for text in self.waiting if text.number not in numbers)
        self.searching -= numbers
        self.generation.cancel(numbers)
        self.followed = {number: told for number, told in self.followed.items() if number not in numbers}

    def news(self) -> dict[int, list[int]]:
        """What has been written of the texts that are followed, where it is more than was told."""
        written = {}
        for key, ids in self.generation.prefixes(self.followed).items():
            if len(ids) > self.followed[number_of(key)]:
                self.followed[number_of(key)] = len(ids)
                written[number_of(key)] = ids
        return written

    def warm(self) -> Explanation:
        """Search once, so that the first request finds everything loaded; an explanation as the model gives them."""
        card = self.bundle.card
        texts = dict.fromkeys(card.model.texts, "1")
        images = {name: blank(grid) for name, grid in card.model.images.items()}
        warming = Request(texts, card.search, explain=True, images=images)
        self.generation.admit([("warm", self.generation.encode(warming))])
        while not (finished := self.generation.advance()):
            pass
        ((_, answer),) = finished
        assert answer.explanation is not None
        return answer.explanation


class SearchThread:
    """A Searcher in this process."""

    def __init__(self, tell: Callable[[Event], None], threads: int | None) -> None:
        """`tell` is called with every event, in the search's thread; `threads` are for the mathematics."""
        self.tell = tell
        self.threads = threads
        self.tables: dict[int, Table] = {}  # for the search's thread alone
        self._orders: queue.SimpleQueue[Order | Table | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._run, name="search", daemon=True)

    @property
    def alive(self) -> bool:
        return self._thread.is_alive()

    @property
    def pid(self) -> int:
        return os.getpid()

    def start(self) -> None:
        self._thread.start()

    def load(self, model: int, bundle: Bundle[Model], slots: int, width: int) -> Explanation:
        table = Table(model, bundle, slots, width)
        explanation = table.warm()
        self._orders.put(table)
        return explanation

    def send(self, order: Order) -> None:
        self._orders.put(order)

    def end(self, seconds: float) -> None:
        self._orders.put(None)
        if self._thread.is_alive():
            self._thread.join(seconds)

    # The search's thread.

    def _run(self) -> None:
        if self.threads:
            torch.set_num_threads(self.threads)
        try:
            while self._obey():
                for table in [table for table in self.tables.values() if table.busy]:
                    try:
                        self._turn(table)
                    except Exception as error:
                        self._failed(table, place_of(error))
        except Exception as error:  # nobody should wait for a thread that has ended
            self.tell(Lost(place_of(error)))

    def _obey(self) -> bool:
        """Do what was ordered meanwhile, and wait for an order where there is nothing to search; False at the end."""
        while True:
            idle = not any(table.busy for table in self.tables.values())
            try:
                order = self._orders.get(block=idle)
            except queue.Empty:
                return True
            match order:
                case None:
                    return False
                case Table():
                    self.tables[order.number] = order
                case Put():
                    for text in order.texts:
                        self.tables[text.model].waiting.append(text)
                        if text.followed:
                            self.tables[text.model].followed[text.number] = 0
                case Follow():
                    for table in self.tables.values():
                        table.followed |= dict.fromkeys(order.numbers & table.numbers, 0)
                case Cancel():
                    for table in self.tables.values():
                        table.cancel(order.numbers)
                case Unload():
                    self.tables.pop(order.model, None)
                case Ping():
                    self.tell(Pong())

    def _turn(self, table: Table) -> None:
        """Admit what fits, take one step, and tell what came of it."""
        generation = table.generation
        if admitted := table.admitted():
            generation.admit([(text.number, text.row) for text in admitted])
            self.tell(Admitted(tuple(text.number for text in admitted)))
        answered: list[tuple[int, Answer]] = []
        if table.searching:
            read, room = generation.positions
            table.steps += 1
            table.texts += len(table.searching)
            table.read += read
            table.padding += room - read
            answered = [(number_of(key), answer) for key, answer in generation.advance()]
            for number, _ in answered:
                table.searching.remove(number)
                table.followed.pop(number, None)
        written = table.news() if table.followed else {}
        if answered or written or len(table.searching) != table.told or table.steps >= TELL_STEPS:
            self._told(table, written, answered)

    def _told(self, table: Table, written: dict[int, list[int]], answered: list[tuple[int, Answer]]) -> None:
        counts = len(table.searching), table.steps, table.texts, table.read, table.padding
        table.told, table.steps, table.texts, table.read, table.padding = counts[0], 0, 0, 0, 0
        self.tell(Stepped(table.number, *counts, written, tuple(answered)))

    def _failed(self, table: Table, place: str) -> None:
        """Every text of the table fails; it goes on with empty slots."""
        numbers = table.numbers
        table.clear()
        self.tell(Failed(table.number, tuple(numbers), place))
        self._told(table, {}, [])


def number_of(key: Hashable) -> int:
    """A text's number, which is its key in its table."""
    assert isinstance(key, int)
    return key
