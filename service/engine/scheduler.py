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
from seq2seq.generate import EncodedRequest, GenerationResult, Request, SequenceGenerator, blank_image
from seq2seq.model.model import Model
from service.engine.fair_queue import FairQueue
from service.logging import exception_location, frame_location

log = logging.getLogger("interlinear.service")

REFILL_DIVISOR = 4  # once all slots were taken, texts enter when one in so many of them is free,
MAX_HELD_STEPS = 8  # or after so many steps
CROWDING_FACTOR = 4  # a caller is crowded out by one who has more than so many times as many texts, waiting or in slots
MAX_CREDIT = (
    0.2  # seconds that a batch which had nothing to do is stepped for each of its callers before the others' turn
)
REPORT_STEPS = 64  # steps of a search of which nothing is told but that they were made
HEARTBEAT_SECONDS = 0.25  # seconds between two signs of life of a search that has nothing to do


@dataclass(frozen=True)
class EngineRequest:
    """A text to search with a model, whether somebody wants to know what is written of it meanwhile, and for whom it
    is searched."""

    number: int
    model: int
    row: EncodedRequest
    streamed: bool
    callers: tuple[str, ...] = ("",)

    @property
    def cost(self) -> int:
        """Tokens x beam."""
        return self.row.length * self.row.request.options.beam


@dataclass(frozen=True)
class Add:
    """Search these."""

    texts: tuple[EngineRequest, ...]


@dataclass(frozen=True)
class StreamOutputs:
    """Tell from now on what is written of these."""

    numbers: frozenset[int]


@dataclass(frozen=True)
class AddCaller:
    """These are for this caller too."""

    numbers: frozenset[int]
    caller: str


@dataclass(frozen=True)
class Abort:
    """Nobody waits for these any more."""

    numbers: frozenset[int]


@dataclass(frozen=True)
class UnloadModel:
    """Nothing will be searched with this model again."""

    model: int


@dataclass(frozen=True)
class Ping:
    """Say that the search goes on."""


Command = Add | StreamOutputs | AddCaller | Abort | UnloadModel | Ping


@dataclass(frozen=True)
class Scheduled:
    """These have their slots."""

    numbers: tuple[int, ...]


@dataclass(frozen=True)
class EngineOutputs:
    """What became of a model's texts, and what was stepped since this was last told: source positions `read`, and
    those of `padding` beside them."""

    model: int
    searching: int
    steps: int
    texts: int
    read: int
    padding: int
    prefixes: dict[int, list[int]]  # how answers begin, whatever comes
    answers: tuple[tuple[int, GenerationResult], ...]


@dataclass(frozen=True)
class SearchFailed:
    """The search itself broke, at this place of the program, over these texts."""

    model: int
    numbers: tuple[int, ...]
    location: str


@dataclass(frozen=True)
class Pong:
    """The search goes on: whoever was asked has come between two steps."""


@dataclass(frozen=True)
class WorkerLost:
    """Whoever searched has ended, and all that it had was lost."""

    reason: str


Event = Scheduled | EngineOutputs | SearchFailed | Pong | WorkerLost


class WorkerLostError(ServiceError):
    """Whoever should have done something has ended."""


class EngineWorker(Protocol):
    """What searches texts for an engine: it takes orders, and tells events in a thread of its own."""

    @property
    def alive(self) -> bool: ...

    @property
    def pid(self) -> int:
        """The process that searches."""

    @property
    def heartbeats(self) -> int | None:
        """Rises while it comes between two steps, or has none to take: where it stays, it hangs. None for one that is
        watched, and ended, by its own."""

    @property
    def location(self) -> str:
        """Of the program, where it is at this moment."""

    def start(self) -> None: ...

    def load(self, model: int, bundle: Bundle[Model], slots: int, width: int) -> Explanation:
        """Have a model ready and warm under this number, in any thread, beside the search; an explanation as it gives
        them. Raises InterlinearError, LostError."""

    def send(self, command: Command) -> None:
        """Never waits, and may be called from anywhere, also from what the garbage collector calls."""

    def stop(self, seconds: float) -> None:
        """End within so many seconds, whatever is still searched."""


@dataclass(eq=False)
class Batch:
    """Texts that are stepped together."""

    generation: SequenceGenerator
    texts: dict[int, str] = field(default_factory=dict)  # by number: the caller whose turn it was
    seconds_used: float = 0.0  # seconds that its steps took, for each of its callers
    idle: bool = True  # whether there was nothing to step when this was last looked at

    @property
    def callers(self) -> int:
        return len(set(self.texts.values()))


