"""Searching: one thread that steps every model's search in turn. It knows texts by numbers, not who waits for them.

It takes orders and tells events, both plain data: the same whether it runs in the service's process or in another.
"""

import logging
import os
import queue
import sys
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Collection, Hashable
from dataclasses import dataclass, field
from typing import Protocol

import torch

from seq2seq.bundle import Bundle
from seq2seq.errors import ServiceError
from seq2seq.explain import Explanation
from seq2seq.generate import Answer, Generation, Request, Row, blank
from seq2seq.model.model import Model
from service.engine.fair_queue import FairQueue
from service.logging import place_of, place_of_frame

log = logging.getLogger("interlinear.service")

SHARE = 4  # once all slots were taken, texts enter when one in so many of them is free,
HELD_STEPS = 8  # or after so many steps
CROWD = 4  # a caller is crowded out by one who has more than so many times as many texts, waiting or in slots
LEAD = 0.2  # seconds that a batch which had nothing to do is stepped for each of its callers before the others' turn
TELL_STEPS = 64  # steps of a search of which nothing is told but that they were made
BEAT = 0.25  # seconds between two signs of life of a search that has nothing to do


@dataclass(frozen=True)
class Text:
    """A text to search with a model, whether somebody wants to know what is written of it meanwhile, and for whom it
    is searched."""

    number: int
    model: int
    row: Row
    followed: bool
    callers: tuple[str, ...] = ("",)

    @property
    def cost(self) -> int:
        """Tokens x beam."""
        return self.row.length * self.row.request.options.beam


@dataclass(frozen=True)
class Put:
    """Search these."""

    texts: tuple[Text, ...]


@dataclass(frozen=True)
class Follow:
    """Tell from now on what is written of these."""

    numbers: frozenset[int]


@dataclass(frozen=True)
class Join:
    """These are for this caller too."""

    numbers: frozenset[int]
    caller: str


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


Order = Put | Follow | Join | Cancel | Unload | Ping


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
    """The search itself broke, at this place of the program, over these texts."""

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

    @property
    def beats(self) -> int | None:
        """Rises while it comes between two steps, or has none to take: where it stays, it hangs. None for one that is
        watched, and ended, by its own."""

    @property
    def place(self) -> str:
        """Of the program, where it is at this moment."""

    def start(self) -> None: ...

    def load(self, model: int, bundle: Bundle[Model], slots: int, width: int) -> Explanation:
        """Have a model ready and warm under this number, in any thread, beside the search; an explanation as it gives
        them. Raises InterlinearError, LostError."""

    def send(self, order: Order) -> None:
        """Never waits, and may be called from anywhere, also from what the garbage collector calls."""

    def end(self, seconds: float) -> None:
        """End within so many seconds, whatever is still searched."""


@dataclass(eq=False)
class Batch:
    """Texts that are stepped together."""

    generation: Generation
    texts: dict[int, str] = field(default_factory=dict)  # by number: the caller whose turn it was
    used: float = 0.0  # seconds that its steps took, for each of its callers
    idle: bool = True  # whether there was nothing to step when this was last looked at

    @property
    def callers(self) -> int:
        return len(set(self.texts.values()))


