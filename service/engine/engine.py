"""The engine: takes the texts of requests from the event loop, has them searched, and hands the answers back.

What is searched together, and when a text has its slot, is decided where it is searched: in a thread of this process
(`SearchThread`) or, for several devices and for GPUs, in a process for each (`SearchProcess`). A text goes to where
there is least to do; one that is on its way already, with the same options, is not searched twice.
"""

import asyncio
import itertools
import logging
import math
import sys
import threading
import time
import weakref
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import NoReturn, TypeVar

from seq2seq.errors import RequestError
from seq2seq.explain import Explanation
from seq2seq.generate import EncodedRequest, GenerationResult, Request, SequenceGenerator
from service.engine.admission import Admission, QueueLoad, Reservation
from service.engine.pool import ModelSpec, WorkerHandle, WorkerPool
from service.engine.preparation import PreparationPool
from service.engine.queued import OutputListener, PendingRequest, QueuedSequence, Subscriber
from service.engine.scheduler import (
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
from service.metrics import Metrics
from service.models import ServedModel
from service.problems import Problem
from service.settings import Settings

log = logging.getLogger("interlinear.service")

T = TypeVar("T")

INLINE_CHARACTERS = (
    1000  # characters that are encoded, or answered in writing, in less time than a thread takes to wake
)
CHARACTERS_PER_TOKEN = 8  # of a text to a token, at most: by these room is reserved for it until it is encoded
SWITCH_SECONDS = 0.0005
MAX_RETRY_AFTER = 60  # seconds that Retry-After says at most
STOPPING = "the service is being stopped"
STOPPED = "the service was stopped before this was answered"
MAX_ATTEMPTS = 3  # engines that a text waits at, each after the one before has ended
WORKER_LOST = "the engine that searched this has ended, and is started again"
NO_WORKER = "no engine is up that has the model; it is started again"


class InvalidTextError(Exception):
    """A text cannot be searched as asked: which of the request's, and why."""

    def __init__(self, index: int, error: RequestError) -> None:
        super().__init__(index, error)
        self.index = index
        self.error = error


class EngineError(Exception):
    """The search itself failed; the log says where."""


@dataclass(eq=False)
class ModelState:
    """A model that requests may come with, until nobody can: it is let go with the last who holds its `ServedModel`."""

    number: int  # under which lanes have it
    encoder: SequenceGenerator  # encodes requests, and searches nothing
    explanation: Explanation  # as the model gives them
    in_flight: dict[Hashable, QueuedSequence] = field(default_factory=dict)  # what waits or is searched, by identity


class Engine:
    """Answers texts by having them searched together. Its methods are for the event loop, but for `add` and `stop`."""

    def __init__(self, models: Sequence[ServedModel], settings: Settings, metrics: Metrics) -> None:
        """Raises InterlinearError where a model cannot be loaded, or a device not be used."""
        self.settings = settings
        self.metrics = metrics
        self._models: weakref.WeakKeyDictionary[ServedModel, ModelState] = weakref.WeakKeyDictionary()
        self._lock = threading.Condition()  # of all that follows; notified when a lane has nothing to do any more
        self._numbers = itertools.count()
        self.preparation = PreparationPool(settings.prepare_threads)
        metrics.preparing.set_function(lambda: self.preparation.waiting)
        self.admission = Admission(settings.queue_texts, settings.queue_tokens)
        self._texts_in_flight: Counter[str] = Counter()  # texts of requests that were admitted and not answered
        self._open_requests = 0  # requests that were admitted
        self._stopped_accepting = False
        self._seconds_per_text = 0.05
        self._started = False
        self._stopping = threading.Event()
        with self._lock:  # so that nothing is heard before they are there
            self.pool = WorkerPool(settings, metrics, self._on_event, self._on_worker_restarted, self._lock)
        try:
            for model in models:
                self.add(model)
        except BaseException:
            self.stop(0)
            raise

    def add(self, model: ServedModel) -> None:
        """Load and warm a model, so that its first request finds everything ready; in any thread, beside the search.

        Raises InterlinearError.
        """
        loadable = ModelSpec(next(self._numbers), model.name, model.bundle, model.slots, model.width)
        explanation = self.pool.load(loadable)
        with self._lock:
            self._models[model] = ModelState(
                loadable.number, SequenceGenerator(model.bundle, width=model.width), explanation
            )
        weakref.finalize(model, self.pool.unload, loadable.number).atexit = False

    def explanation(self, model: ServedModel) -> Explanation:
        """An explanation as the model gives them."""
        return self._models[model].explanation

    def worker_names(self, model: ServedModel) -> list[str]:
        """Where it is searched with the model now."""
        with self._lock:
            return [handle.name for handle in self.pool.with_model(self._models[model].number)]

    def start(self) -> None:
        # The search holds the interpreter's lock nearly always; the event loop should not wait 5 ms for its turn.
        sys.setswitchinterval(SWITCH_SECONDS)
        self.pool.start()
        self._started = True

    def stop(self, seconds: float) -> None:
        """Take nothing more, finish what was accepted, and end; what is not finished by then fails with 503."""
        with self._lock:
            self._stopping.set()
            self._lock.wait_for(
                lambda: not (self._open_requests or any(handle.sequences for handle in self.pool)), seconds
            )
            self._stopped_accepting = True
            for handle in self.pool:
                self._fail_unavailable(handle, list(handle.sequences), STOPPED)
        self.preparation.stop(Problem.unavailable(STOPPED))
        self.pool.stop()

    @property
    def ready(self) -> bool:
        return self._started and not self._stopping.is_set() and any(handle.available for handle in self.pool)

    @property
    def unrecoverable(self) -> str | None:
        """Why the service should be started again, where nothing else helps."""
        return self.pool.unrecoverable

    @contextmanager
    def admit(
        self, caller: str, texts: Sequence[str], min_texts: Callable[[Sequence[str]], int] = len, beam: int = 1
    ) -> Iterator[Reservation]:
        """Reserve room in the queue for a request's texts while they are split and encoded, which costs work.

        `min_texts`: how many texts will be searched for some of them, at least. Those that are the same as another on its
        way are none: they most likely wait for its answer. Raises Problem 429 when too much waits, and 503 when
        stopping.
        """
        caller = caller if self.settings.fair else ""
        with self._lock:
            self._check_accepting()
            new = list(dict.fromkeys(text for text in texts if text not in self._texts_in_flight))
            reservation = Reservation(
                caller, QueueLoad(min_texts(new), sum(map(len, new)) // CHARACTERS_PER_TOKEN * beam)
            )
            self._check_queue(caller, reservation.waiting_load)
            self.admission.add(caller, reservation.waiting_load.texts, reservation.waiting_load.tokens)
            self._texts_in_flight.update(texts)
            self._open_requests += 1
        try:
            yield reservation
        finally:
            with self._lock:
                self._release(reservation)
                self._texts_in_flight.subtract(texts)
                for text in texts:
                    if not self._texts_in_flight[text]:
                        del self._texts_in_flight[text]
                self._open_requests -= 1
                self._lock.notify_all()

    def _release(self, reservation: Reservation) -> None:
        """What was kept for a request is no longer: its texts themselves wait now, or nothing does."""
        self.admission.add(reservation.caller, -reservation.waiting_load.texts, -reservation.waiting_load.tokens)
        reservation.waiting_load = QueueLoad()

    async def search(
        self,
        wanted: Sequence[tuple[ServedModel, Request]],
        listener: OutputListener | None = None,
        reservation: Reservation | None = None,
    ) -> list[GenerationResult]:
        """Search every text; answers come in the order asked. Cancelling this frees the slots.

        Slots are shared fairly between callers; `reservation` is the request's, from `admit`. A `listener` is told what is
        written meanwhile.

        Raises RefusedError for a text that cannot be searched, Problem 429 when too much waits, and 503 when stopping
        and when what searched it has ended.
        """
        if reservation is None:
            with self.admit("", [text for _, request in wanted for text in request.texts.values()]) as reservation:
                return await self.search(wanted, listener, reservation)
        loop = asyncio.get_running_loop()
        rows = await self.preparation.map(
            reservation.caller, self._encode, list(enumerate(wanted)), characters_of, INLINE_CHARACTERS
        )
        if reservation.charge:
            await reservation.charge(sum(row.length * row.request.options.beam for row in rows))
        pending = PendingRequest(
            loop, loop.create_future(), [None] * len(rows), len(rows), reservation.caller, listener
        )
        sequences = self._enqueue([model for model, _ in wanted], rows, pending, reservation)
        if listener:
            listener.on_accepted()
        try:
            return await pending.done
        finally:
            pending.closed = True
            self._abort_unwanted(sequences)

    def _check_accepting(self) -> None:
        """Raises Problem where nothing is taken."""
        if self._stopping.is_set() or not self._started:
            self._reject("stopping", Problem.unavailable(STOPPING))
        if not self.ready:
            self._reject("engine", Problem.unavailable(NO_WORKER))

    def _encode(self, wanted: tuple[int, tuple[ServedModel, Request]]) -> EncodedRequest:
        index, (model, request) = wanted
        try:
            return self._models[model].encoder.encode(request)
        except RequestError as error:
            raise InvalidTextError(index, error) from None

    def _enqueue(
        self,
        models: Sequence[ServedModel],
        rows: Sequence[EncodedRequest],
        pending: PendingRequest,
        reservation: Reservation,
    ) -> set[QueuedSequence]:
        """Give every text to a lane, or to the ticket of the same text that is on its way. Raises Problem."""
        now, streamed = time.perf_counter(), pending.listener is not None
        with self._lock:
            self._release(reservation)
            if self._stopped_accepting:
                self._reject("stopping", Problem.unavailable(STOPPED))
            new: dict[tuple[ServedModel, Hashable], QueuedSequence] = {}
            joined: list[QueuedSequence] = []
            for model, row in zip(models, rows, strict=True):
                key = deduplication_key(row.request)
                sequence = self._models[model].in_flight.get(key) or new.get((model, key))
                if sequence is None:
                    sequence = new[model, key] = QueuedSequence(next(self._numbers), model, row, key, now, streamed)
                joined.append(sequence)
            self._check_queue(pending.caller, QueueLoad(len(new), sum(sequence.cost for sequence in new.values())))
            handles = {model: self._handles_with(model) for model in {sequence.model for sequence in new.values()}}
            for sequence in new.values():
                sequence.callers.append(pending.caller)
                self._models[sequence.model].in_flight[sequence.deduplication_key] = sequence
            for i, sequence in enumerate(joined):
                sequence.subscribers.append(Subscriber(pending, i))
            self._assign(new.values(), handles)
            self._add_caller(
                [sequence for sequence in joined if pending.caller not in sequence.callers], pending.caller
            )
            self._stream_outputs(sequence for sequence in joined if streamed and not sequence.streamed)
            self.metrics.shared.inc(len(rows) - len(new))
            return set(joined)

    def _check_queue(self, caller: str, more: QueueLoad) -> None:
        """Raises Problem where too much waits for this to wait too."""
        if reason := self.admission.exceeded_limit(caller, more.texts, more.tokens):
            up, waiting = sum(handle.up for handle in self.pool), self.admission.waiting.texts
            seconds = math.ceil(waiting * self._seconds_per_text / max(1, up))
            wait = min(max(seconds, 1), MAX_RETRY_AFTER)
            self._reject(
                reason, Problem.too_many_requests(f"{waiting} texts wait already; come again in {wait} s", wait)
            )

    def _handles_with(self, model: ServedModel) -> list[WorkerHandle]:
        """The lanes that have a model. Raises Problem where there is none."""
        handles = self.pool.with_model(self._models[model].number)
        if not handles:
            self._reject("engine", Problem.unavailable(NO_WORKER))
        return handles

    def _assign(
        self, sequences: Iterable[QueuedSequence], handles: Mapping[ServedModel, Sequence[WorkerHandle]]
    ) -> None:
        """Have these wait, each at that one of its model's lanes that has the least to do."""
        assigned: dict[WorkerHandle, list[QueuedSequence]] = {}
        for sequence in sequences:
            handle = min(handles[sequence.model], key=lambda handle: handle.load)
            handle.assign(sequence)
            assigned.setdefault(handle, []).append(sequence)
            self._count_waiting(handle, sequence, 1)
        for handle, own in assigned.items():
            self._send_texts(handle, own)

    def _send_texts(self, handle: WorkerHandle, sequences: Sequence[QueuedSequence]) -> None:
        for sequence in sequences:
            sequence.attempts += 1
        handle.send(
            Add(
                tuple(
                    EngineRequest(t.number, self._models[t.model].number, t.row, t.streamed, tuple(t.callers))
                    for t in sequences
                )
            )
        )

    def _add_caller(self, sequences: Sequence[QueuedSequence], caller: str) -> None:
        """Let these have their slots when it is this caller's turn, too: nobody waits behind what another asked for."""
        numbers = {sequence.number for sequence in sequences}
        for sequence in sequences:
            if caller not in sequence.callers:  # it may be in a request several times
                sequence.callers.append(caller)
        for handle in self.pool:
            if own := handle.sequences.keys() & numbers:
                handle.send(AddCaller(frozenset(own), caller))

    def _stream_outputs(self, sequences: Iterable[QueuedSequence]) -> None:
        """Be told from now on what is written of these."""
        chosen = {sequence.number: sequence for sequence in sequences}
        for handle in self.pool:
            if numbers := handle.sequences.keys() & chosen.keys():
                handle.send(StreamOutputs(frozenset(numbers)))
        for sequence in chosen.values():
            sequence.streamed = True

    def _abort_unwanted(self, sequences: set[QueuedSequence]) -> None:
        """Have what nobody waits for any more searched no longer."""
        with self._lock:
            abandoned = {sequence.number for sequence in sequences if sequence.abandoned}
            for handle in self.pool:
                if numbers := handle.sequences.keys() & abandoned:
                    handle.send(Abort(frozenset(numbers)))
                    self._remove(handle, numbers)

    def _remove(self, handle: WorkerHandle, numbers: Iterable[int]) -> list[QueuedSequence]:
        """The tickets of texts that the lane is done with, whatever came of them; nobody joins them any more."""
        sequences = [sequence for number in numbers if (sequence := handle.remove(number))]
        for sequence in sequences:
            self._models[sequence.model].in_flight.pop(sequence.deduplication_key, None)
            if sequence.scheduled_at is None:
                self._count_waiting(handle, sequence, -1)
        if not handle.sequences:
            self._lock.notify_all()
        return sequences

    def _reject(self, reason: str, problem: Problem) -> NoReturn:
        self.metrics.rejected.labels(reason).inc()
        raise problem

    def _count_waiting(self, handle: WorkerHandle, sequence: QueuedSequence, texts: int) -> None:
        """A ticket waits (1), or does not any more (-1); for whoever was first to ask for it."""
        tokens = texts * sequence.cost
        self.admission.add(sequence.callers[0], texts, tokens)
        self.metrics.waiting.labels(handle.name).inc(texts)
        self.metrics.waiting_tokens.labels(handle.name).inc(tokens)

    # What is heard from the lanes, in threads of theirs.

    def _on_event(self, handle: WorkerHandle, event: Event) -> None:
        with self._lock:
            match event:
                case Scheduled():
                    self._on_scheduled(handle, event.numbers)
                case EngineOutputs():
                    self._on_outputs(handle, event)
                case SearchFailed():
                    model = handle.models.get(event.model)
                    log.error("a search with %s failed: %s", model.name if model else "a model let go", event.location)
                    self._fail_requests(self._remove(handle, event.numbers), lambda: EngineError(event.location))
                case WorkerLost():
                    self.pool.lost(handle, event.reason)
                    self._on_worker_lost(handle)

    def _on_worker_lost(self, handle: WorkerHandle) -> None:
        """What a lane was searching fails with it. What waited there goes on waiting: at another that has the model, or
        there, until it is open again."""
        failed = [
            n
            for n, sequence in handle.sequences.items()
            if sequence.scheduled_at is not None or sequence.attempts >= MAX_ATTEMPTS
        ]
        self.metrics.rejected.labels("engine").inc(self._fail_unavailable(handle, failed, WORKER_LOST))
        others = {
            sequence.model: self.pool.with_model(self._models[sequence.model].number)
            for sequence in handle.sequences.values()
        }
        moving = [sequence for sequence in list(handle.sequences.values()) if others[sequence.model]]
        for sequence in moving:
            handle.remove(sequence.number)
            self._count_waiting(handle, sequence, -1)
        self._assign(moving, others)

    def _on_worker_restarted(self, handle: WorkerHandle) -> None:
        """A lane takes texts again: those that waited there are first. The caller holds the lock."""
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
            self.metrics.positions.labels(*names, "text").inc(event.read)
            self.metrics.positions.labels(*names, "padding").inc(event.padding)
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
        for subscriber in sequence.subscribers:
            subscriber.pending.add_answer(subscriber.index, answer)

    def _fail_unavailable(self, handle: WorkerHandle, numbers: Iterable[int], why: str) -> int:
        """These texts fail with 503; how many requests that were."""
        return self._fail_requests(self._remove(handle, numbers), lambda: Problem.unavailable(why))

    @staticmethod
    def _fail_requests(sequences: Sequence[QueuedSequence], error: Callable[[], Exception]) -> int:
        """Every request with one of these texts fails, each with an error of its own."""
        pending_requests = {
            subscriber.pending
            for sequence in sequences
            for subscriber in sequence.subscribers
            if not subscriber.pending.closed
        }
        for pending in pending_requests:
            pending.resolve(error())
        return len(pending_requests)


def characters_of(wanted: tuple[int, tuple[ServedModel, Request]]) -> int:
    """How long a text is that is to be encoded."""
    return sum(map(len, wanted[1][1].texts.values()))


def deduplication_key(request: Request) -> Hashable:
    """Equal for requests that are searched and answered alike; one with pictures is like no other."""
    if request.images:
        return object()
    return tuple(request.texts.items()), request.options, request.explain, request.tokenised


async def run_inline_or_in_thread(inline: bool, work: Callable[..., T], *arguments: object) -> T:
    """Do a little work at once, and much of it in a thread, so that the event loop never waits for long."""
    return work(*arguments) if inline else await asyncio.to_thread(work, *arguments)
