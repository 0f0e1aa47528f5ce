"""Dispatch of texts to the workers, and of the workers' results to the requests."""

import logging
import math
import threading
import time
import weakref
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NoReturn

from interlinear.explanation import Explanation
from interlinear.generation.request import GenerationResult
from service.engine.admission import Admission, QueueLoad
from service.engine.pool import WorkerHandle, WorkerPool
from service.engine.protocol import (
    Abort,
    Add,
    AddCaller,
    EngineOutputs,
    EngineRequest,
    Event,
    Scheduled,
    SearchFailed,
    StreamOutputs,
    WorkerLost,
)
from service.engine.queued import QueuedSequence
from service.metrics import Metrics
from service.models import ServedModel
from service.problems import Problem
from service.settings import Settings

log = logging.getLogger("interlinear.service")

MAX_RETRY_AFTER = 60  # upper bound of Retry-After, in seconds
MAX_ATTEMPTS = 3  # maximum number of workers that a text is sent to, each after the previous one was lost
WORKER_LOST = "the engine that searched this has ended, and is started again"
NO_WORKER = "no engine is up that has the model; it is started again"


class EngineError(Exception):
    """The search itself failed; the log says where."""


@dataclass(eq=False)
class ModelState:
    """A model that requests may use. It is freed with the last reference to its `ServedModel`."""

    number: int  # its number in the workers
    explanation: Explanation  # an example of the model's explanations
    in_flight: dict[Hashable, QueuedSequence] = field(default_factory=dict)  # waiting or searched, by deduplication key