@dataclass(eq=False)
class Table:
    """A model's slots, who waits for them, and what has been stepped and not told yet.

    Whose text has the next slot is decided by a fair queue over tokens x beam. Texts are stepped in one batch, but for
    two kinds:

    - A caller who has a few texts beside somebody's many is not kept waiting by these. They have slots of their own, a
      quarter of the table's, and on a CPU, where a step takes longer with every text in it, a batch of their own.
    - After a step that failed nobody knows whose fault it was. Its texts are searched again, by halves, apart from the
      others: what fails alone is at fault.
    """

    number: int
    bundle: Bundle[Model]
    slots: int
    width: int
    patience: int = HELD_STEPS
    waiting: FairQueue[int] = field(default_factory=FairQueue)
    texts: dict[int, Text] = field(default_factory=dict)  # that wait or are searched, by number
    ahead: set[int] = field(default_factory=set)  # of those in slots, whose callers would have been crowded out
    admitted: set[int] = field(default_factory=set)  # those that were told to have slots
    doubtful: deque[list[int]] = field(default_factory=deque)  # to be searched again, each list apart
    followed: dict[int, int] = field(default_factory=dict)  # by text: how many words of it were told
    full: bool = False  # whether somebody waited when texts last entered
    held: int = 0  # steps for which those who wait have been kept waiting beside a free slot
    told: int = 0  # texts in slots, as was last told
    steps: int = 0
    stepped: int = 0
    read: int = 0
    padding: int = 0

    def __post_init__(self) -> None:
        self.common, self.again = Batch(self.empty()), Batch(self.empty())
        on_cpu = self.common.generation.table.device.type == "cpu"
        self.quick = Batch(self.empty()) if on_cpu else self.common
        self.batches = [self.common, self.again, *([self.quick] if on_cpu else [])]

    def empty(self) -> Generation:
        """A generation in which nothing is searched."""
        return Generation(self.bundle, slots=self.slots, width=self.width)

    @property
    def generation(self) -> Generation:
        """That of most texts."""
        return self.common.generation

    @property
    def searching(self) -> int:
        """Texts in slots."""
        return sum(len(batch.texts) for batch in self.batches)

    @property
    def busy(self) -> bool:
        return bool(self.texts or self.told)

    def put(self, text: Text) -> None:
        """Have a text wait."""
        self.texts[text.number] = text
        for caller in text.callers:
            self.waiting.put(caller, text.number, text.cost)
        if text.followed:
            self.followed[text.number] = 0

    def join(self, numbers: frozenset[int], caller: str) -> None:
        """Have these, as far as they wait, wait for one more caller."""
        for number in sorted(numbers & self.texts.keys()):
            if number in self.waiting:
                self.waiting.put(caller, number, self.texts[number].cost)

    def can_step(self, batch: Batch) -> bool:
        """Whether a batch has texts, or will have when it is its turn."""
        if batch is self.common and self.waiting:
            return True
        return bool(batch.texts) or (batch is self.again and bool(self.doubtful))

    def make_way(self) -> None:
        """Give slots to the next texts of callers beside whom another has many times as many, here or waiting."""
        if not self.waiting:
            return
        waiting = {caller: len(line.keys) for caller, line in self.waiting.lines.items()}
        own = Counter(waiting)
        own.update(caller for batch in self.batches for caller in batch.texts.values())
        crowd = own.most_common(2)
        for caller in self.waiting.callers() if len(crowd) > 1 and crowd[0][1] > CROWD else ():
            most = next(count for other, count in crowd if other != caller)
            for _ in range(waiting[caller] if most > CROWD * own[caller] else 0):
                if len(self.ahead) >= max(1, self.slots // SHARE):
                    return
                if caller in self.waiting.lines:  # another's turn may have brought what was this one's too
                    self.ahead.add(self._take(self.quick, caller))

    def enter(self, batch: Batch) -> None:
        """Give the slots that are free to those who wait for this batch.

        To enter costs a batch of its own in the encoder, and all that the table holds is moved for it: where more
        wait than there is room for, they enter together. Where there is room, nobody waits for others.
        """
        if batch is self.again and self.doubtful and not batch.texts:
            numbers = self.doubtful.popleft()
            batch.texts.update((number, self.texts[number].callers[0]) for number in numbers)
        if batch is not self.common or not self.waiting:
            return
        kept = len(self.doubtful[0]) if self.doubtful and not self.again.texts else 0
        free = self.slots - self.searching + len(self.ahead) - kept
        if self.full and 0 < free < self.slots // SHARE and self.held < self.patience:
            self.held += 1
            return
        for _ in range(min(len(self.waiting), free)):
            self._take(batch)
        self.full, self.held = bool(self.waiting), 0

    def entered(self, batch: Batch) -> list[int]:
        """Those of a batch that are not in its generation yet."""
        return [number for number in batch.texts if number not in batch.generation.rows]

    def _take(self, batch: Batch, caller: str | None = None) -> int:
        """Give a slot in the batch to the next text, or to a caller's next."""
        caller, number = self.waiting.take(caller)
        batch.texts[number] = caller
        return number

    def failed(self, batch: Batch) -> list[int]:
        """The batch's step failed. Whose fault it was, as far as that is known; what else it had is searched again."""
        numbers = list(batch.texts)
        batch.texts.clear()
        batch.generation = self.empty()
        self.ahead.difference_update(numbers)
        if len(numbers) == 1:
            self._forget(numbers)
            return numbers
        half = len(numbers) // 2
        self.doubtful.extendleft([numbers[half:], numbers[:half]])
        return []

    def answered(self, batch: Batch, numbers: Collection[int]) -> None:
        """These leave the batch."""
        for number in numbers:
            del batch.texts[number]
        self.ahead.difference_update(numbers)
        self._forget(numbers)

    def cancel(self, numbers: frozenset[int]) -> None:
        """Those of these texts that it has leave it."""
        self.waiting.remove(numbers)
        for batch in self.batches:
            batch.generation.cancel(numbers)
            for number in numbers & batch.texts.keys():
                del batch.texts[number]
        left = ([number for number in some if number not in numbers] for some in self.doubtful)
        self.doubtful = deque(some for some in left if some)
        self.ahead -= numbers
        self._forget(numbers)

    def _forget(self, numbers: Collection[int]) -> None:
        for number in numbers:
            self.texts.pop(number, None)
            self.followed.pop(number, None)
            self.admitted.discard(number)

    def news(self) -> dict[int, list[int]]:
        """What has been written of the texts that are followed, where it is more than was told."""
        written = {}
        for batch in self.batches:
            for key, ids in batch.generation.prefixes(self.followed).items():
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
        generation = self.generation
        generation.admit([("warm", generation.encode(warming))])
        while not (finished := generation.advance()):
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
        self.beats = 0
        self._clock = 0.0  # what the batch that was stepped last had used before
        self._orders: queue.SimpleQueue[Order | Table | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._run, name="search", daemon=True)

    @property
    def alive(self) -> bool:
        return self._thread.is_alive()

    @property
    def pid(self) -> int:
        return os.getpid()

    @property
    def place(self) -> str:
        frame = sys._current_frames().get(self._thread.ident or 0)
        return place_of_frame(frame) if frame else "nowhere"

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
                self._round()
        except BaseException as error:  # nobody should wait for a thread that has ended
            self.tell(Lost(place_of(error)))

    def _obey(self) -> bool:
        """Do what was ordered meanwhile, and wait a moment for an order where there is nothing to search; False at the
        end."""
        while True:
            self.beats += 1
            idle = not any(table.busy for table in self.tables.values())
            try:
                order = self._orders.get(block=idle, timeout=BEAT)
            except queue.Empty:
                return True
            match order:
                case None:
                    return False
                case Table():
                    self.tables[order.number] = order
                case Put():
                    for text in order.texts:
                        self.tables[text.model].put(text)
                case Follow():
                    for table in self.tables.values():
                        table.followed |= dict.fromkeys(order.numbers & table.texts.keys(), 0)
                case Join():
                    for table in self.tables.values():
                        table.join(order.numbers, order.caller)
                case Cancel():
                    for table in self.tables.values():
                        table.cancel(order.numbers)
                case Unload():
                    self.tables.pop(order.model, None)
                case Ping():
                    self.tell(Pong())

    def _round(self) -> None:
        """Take one step, with the batch whose callers have had the least time until now."""
        turns: list[tuple[Table, Batch]] = []
        for table in self.tables.values():
            table.make_way()
            for batch in table.batches:
                idle, batch.idle = batch.idle, not table.can_step(batch)
                if not batch.idle:
                    turns.append((table, batch))
                    if idle:  # for the time in which it had nothing to do it is owed no more than this
                        batch.used = max(batch.used, self._clock - LEAD)
        if turns:
            table, batch = min(turns, key=lambda turn: turn[1].used)
            self._clock, begun = batch.used, time.perf_counter()
            try:
                self._turn(table, batch)
            except Exception as error:
                self._failed(table, batch, place_of(error))
            batch.used += (time.perf_counter() - begun) / max(1, batch.callers)
        for table in self.tables.values():
            if table.told and not table.searching:
                self._told(table, {}, [])

    def _turn(self, table: Table, batch: Batch) -> None:
        """Admit what fits, take one step, and tell what came of it."""
        table.enter(batch)
        if new := table.entered(batch):
            # Told before it is done: whoever finds that this process has ended knows who had a part in it.
            self.tell(Admitted(tuple(number for number in new if number not in table.admitted)))
            table.admitted.update(new)
            batch.generation.admit([(number, table.texts[number].row) for number in new])
        self.beats += 1
        if not batch.texts:
            return
        read, room = batch.generation.positions
        table.steps += 1
        table.stepped += len(batch.texts)
        table.read += read
        table.padding += room - read
        answered = [(number_of(key), answer) for key, answer in batch.generation.advance()]
        table.answered(batch, [number for number, _ in answered])
        written = table.news() if table.followed else {}
        if answered or written or table.searching != table.told or table.steps >= TELL_STEPS:
            self._told(table, written, answered)

    def _told(self, table: Table, written: dict[int, list[int]], answered: list[tuple[int, Answer]]) -> None:
        counts = table.searching, table.steps, table.stepped, table.read, table.padding
        table.told, table.steps, table.stepped, table.read, table.padding = counts[0], 0, 0, 0, 0
        self.tell(Stepped(table.number, *counts, written, tuple(answered)))

    def _failed(self, table: Table, batch: Batch, place: str) -> None:
        """A batch's step failed: the others of the table, and what waits, go on."""
        texts = len(batch.texts)
        if at_fault := table.failed(batch):
            self.tell(Failed(table.number, tuple(at_fault), place))
        else:
            log.warning("a step of %d texts failed (%s): they are searched again, by halves", texts, place)


def number_of(key: Hashable) -> int:
    """A text's number, which is its key in its table."""
    assert isinstance(key, int)
    return key
