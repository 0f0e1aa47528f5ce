"""Worker that searches in a thread of its process: it steps every model's batches in turn.

Commands come in and events go out as plain data that refer to texts by numbers: the same whether the thread runs in the
service's process or in another.
"""

import gc
import logging
import os
import queue
import sys
import threading
import time
from collections.abc import Callable

import torch

from interlinear.explanation import Explanation
from interlinear.generation.request import GenerationResult
from interlinear.generation.translator import Translator
from service.engine.protocol import (
    Abort,
    Add,
    AddCaller,
    Command,
    EngineOutputs,
    Event,
    Ping,
    Pong,
    Scheduled,
    SearchFailed,
    StreamOutputs,
    UnloadModel,
    WorkerLost,
)
from service.engine.scheduler import Batch, BatchScheduler
from service.logging import exception_location, frame_location

log = logging.getLogger("interlinear.service")

MAX_CREDIT = 0.5  # seconds of virtual time per caller: the credit of a batch that was idle
REPORT_STEPS = 64  # after this many steps without other news the counts are reported
HEARTBEAT_SECONDS = 0.25  # seconds between heartbeats of an idle search
# The search nearly always holds the GIL, and by default another thread waits 5 ms for it. It releases the GIL at every
# operator, some 120 times a step, and then waits itself for a thread that prepares texts: up to this time each.
SWITCH_SECONDS = 0.0001


def shorten_pauses() -> None:
    """Have threads take turns often, and leave all present objects out of garbage collection.

    A full collection holds the GIL, for 0.2 s with all that is imported. A request with many sentences can cause one.
    """
    sys.setswitchinterval(SWITCH_SECONDS)
    gc.freeze()


class SearchThread:
    """An EngineWorker that searches in a thread of this process."""

    def __init__(self, emit: Callable[[Event], None], threads: int | None, warm_up_texts: int) -> None:
        """`emit` is called with every event, in the search's thread; `threads` are for torch; on a CPU, each number of
        texts up to `warm_up_texts` takes a step when a model is loaded."""
        self.emit = emit
        self.threads = threads
        self.warm_up_texts = warm_up_texts
        self.schedulers: dict[int, BatchScheduler] = {}  # used only in the search's thread
        self.heartbeats = 0
        self._virtual_time = 0.0  # `seconds_used` of the last stepped batch, before that step
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

    def load(self, model: int, translator: Translator) -> Explanation:
        if self.threads:
            torch.set_num_threads(self.threads)  # as in the search's thread: compilation depends on it
        scheduler = BatchScheduler(model, translator)
        explanation = scheduler.main_batch.translator.warm_up(self.warm_up_texts)
        self._commands.put(scheduler)
        return explanation

    def send(self, command: Command) -> None:
        self._commands.put(command)

    def stop(self, seconds: float) -> None:
        self._commands.put(None)
        if self._thread.is_alive():
            self._thread.join(seconds)

    # Methods of the search's thread.

    def _run(self) -> None:
        if self.threads:
            torch.set_num_threads(self.threads)
        try:
            while self._process_commands():
                self._run_round()
        except BaseException as error:  # report it, so that no request waits for a thread that has ended
            self.emit(WorkerLost(exception_location(error)))

    def _process_commands(self) -> bool:
        """Execute the pending commands; while there is nothing to search, wait up to HEARTBEAT_SECONDS for one. False
        when stopped."""
        while True:
            self.beat()
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
        """Take one step, of the batch whose callers have had the least time until now."""
        turns: list[tuple[BatchScheduler, Batch]] = []
        for scheduler in self.schedulers.values():
            scheduler.fill_reserved_slots()
            for batch in scheduler.batches:
                idle, batch.idle = batch.idle, not scheduler.can_step(batch)
                if not batch.idle:
                    turns.append((scheduler, batch))
                    if idle:  # its idle time earns it at most this credit
                        batch.seconds_used = max(batch.seconds_used, self._virtual_time - MAX_CREDIT)
        if turns:
            scheduler, batch = min(turns, key=lambda turn: turn[1].seconds_used)
            self._virtual_time, started = batch.seconds_used, time.perf_counter()
            try:
                self._step_batch(scheduler, batch)
            except Exception as error:
                self._on_step_failed(scheduler, batch, exception_location(error))
            batch.seconds_used += (time.perf_counter() - started) / scheduler.weight(batch)
        for scheduler in self.schedulers.values():
            if scheduler.reported and not scheduler.searching:
                self._report(scheduler, {}, [])

    def beat(self) -> None:
        """Count a heartbeat: the search works."""
        self.heartbeats += 1

    def _step_batch(self, scheduler: BatchScheduler, batch: Batch) -> None:
        """Admit waiting texts, take one step, and report its results."""
        scheduler.fill_slots(batch)
        if new := scheduler.new_numbers(batch):
            # Emitted before the texts are admitted: if this process dies, the service knows which texts it had.
            self.emit(Scheduled(tuple(number for number in new if number not in scheduler.reported_scheduled)))
            scheduler.reported_scheduled.update(new)
            batch.translator.admit([(number, scheduler.texts[number].row) for number in new])
        self.beat()
        if not batch.callers_by_number:
            return
        source_positions, all_positions = batch.translator.positions
        scheduler.steps += 1
        scheduler.stepped_texts += len(batch.callers_by_number)
        scheduler.source_positions += source_positions
        scheduler.padding_positions += all_positions - source_positions
        answers = batch.translator.step(self.beat)
        scheduler.remove_finished(batch, [number for number, _ in answers])
        prefixes = scheduler.new_prefixes() if scheduler.streamed else {}
        if answers or prefixes or scheduler.searching != scheduler.reported or scheduler.steps >= REPORT_STEPS:
            self._report(scheduler, prefixes, answers)

    def _report(
        self, scheduler: BatchScheduler, prefixes: dict[int, list[int]], answers: list[tuple[int, GenerationResult]]
    ) -> None:
        outputs = EngineOutputs(
            scheduler.number,
            scheduler.searching,
            scheduler.steps,
            scheduler.stepped_texts,
            scheduler.source_positions,
            scheduler.padding_positions,
            prefixes,
            tuple(answers),
        )
        scheduler.reset_counts()
        self.emit(outputs)

    def _on_step_failed(self, scheduler: BatchScheduler, batch: Batch, location: str) -> None:
        """Handle a failed step of a batch; other batches and waiting texts are not affected."""
        texts = len(batch.callers_by_number)
        if at_fault := scheduler.split_failed(batch):
            self.emit(SearchFailed(scheduler.number, tuple(at_fault), location))
        else:
            log.warning("a step of %d texts failed (%s): they are searched again, by halves", texts, location)