class Dispatcher:
    """Assigns texts to workers and handles the workers' events. Methods without an underscore need `lock`,
    except `abort_unwanted`, which takes it."""

    def __init__(self, settings: Settings, metrics: Metrics, lock: threading.Condition) -> None:
        """`lock` is notified when a worker becomes idle. Raises InterlinearError if a device cannot be used."""
        self.metrics = metrics
        self.models: weakref.WeakKeyDictionary[ServedModel, ModelState] = weakref.WeakKeyDictionary()
        self.admission = Admission(settings.queue_texts, settings.queue_tokens)
        self._lock = lock
        self._seconds_per_text = 0.05
        with lock:  # no event is handled before the pool exists
            self.pool = WorkerPool(settings, metrics, self._on_event, self._on_worker_restarted, lock)

    def check_queue(self, caller: str, more: QueueLoad) -> None:
        """Raises Problem if the queue has no room for this load."""
        if reason := self.admission.exceeded_limit(caller, more.texts, more.tokens):
            up, waiting = sum(handle.up for handle in self.pool), self.admission.waiting.texts
            seconds = math.ceil(waiting * self._seconds_per_text / max(1, up))
            wait = min(max(seconds, 1), MAX_RETRY_AFTER)
            self.reject(
                reason, Problem.too_many_requests(f"{waiting} texts wait already; come again in {wait} s", wait)
            )

    def handles_with(self, model: ServedModel) -> list[WorkerHandle]:
        """The workers that have a model. Raises Problem if there are none."""
        handles = self.pool.with_model(self.models[model].number)
        if not handles:
            self.reject("engine", Problem.unavailable(NO_WORKER))
        return handles

    def assign(
        self, sequences: Iterable[QueuedSequence], handles: Mapping[ServedModel, Sequence[WorkerHandle]]
    ) -> None:
        """Queue these texts, each at the worker of its model with the least load."""
        assigned: dict[WorkerHandle, list[QueuedSequence]] = {}
        for sequence in sequences:
            handle = min(handles[sequence.model], key=lambda handle: handle.outstanding_cost)
            handle.assign(sequence)
            assigned.setdefault(handle, []).append(sequence)
            self._count_waiting(handle, sequence, 1)
        for handle, new in assigned.items():
            self._send_texts(handle, new)

    def _send_texts(self, handle: WorkerHandle, sequences: Sequence[QueuedSequence]) -> None:
        for sequence in sequences:
            sequence.attempts += 1
        handle.send(
            Add(
                tuple(
                    EngineRequest(
                        sequence.number,
                        self.models[sequence.model].number,
                        sequence.row,
                        sequence.streamed,
                        tuple(sequence.callers),
                    )
                    for sequence in sequences
                )
            )
        )

    def add_caller(self, sequences: Sequence[QueuedSequence], caller: str) -> None:
        """Schedule these texts at this caller's turn, too: no caller waits behind another caller's requests."""
        numbers = {sequence.number for sequence in sequences}
        for sequence in sequences:
            if caller not in sequence.callers:  # it may be in a request several times
                sequence.callers.append(caller)
        for handle in self.pool:
            if known_numbers := handle.sequences.keys() & numbers:
                handle.send(AddCaller(frozenset(known_numbers), caller))

    def stream_outputs(self, sequences: Iterable[QueuedSequence]) -> None:
        """Have workers report partial results of these texts from now on."""
        chosen = {sequence.number: sequence for sequence in sequences}
        for handle in self.pool:
            if numbers := handle.sequences.keys() & chosen.keys():
                handle.send(StreamOutputs(frozenset(numbers)))
        for sequence in chosen.values():
            sequence.streamed = True

    def abort_unwanted(self, sequences: set[QueuedSequence]) -> None:
        """Abort the texts that no request waits for any more."""
        with self._lock:
            abandoned = {sequence.number for sequence in sequences if sequence.abandoned}
            for handle in self.pool:
                if numbers := handle.sequences.keys() & abandoned:
                    handle.send(Abort(frozenset(numbers)))
                    self._remove(handle, numbers)

    def _remove(self, handle: WorkerHandle, numbers: Iterable[int]) -> list[QueuedSequence]:
        """Remove finished or failed texts from a worker, and from deduplication."""
        sequences = [sequence for number in numbers if (sequence := handle.remove(number))]
        for sequence in sequences:
            self.models[sequence.model].in_flight.pop(sequence.deduplication_key, None)
            if sequence.scheduled_at is None:
                self._count_waiting(handle, sequence, -1)
        if not handle.sequences:
            self._lock.notify_all()
        return sequences

    def reject(self, reason: str, problem: Problem) -> NoReturn:
        self.metrics.rejected.labels(reason).inc()
        raise problem

    def _count_waiting(self, handle: WorkerHandle, sequence: QueuedSequence, texts: int) -> None:
        """Count a text as waiting (1), or as no longer waiting (-1), for the caller who requested it first."""
        tokens = texts * sequence.row.cost
        self.admission.add(sequence.callers[0], texts, tokens)
        self.metrics.waiting.labels(handle.name).inc(texts)
        self.metrics.waiting_tokens.labels(handle.name).inc(tokens)

    # Events of the workers, in the workers' threads.

    def _on_event(self, handle: WorkerHandle, event: Event) -> None:
        with self._lock:
            match event:
                case Scheduled():
                    self._on_scheduled(handle, event.numbers)
                case EngineOutputs():
                    self._on_outputs(handle, event)
                case SearchFailed():
                    model = handle.models.get(event.model)
                    log.error(
                        "a search with %s failed: %s", model.name if model else "an unloaded model", event.location
                    )
                    self._fail_requests(self._remove(handle, event.numbers), lambda: EngineError(event.location))
                case WorkerLost():
                    self.pool.lost(handle, event.reason)
                    self._on_worker_lost(handle)

    def _on_worker_lost(self, handle: WorkerHandle) -> None:
        """Fail the texts that a lost worker was searching. Its waiting texts move to another worker with the model, or
        stay until this worker is restarted."""
        failed = [
            n
            for n, sequence in handle.sequences.items()
            if sequence.scheduled_at is not None or sequence.attempts >= MAX_ATTEMPTS
        ]
        self.metrics.rejected.labels("engine").inc(self.fail_unavailable(handle, failed, WORKER_LOST))
        handles = {
            sequence.model: self.pool.with_model(self.models[sequence.model].number)
            for sequence in handle.sequences.values()
        }
        movable = [sequence for sequence in list(handle.sequences.values()) if handles[sequence.model]]
        for sequence in movable:
            handle.remove(sequence.number)
            self._count_waiting(handle, sequence, -1)
        self.assign(movable, handles)

    def _on_worker_restarted(self, handle: WorkerHandle) -> None:
        """Send a restarted worker the texts that waited for it. The caller must hold the lock."""
        if handle.sequences:
            self._send_texts(handle, list(handle.sequences.values()))

    def _on_scheduled(self, handle: WorkerHandle, numbers: Iterable[int]) -> None:
        now = time.perf_counter()
        for sequence in filter(None, map(handle.sequences.get, numbers)):
            sequence.scheduled_at = now
            self._count_waiting(handle, sequence, -1)
            self.metrics.queue_seconds.labels(sequence.model.name).observe(now - sequence.arrived_at)

    def _on_outputs(self, handle: WorkerHandle, event: EngineOutputs) -> None:
        if event.model in handle.models:
            names = handle.name, handle.models[event.model].name
            self.metrics.steps.labels(*names).inc(event.steps)
            self.metrics.stepped_texts.labels(*names).inc(event.texts)
            self.metrics.positions.labels(*names, "text").inc(event.source_positions)
            self.metrics.positions.labels(*names, "padding").inc(event.padding_positions)
            self.metrics.searching.labels(*names).set(event.searching)
        for number, ids in event.prefixes.items():
            if sequence := handle.sequences.get(number):
                sequence.publish_prefix(ids)
        for number, answer in event.answers:
            for sequence in self._remove(handle, [number]):
                self._deliver(sequence, answer, event.searching)

    def _deliver(self, sequence: QueuedSequence, answer: GenerationResult, searching: int) -> None:
        assert sequence.scheduled_at is not None
        name, seconds = sequence.model.name, time.perf_counter() - sequence.scheduled_at
        self._seconds_per_text += 0.1 * (seconds / (searching + 1) - self._seconds_per_text)
        self.metrics.texts.labels(name).inc()
        self.metrics.tokens.labels(name, "read").inc(sum(len(text.ids) + 1 for text in sequence.row.sources.values()))
        self.metrics.tokens.labels(name, "written").inc(len(answer.candidates[0].ids))
        self.metrics.search_seconds.labels(name).observe(seconds)
        if answer.explanation and answer.explanation.symmetrized is not None:
            directions = "both" if answer.explanation.symmetrized else "one"
            self.metrics.reverse_explanations.labels(name, directions).inc()
        for subscriber in sequence.subscribers:
            subscriber.pending.add_answer(subscriber.index, answer)

    def fail_unavailable(self, handle: WorkerHandle, numbers: Iterable[int], why: str) -> int:
        """Fail these texts with 503; returns the number of requests that failed."""
        return self._fail_requests(self._remove(handle, numbers), lambda: Problem.unavailable(why))

    @staticmethod
    def _fail_requests(sequences: Sequence[QueuedSequence], error: Callable[[], Exception]) -> int:
        """Fail every request that has one of these texts, each with its own exception."""
        pending_requests = {
            subscriber.pending
            for sequence in sequences
            for subscriber in sequence.subscribers
            if not subscriber.pending.closed
        }
        for pending in pending_requests:
            pending.resolve(error())
        return len(pending_requests)