@dataclass(eq=False)
class BatchScheduler:
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
    max_held_steps: int = MAX_HELD_STEPS
    waiting: FairQueue[int] = field(default_factory=FairQueue)
    texts: dict[int, EngineRequest] = field(default_factory=dict)  # that wait or are searched, by number
    in_reserved_slots: set[int] = field(
        default_factory=set
    )  # of those in slots, whose callers would have been crowded out
    reported_scheduled: set[int] = field(default_factory=set)  # those that were told to have slots
    to_retry: deque[list[int]] = field(default_factory=deque)  # to be searched again, each list apart
    streamed: dict[int, int] = field(default_factory=dict)  # by text: how many words of it were told
    was_full: bool = False  # whether somebody waited when texts last entered
    held_steps: int = 0  # steps for which those who wait have been kept waiting beside a free slot
    reported: int = 0  # texts in slots, as was last told
    steps: int = 0
    stepped_texts: int = 0
    read: int = 0
    padding: int = 0

    def __post_init__(self) -> None:
        self.main_batch, self.retry_batch = Batch(self.empty()), Batch(self.empty())
        on_cpu = self.main_batch.generation.table.device.type == "cpu"
        self.reserved_batch = Batch(self.empty()) if on_cpu else self.main_batch
        self.batches = [self.main_batch, self.retry_batch, *([self.reserved_batch] if on_cpu else [])]

    def empty(self) -> SequenceGenerator:
        """A generation in which nothing is searched."""
        return SequenceGenerator(self.bundle, slots=self.slots, width=self.width)

    @property
    def generation(self) -> SequenceGenerator:
        """That of most texts."""
        return self.main_batch.generation

    @property
    def searching(self) -> int:
        """Texts in slots."""
        return sum(len(batch.texts) for batch in self.batches)

    @property
    def busy(self) -> bool:
        return bool(self.texts or self.reported)

    def add(self, text: EngineRequest) -> None:
        """Have a text wait."""
        self.texts[text.number] = text
        for caller in text.callers:
            self.waiting.put(caller, text.number, text.cost)
        if text.streamed:
            self.streamed[text.number] = 0

    def add_caller(self, numbers: frozenset[int], caller: str) -> None:
        """Have these, as far as they wait, wait for one more caller."""
        for number in sorted(numbers & self.texts.keys()):
            if number in self.waiting:
                self.waiting.put(caller, number, self.texts[number].cost)

    def can_step(self, batch: Batch) -> bool:
        """Whether a batch has texts, or will have when it is its turn."""
        if batch is self.main_batch and self.waiting:
            return True
        return bool(batch.texts) or (batch is self.retry_batch and bool(self.to_retry))

    def fill_reserved_slots(self) -> None:
        """Give slots to the next texts of callers beside whom another has many times as many, here or waiting."""
        if not self.waiting:
            return
        waiting = {caller: len(caller_queue.keys) for caller, caller_queue in self.waiting.queues.items()}
        own = Counter(waiting)
        own.update(caller for batch in self.batches for caller in batch.texts.values())
        crowd = own.most_common(2)
        for caller in self.waiting.callers() if len(crowd) > 1 and crowd[0][1] > CROWDING_FACTOR else ():
            most = next(count for other, count in crowd if other != caller)
            for _ in range(waiting[caller] if most > CROWDING_FACTOR * own[caller] else 0):
                if len(self.in_reserved_slots) >= max(1, self.slots // REFILL_DIVISOR):
                    return
                if caller in self.waiting.queues:  # another's turn may have brought what was this one's too
                    self.in_reserved_slots.add(self._assign_slot(self.reserved_batch, caller))

    def fill_slots(self, batch: Batch) -> None:
        """Give the slots that are free to those who wait for this batch.

        To enter costs a batch of its own in the encoder, and all that the table holds is moved for it: where more
        wait than there is room for, they enter together. Where there is room, nobody waits for others.
        """
        if batch is self.retry_batch and self.to_retry and not batch.texts:
            numbers = self.to_retry.popleft()
            batch.texts.update((number, self.texts[number].callers[0]) for number in numbers)
        if batch is not self.main_batch or not self.waiting:
            return
        kept_for_retry = len(self.to_retry[0]) if self.to_retry and not self.retry_batch.texts else 0
        free = self.slots - self.searching + len(self.in_reserved_slots) - kept_for_retry
        if self.was_full and 0 < free < self.slots // REFILL_DIVISOR and self.held_steps < self.max_held_steps:
            self.held_steps += 1
            return
        for _ in range(min(len(self.waiting), free)):
            self._assign_slot(batch)
        self.was_full, self.held_steps = bool(self.waiting), 0

    def new_numbers(self, batch: Batch) -> list[int]:
        """Those of a batch that are not in its generation yet."""
        return [number for number in batch.texts if number not in batch.generation.rows]

    def _assign_slot(self, batch: Batch, caller: str | None = None) -> int:
        """Give a slot in the batch to the next text, or to a caller's next."""
        caller, number = self.waiting.take(caller)
        batch.texts[number] = caller
        return number

    def split_failed(self, batch: Batch) -> list[int]:
        """The batch's step failed. Whose fault it was, as far as that is known; what else it had is searched again."""
        numbers = list(batch.texts)
        batch.texts.clear()
        batch.generation = self.empty()
        self.in_reserved_slots.difference_update(numbers)
        if len(numbers) == 1:
            self._forget(numbers)
            return numbers
        half = len(numbers) // 2
        self.to_retry.extendleft([numbers[half:], numbers[:half]])
        return []

    def remove_finished(self, batch: Batch, numbers: Collection[int]) -> None:
        """These leave the batch."""
        for number in numbers:
            del batch.texts[number]
        self.in_reserved_slots.difference_update(numbers)
        self._forget(numbers)

    def abort(self, numbers: frozenset[int]) -> None:
        """Those of these texts that it has leave it."""
        self.waiting.remove(numbers)
        for batch in self.batches:
            batch.generation.cancel(numbers)
            for number in numbers & batch.texts.keys():
                del batch.texts[number]
        left = ([number for number in some if number not in numbers] for some in self.to_retry)
        self.to_retry = deque(some for some in left if some)
        self.in_reserved_slots -= numbers
        self._forget(numbers)

    def _forget(self, numbers: Collection[int]) -> None:
        for number in numbers:
            self.texts.pop(number, None)
            self.streamed.pop(number, None)
            self.reported_scheduled.discard(number)

    def new_prefixes(self) -> dict[int, list[int]]:
        """What has been written of the texts that are followed, where it is more than was told."""
        prefixes = {}
        for batch in self.batches:
            for key, ids in batch.generation.prefixes(self.streamed).items():
                if len(ids) > self.streamed[number_of(key)]:
                    self.streamed[number_of(key)] = len(ids)
                    prefixes[number_of(key)] = ids
        return prefixes

    def warm_up(self) -> Explanation:
        """Search once, so that the first request finds everything loaded; an explanation as the model gives them."""
        card = self.bundle.card
        texts = dict.fromkeys(card.model.texts, "1")
        images = {name: blank_image(grid) for name, grid in card.model.images.items()}
        warm_up_request = Request(texts, card.search, explain=True, images=images)
        generation = self.generation
        generation.admit([("warm", generation.encode(warm_up_request))])
        while not (finished := generation.step()):
            pass
        ((_, answer),) = finished
        assert answer.explanation is not None
        return answer.explanation


class SearchThread:
    """A Searcher in this process."""

    def __init__(self, emit: Callable[[Event], None], threads: int | None) -> None:
        """`emit` is called with every event, in the search's thread; `threads` are for the mathematics."""
        self.emit = emit
        self.threads = threads
        self.schedulers: dict[int, BatchScheduler] = {}  # for the search's thread alone
        self.heartbeats = 0
        self._virtual_time = 0.0  # what the batch that was stepped last had used before
        self._commands: queue.SimpleQueue[Command | BatchScheduler | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._run, name="search", daemon=True)

    @property
    def alive(self) -> bool:
        return self._thread.is_alive()

    @property
    def pid(self) -> int:
        return os.getpid()

    @property
    def location(self) -> str:
        frame = sys._current_frames().get(self._thread.ident or 0)
        return frame_location(frame) if frame else "nowhere"

    def start(self) -> None:
        self._thread.start()

    def load(self, model: int, bundle: Bundle[Model], slots: int, width: int) -> Explanation:
        scheduler = BatchScheduler(model, bundle, slots, width)
        explanation = scheduler.warm_up()
        self._commands.put(scheduler)
        return explanation

    def send(self, command: Command) -> None:
        self._commands.put(command)

    def stop(self, seconds: float) -> None:
        self._commands.put(None)
        if self._thread.is_alive():
            self._thread.join(seconds)

    # The search's thread.

    def _run(self) -> None:
        if self.threads:
            torch.set_num_threads(self.threads)
        try:
            while self._process_commands():
                self._run_round()
        except BaseException as error:  # nobody should wait for a thread that has ended
            self.emit(WorkerLost(exception_location(error)))

    def _process_commands(self) -> bool:
        """Do what was ordered meanwhile, and wait a moment for an order where there is nothing to search; False at the
        end."""
        while True:
            self.heartbeats += 1
            idle = not any(scheduler.busy for scheduler in self.schedulers.values())
            try:
                command = self._commands.get(block=idle, timeout=HEARTBEAT_SECONDS)
            except queue.Empty:
                return True
            match command:
                case None:
                    return False
                case BatchScheduler():
                    self.schedulers[command.number] = command
                case Add():
                    for text in command.texts:
                        self.schedulers[text.model].add(text)
                case StreamOutputs():
                    for scheduler in self.schedulers.values():
                        scheduler.streamed |= dict.fromkeys(command.numbers & scheduler.texts.keys(), 0)
                case AddCaller():
                    for scheduler in self.schedulers.values():
                        scheduler.add_caller(command.numbers, command.caller)
                case Abort():
                    for scheduler in self.schedulers.values():
                        scheduler.abort(command.numbers)
                case UnloadModel():
                    self.schedulers.pop(command.model, None)
                case Ping():
                    self.emit(Pong())

    def _run_round(self) -> None:
        """Take one step, with the batch whose callers have had the least time until now."""
        turns: list[tuple[BatchScheduler, Batch]] = []
        for scheduler in self.schedulers.values():
            scheduler.fill_reserved_slots()
            for batch in scheduler.batches:
                idle, batch.idle = batch.idle, not scheduler.can_step(batch)
                if not batch.idle:
                    turns.append((scheduler, batch))
                    if idle:  # for the time in which it had nothing to do it is owed no more than this
                        batch.seconds_used = max(batch.seconds_used, self._virtual_time - MAX_CREDIT)
        if turns:
            scheduler, batch = min(turns, key=lambda turn: turn[1].seconds_used)
            self._virtual_time, started = batch.seconds_used, time.perf_counter()
            try:
                self._step_batch(scheduler, batch)
            except Exception as error:
                self._on_step_failed(scheduler, batch, exception_location(error))
            batch.seconds_used += (time.perf_counter() - started) / max(1, batch.callers)
        for scheduler in self.schedulers.values():
            if scheduler.reported and not scheduler.searching:
                self._report(scheduler, {}, [])

    def _step_batch(self, scheduler: BatchScheduler, batch: Batch) -> None:
        """Admit what fits, take one step, and tell what came of it."""
        scheduler.fill_slots(batch)
        if new := scheduler.new_numbers(batch):
            # Told before it is done: whoever finds that this process has ended knows who had a part in it.
            self.emit(Scheduled(tuple(number for number in new if number not in scheduler.reported_scheduled)))
            scheduler.reported_scheduled.update(new)
            batch.generation.admit([(number, scheduler.texts[number].row) for number in new])
        self.heartbeats += 1
        if not batch.texts:
            return
        read, room = batch.generation.positions
        scheduler.steps += 1
        scheduler.stepped_texts += len(batch.texts)
        scheduler.read += read
        scheduler.padding += room - read
        answers = [(number_of(key), answer) for key, answer in batch.generation.step()]
        scheduler.remove_finished(batch, [number for number, _ in answers])
        prefixes = scheduler.new_prefixes() if scheduler.streamed else {}
        if answers or prefixes or scheduler.searching != scheduler.reported or scheduler.steps >= REPORT_STEPS:
            self._report(scheduler, prefixes, answers)

    def _report(
        self, scheduler: BatchScheduler, prefixes: dict[int, list[int]], answers: list[tuple[int, GenerationResult]]
    ) -> None:
        counts = scheduler.searching, scheduler.steps, scheduler.stepped_texts, scheduler.read, scheduler.padding
        scheduler.reported, scheduler.steps, scheduler.stepped_texts, scheduler.read, scheduler.padding = (
            counts[0],
            0,
            0,
            0,
            0,
        )
        self.emit(EngineOutputs(scheduler.number, *counts, prefixes, tuple(answers)))

    def _on_step_failed(self, scheduler: BatchScheduler, batch: Batch, location: str) -> None:
        """A batch's step failed: the others of the table, and what waits, go on."""
        texts = len(batch.texts)
        if at_fault := scheduler.split_failed(batch):
            self.emit(SearchFailed(scheduler.number, tuple(at_fault), location))
        else:
            log.warning("a step of %d texts failed (%s): they are searched again, by halves", texts, location)


def number_of(key: Hashable) -> int:
    """A text's number, which is its key in its table."""
    assert isinstance(key, int)
    return key
