"""Continuous batching for one model: its slots, its waiting texts, and the batches that are stepped."""

from collections import Counter, deque
from collections.abc import Collection
from dataclasses import dataclass, field

from interlinear.generation.translator import Translator
from service.engine.fair_queue import FairQueue
from service.engine.protocol import EngineRequest

REFILL_DIVISOR = 4  # if all slots were taken, waiting texts enter when this fraction (1/n) of them is free,
MAX_HELD_STEPS = 8  # or after this many steps
RESERVED_DIVISOR = 4  # reserved slots are this fraction (1/n) of the slots
CROWDING_FACTOR = 4  # a caller is crowded out by another who has more than this many times their texts


@dataclass(eq=False)
class Batch:
    """Texts that are stepped together."""

    translator: Translator
    callers_by_number: dict[int, str] = field(default_factory=dict)  # caller who is charged, by number
    seconds_used: float = 0.0  # seconds of its steps, each divided by its weight
    idle: bool = True  # whether it had nothing to step at the last check

    @property
    def callers(self) -> int:
        return len(set(self.callers_by_number.values()))


@dataclass(eq=False)
class BatchScheduler:
    """A model's slots, its waiting texts, and counts that are not reported yet.

    A fair queue over tokens x beam decides whose text gets the next slot. Texts are stepped in one batch, with two
    exceptions:

    - A caller with few texts does not wait behind another caller's many texts. Such texts have reserved slots, a
      quarter of the model's, and on a CPU, where the time of a step grows with the batch, a separate batch: from their
      start, or from the moment when the other caller's texts would join them.
    - When a step fails, its texts are searched again in halves, apart from the others, until a text fails alone.
    """

    number: int
    translator: Translator
    max_held_steps: int = MAX_HELD_STEPS
    waiting: FairQueue[int] = field(default_factory=FairQueue)
    texts: dict[int, EngineRequest] = field(default_factory=dict)  # waiting or searched, by number
    in_reserved_slots: set[int] = field(default_factory=set)  # texts in reserved slots
    reported_scheduled: set[int] = field(default_factory=set)  # texts reported as scheduled
    to_retry: deque[list[int]] = field(default_factory=deque)  # to be searched again, each list as a separate batch
    streamed: dict[int, int] = field(default_factory=dict)  # tokens already reported, by text
    was_full: bool = False  # whether texts were left waiting when texts last entered
    held_steps: int = 0  # steps for which waiting texts were held back although slots were free
    reported: int = 0  # texts in slots, as last reported
    steps: int = 0
    stepped_texts: int = 0
    source_positions: int = 0
    padding_positions: int = 0

    def __post_init__(self) -> None:
        self.slots, empty = self.translator.reference.slots, self.translator.empty
        on_cpu = self.translator.device.type == "cpu"
        self.main_batch, self.retry_batch = Batch(empty()), Batch(empty())
        self.reserved_batch = Batch(empty()) if on_cpu else self.main_batch
        self.batches = [self.main_batch, self.retry_batch, *([self.reserved_batch] if on_cpu else [])]

    @property
    def searching(self) -> int:
        """Texts in slots."""
        return sum(len(batch.callers_by_number) for batch in self.batches)

    @property
    def busy(self) -> bool:
        return bool(self.texts or self.reported)

    def reset_counts(self) -> None:
        """Start the next report's counts."""
        self.reported = self.searching
        self.steps = self.stepped_texts = self.source_positions = self.padding_positions = 0

    def add(self, text: EngineRequest) -> None:
        """Queue a text."""
        self.texts[text.number] = text
        for caller in text.callers:
            self.waiting.put(caller, text.number, text.row.cost)
        if text.streamed:
            self.streamed[text.number] = 0

    def add_caller(self, numbers: frozenset[int], caller: str) -> None:
        """Queue these texts for one more caller, if they still wait."""
        for number in sorted(numbers & self.texts.keys()):
            if number in self.waiting:
                self.waiting.put(caller, number, self.texts[number].row.cost)

    def can_step(self, batch: Batch) -> bool:
        """Whether a batch has texts, or will get some at its turn."""
        if batch is self.main_batch and self.waiting:
            return True
        return bool(batch.callers_by_number) or (batch is self.retry_batch and bool(self.to_retry))

    def weight(self, batch: Batch) -> int:
        """The weight of a batch in the sharing of time: one for each of its callers. The batch of few texts has at
        least twice the weight of the main batch, which therefore delays it by half at most, whatever its number of
        callers."""
        apart = batch is self.reserved_batch and batch is not self.main_batch
        return max(1, batch.callers, 2 * self.main_batch.callers if apart else 0)

    def fill_reserved_slots(self) -> None:
        """Assign reserved slots to callers who are crowded out by a caller with many times their number of texts."""
        if not self.waiting:
            return
        waiting = {caller: len(caller_queue.keys) for caller, caller_queue in self.waiting.queues.items()}
        total = Counter(waiting)
        total.update(caller for batch in self.batches for caller in batch.callers_by_number.values())
        largest = total.most_common(2)
        if len(largest) < 2 or largest[0][1] <= CROWDING_FACTOR:
            return

        def is_crowded_out(caller: str) -> bool:
            largest_other = next(count for name, count in largest if name != caller)
            return largest_other > CROWDING_FACTOR * total[caller]

        if any(map(is_crowded_out, self.main_batch.callers_by_number.values())):
            self._keep_apart()
        for caller in filter(is_crowded_out, self.waiting.callers()):
            for _ in range(waiting[caller]):
                if len(self.in_reserved_slots) >= self.reserved_slots:
                    return
                if caller in self.waiting.queues:  # a shared text may have been taken at another caller's turn
                    self.in_reserved_slots.add(self._assign_slot(self.reserved_batch, caller))

    @property
    def reserved_slots(self) -> int:
        return max(1, self.slots // RESERVED_DIVISOR)

    def _keep_apart(self) -> None:
        """If the few texts of the main batch fit into free reserved slots, they continue there, and the waiting texts
        start a separate batch."""
        if self.reserved_batch.callers_by_number or len(self.main_batch.callers_by_number) > self.reserved_slots:
            return
        self.main_batch, self.reserved_batch = self.reserved_batch, self.main_batch
        # The waiting texts begin without the credit of a batch that was idle, and the few begin anew with it.
        self.main_batch.seconds_used = max(self.main_batch.seconds_used, self.reserved_batch.seconds_used)
        self.main_batch.idle, self.reserved_batch.idle, self.reserved_batch.seconds_used = False, True, 0.0
        self.in_reserved_slots.update(self.reserved_batch.callers_by_number)

    def fill_slots(self, batch: Batch) -> None:
        """Assign the free slots to texts that wait for this batch.

        Adding texts costs a separate batch in the encoder and moves everything in the table. So if more texts wait than
        slots are free, texts enter in groups; if slots are free for all, they enter at once.
        """
        if batch is self.retry_batch and self.to_retry and not batch.callers_by_number:
            numbers = self.to_retry.popleft()
            batch.callers_by_number.update((number, self.texts[number].callers[0]) for number in numbers)
        if batch is not self.main_batch or not self.waiting:
            return
        kept_for_retry = len(self.to_retry[0]) if self.to_retry and not self.retry_batch.callers_by_number else 0
        free = self.slots - self.searching + len(self.in_reserved_slots) - kept_for_retry
        if self.was_full and 0 < free < self.slots // REFILL_DIVISOR and self.held_steps < self.max_held_steps:
            self.held_steps += 1
            return
        for _ in range(min(len(self.waiting), free)):
            self._assign_slot(batch)
        self.was_full, self.held_steps = bool(self.waiting), 0

    def new_numbers(self, batch: Batch) -> list[int]:
        """The texts of a batch that its generator does not have yet."""
        return [number for number in batch.callers_by_number if number not in batch.translator]

    def _assign_slot(self, batch: Batch, caller: str | None = None) -> int:
        """Assign a slot in the batch to the next text, or to a caller's next text."""
        caller, number = self.waiting.take(caller)
        batch.callers_by_number[number] = caller
        return number

    def split_failed(self, batch: Batch) -> list[int]:
        """Handle a failed step of the batch: returns its text if it had only one; otherwise schedules its texts again
        in halves and returns none."""
        numbers = list(batch.callers_by_number)
        batch.callers_by_number.clear()
        batch.translator = self.translator.empty()
        self.in_reserved_slots.difference_update(numbers)
        if len(numbers) == 1:
            self._forget(numbers)
            return numbers
        half = len(numbers) // 2
        self.to_retry.extendleft([numbers[half:], numbers[:half]])
        return []

    def remove_finished(self, batch: Batch, numbers: Collection[int]) -> None:
        """Remove finished texts from the batch."""
        for number in numbers:
            del batch.callers_by_number[number]
        self.in_reserved_slots.difference_update(numbers)
        self._forget(numbers)

    def abort(self, numbers: frozenset[int]) -> None:
        """Remove these texts, whether they wait or are searched. Unknown numbers are ignored."""
        self.waiting.remove(numbers)
        for batch in self.batches:
            batch.translator.cancel(numbers)
            for number in numbers & batch.callers_by_number.keys():
                del batch.callers_by_number[number]
        remaining = ([number for number in failed if number not in numbers] for failed in self.to_retry)
        self.to_retry = deque(failed for failed in remaining if failed)
        self.in_reserved_slots -= numbers
        self._forget(numbers)

    def _forget(self, numbers: Collection[int]) -> None:
        for number in numbers:
            self.texts.pop(number, None)
            self.streamed.pop(number, None)
            self.reported_scheduled.discard(number)

    def new_prefixes(self) -> dict[int, list[int]]:
        """The prefixes of streamed texts that have grown since they were last reported."""
        prefixes = {}
        for batch in self.batches:
            for number, ids in batch.translator.prefixes(self.streamed).items():
                if len(ids) > self.streamed[number]:
                    self.streamed[number] = len(ids)
                    prefixes[number] = ids
        return prefixes
