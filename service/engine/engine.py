"""The engine: accepts texts from the event loop, has them searched by workers, and returns the results.

Batching and slot assignment happen in the worker: a thread of this process (`SearchThread`) or, for several devices
and for GPUs, one process for each (`SearchProcess`). A text goes to the worker with the least load; a text that is
already in flight with the same options is not searched twice.
"""

import asyncio
import gc
import itertools
import threading
import time
import weakref
from collections import Counter
from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import contextmanager

from interlinear.errors import RequestError
from interlinear.explanation import Explanation
from interlinear.generation.request import EncodedRequest, GenerationResult, Request
from service.engine.admission import QueueLoad, Reservation
from service.engine.dispatch import NO_WORKER, Dispatcher, ModelState
from service.engine.pool import ModelSpec
from service.engine.preparation import PreparationPool
from service.engine.queued import OutputListener, PendingRequest, QueuedSequence, Subscriber
from service.engine.search_thread import shorten_pauses
from service.metrics import Metrics
from service.models import ServedModel
from service.problems import Problem
from service.settings import Settings

INLINE_CHARACTERS = 1000  # characters encoded, or serialized in a response, in less time than it takes to wake a thread
CHARACTERS_PER_TOKEN = 5  # approximate, to reserve load for a text until it is encoded
STOPPING = "the service is being stopped"
STOPPED = "the service was stopped before this was answered"


class InvalidTextError(Exception):
    """A text of a request cannot be searched: its index, and the error."""

    def __init__(self, index: int, error: RequestError) -> None:
        super().__init__(index, error)
        self.index = index
        self.error = error


class Engine:
    """Batches and searches texts. Methods are for the event loop, except `add` and `stop`, which may run in any
    thread."""

    def __init__(self, models: Sequence[ServedModel], settings: Settings, metrics: Metrics) -> None:
        """Raises InterlinearError if a model cannot be loaded or a device cannot be used."""
        self.settings = settings
        self.metrics = metrics
        self._lock = threading.Condition()  # guards all fields below; notified when a worker becomes idle
        self._numbers = itertools.count()
        self.preparation = PreparationPool(settings.prepare_threads)
        metrics.preparing.set_function(lambda: self.preparation.waiting)
        self._texts_in_flight: Counter[str] = Counter()  # of admitted requests that are not answered yet
        self._reserved: dict[str, Reservation] = {}  # by text, while it is being split and encoded
        self._open_requests = 0  # admitted requests that are not answered yet
        self._stopped_accepting = False
        self._started = False
        self._stopping = threading.Event()
        self._dispatcher = Dispatcher(settings, metrics, self._lock)
        self._models = self._dispatcher.models
        self.admission, self.pool = self._dispatcher.admission, self._dispatcher.pool
        try:
            for model in models:
                self.add(model)
        except BaseException:
            self.stop(0)
            raise

    def add(self, model: ServedModel) -> None:
        """Load and warm up a model, in any thread, while searches continue.

        Raises InterlinearError.
        """
        spec = ModelSpec(next(self._numbers), model.name, model.translator)
        explanation = self.pool.load(spec)
        with self._lock:
            self._models[model] = ModelState(spec.number, explanation)
        weakref.finalize(model, self.pool.unload, spec.number).atexit = False

    def explanation(self, model: ServedModel) -> Explanation:
        """An example of the model's explanations."""
        return self._models[model].explanation

    def worker_names(self, model: ServedModel) -> list[str]:
        """The workers that have the model now."""
        with self._lock:
            return [handle.name for handle in self.pool.with_model(self._models[model].number)]

    def start(self) -> None:
        shorten_pauses()
        self.pool.start()
        self._started = True

    def stop(self, seconds: float) -> None:
        """Stop accepting requests, finish the accepted ones, and stop the workers; requests unfinished by then fail
        with 503."""
        with self._lock:
            self._stopping.set()
            self._lock.wait_for(
                lambda: not (self._open_requests or any(handle.sequences for handle in self.pool)), seconds
            )
            self._stopped_accepting = True
            for handle in self.pool:
                self._dispatcher.fail_unavailable(handle, list(handle.sequences), STOPPED)
        self.preparation.stop(Problem.unavailable(STOPPED))
        self.pool.stop()
        gc.unfreeze()  # undoes shorten_pauses: in a process that continues, garbage is collected again

    @property
    def ready(self) -> bool:
        return self._started and not self._stopping.is_set() and any(handle.available for handle in self.pool)

    @property
    def stopping(self) -> bool:
        """Whether no more requests are accepted."""
        return self._stopping.is_set()

    @property
    def unrecoverable(self) -> str | None:
        """Why only a restart of the service helps; None without such a reason."""
        return self.pool.unrecoverable

    @contextmanager
    def admit(
        self,
        caller: str,
        texts: Sequence[str],
        estimate: Callable[[Sequence[str]], int] = len,
        beam: int = 1,
        accepted: bool = False,
    ) -> Iterator[Reservation]:
        """Reserve queue load for a request's texts while they are split and encoded.

        `accepted`: the texts belong to a request that was admitted before, such as a document, and is finished while
        the service is being stopped.

        `estimate`: the approximate number of sentences to search for some of these texts. A refusal costs no more than
        this estimate. A text equal to one in flight does not count, because it usually shares that text's result.
        Raises Problem 429 if too much waits, and 503 when stopping.
        """
        caller = caller if self.settings.fair else ""
        with self._lock:
            self._check_accepting(accepted)
            new = list(dict.fromkeys(text for text in texts if text not in self._texts_in_flight))
            load = QueueLoad(estimate(new), sum(map(len, new)) // CHARACTERS_PER_TOKEN * beam)
            reservation = Reservation(caller, texts, load, len(new))
            self._dispatcher.check_queue(caller, load)
            self.admission.add(caller, load.texts, load.tokens)
            self._reserved.update(dict.fromkeys(new, reservation))
            self._texts_in_flight.update(texts)
            self._open_requests += 1
        try:
            yield reservation
        finally:
            with self._lock:
                self._release(reservation)
                reservation.next_stage()
                self._reduce(reservation, reservation.waiting_load)
                self._texts_in_flight.subtract(texts)
                for text in texts:
                    if not self._texts_in_flight[text]:
                        del self._texts_in_flight[text]
                self._open_requests -= 1
                self._lock.notify_all()

    def reserve_later(self, reservation: Reservation, texts: int, tokens: int) -> None:
        """Reserve queue load for searches that follow the first ones of an admitted request, in addition to its
        reservation. Raises Problem 429 if too much waits."""
        caller, own = reservation.caller, reservation.waiting_load
        with self._lock:
            with self.admission.without(caller, own):  # all of the request counts as one
                self._dispatcher.check_queue(caller, QueueLoad(own.texts + texts, own.tokens + tokens))
            self.admission.add(caller, texts, tokens)
            later = reservation.later_load
            reservation.later_load = QueueLoad(later.texts + texts, later.tokens + tokens)

    def _release(self, reservation: Reservation) -> None:
        """Release the reservation of a request: from now on its texts count as waiting, or it has ended."""
        for text in reservation.texts:
            if self._reserved.get(text) is reservation:
                del self._reserved[text]
        self._reduce(reservation, reservation.waiting_load)

    def _release_others(self, texts: Sequence[str]) -> None:
        """Release the reservations of other requests for these texts, which now count as waiting.

        Of equal requests that arrive together only the first has reserved the load, and another may be encoded first.
        """
        reservations = Counter(self._reserved.pop(text) for text in texts if text in self._reserved)
        for reservation, count in reservations.items():
            self._reduce(reservation, reservation.share(count))
            reservation.reserved_texts -= count

    def _reduce(self, reservation: Reservation, load: QueueLoad) -> None:
        self.admission.add(reservation.caller, -load.texts, -load.tokens)
        rest = reservation.waiting_load
        reservation.waiting_load = QueueLoad(rest.texts - load.texts, rest.tokens - load.tokens)

    async def search(
        self,
        requests: Sequence[tuple[ServedModel, Request]],
        listener: OutputListener | None = None,
        reservation: Reservation | None = None,
    ) -> list[GenerationResult]:
        """Search every text; results are in the order of the texts. Cancelling this frees the slots.

        Callers share slots fairly. `reservation` is the request's, from `admit`. A `listener` receives partial
        results.

        Raises InvalidTextError for a text that cannot be searched, Problem 429 if too much waits, and 503 when
        stopping or when the worker that searched it was lost.
        """
        if reservation is None:
            with self.admit("", [text for _, request in requests for text in request.texts.values()]) as reservation:
                return await self.search(requests, listener, reservation)
        loop = asyncio.get_running_loop()
        rows = await self.preparation.map(
            reservation.caller, self._encode, list(enumerate(requests)), characters_of, INLINE_CHARACTERS
        )
        reservation.searched_tokens += sum(row.cost for row in rows)
        if reservation.charge:
            reservation.charge(reservation.searched_tokens)
        pending = PendingRequest(
            loop, loop.create_future(), [None] * len(rows), len(rows), reservation.caller, listener
        )
        sequences = self._enqueue([model for model, _ in requests], rows, pending, reservation)
        if listener:
            listener.on_accepted()
        try:
            return await pending.future
        finally:
            pending.closed = True
            self._dispatcher.abort_unwanted(sequences)

    def _check_accepting(self, accepted: bool) -> None:
        """Raises Problem if the engine does not accept requests or, for `accepted` work, texts."""
        if self._stopped_accepting or (self._stopping.is_set() and not accepted) or not self._started:
            self._dispatcher.reject("stopping", Problem.unavailable(STOPPING))
        if not any(handle.available for handle in self.pool):
            self._dispatcher.reject("engine", Problem.unavailable(NO_WORKER))

    def _encode(self, item: tuple[int, tuple[ServedModel, Request]]) -> EncodedRequest:
        index, (model, request) = item
        try:
            return model.translator.encode(request)
        except RequestError as error:
            raise InvalidTextError(index, error) from None

    def _enqueue(
        self,
        models: Sequence[ServedModel],
        rows: Sequence[EncodedRequest],
        pending: PendingRequest,
        reservation: Reservation,
    ) -> set[QueuedSequence]:
        """Assign every text to a worker, or subscribe to the same text if it is in flight. Raises Problem."""
        now, streamed = time.perf_counter(), pending.listener is not None
        with self._lock:
            self._release(reservation)
            self._release_others(reservation.texts)
            if self._stopped_accepting:
                self._dispatcher.reject("stopping", Problem.unavailable(STOPPED))
            new: dict[tuple[ServedModel, Hashable], QueuedSequence] = {}
            subscribed: list[QueuedSequence] = []
            for model, row in zip(models, rows, strict=True):
                key = deduplication_key(row.request)
                sequence = self._models[model].in_flight.get(key) or new.get((model, key))
                if sequence is None:
                    sequence = new[model, key] = QueuedSequence(next(self._numbers), model, row, key, now, streamed)
                subscribed.append(sequence)
            load = QueueLoad(len(new), sum(sequence.row.cost for sequence in new.values()))
            with self.admission.without(pending.caller, reservation.later_load):
                self._dispatcher.check_queue(pending.caller, load)
            handles = {
                model: self._dispatcher.handles_with(model) for model in {sequence.model for sequence in new.values()}
            }
            for sequence in new.values():
                sequence.callers.append(pending.caller)
                self._models[sequence.model].in_flight[sequence.deduplication_key] = sequence
            for i, sequence in enumerate(subscribed):
                sequence.subscribers.append(Subscriber(pending, i))
            self._dispatcher.assign(new.values(), handles)
            self._dispatcher.add_caller(
                [sequence for sequence in subscribed if pending.caller not in sequence.callers], pending.caller
            )
            self._dispatcher.stream_outputs(sequence for sequence in subscribed if streamed and not sequence.streamed)
            self.metrics.shared.inc(len(rows) - len(new))
            return set(subscribed)


def characters_of(item: tuple[int, tuple[ServedModel, Request]]) -> int:
    """Number of characters to encode."""
    return sum(map(len, item[1][1].texts.values()))


def deduplication_key(request: Request) -> Hashable:
    """The key that requests with the same search and result share; a request with images shares its key with no
    other."""
    if request.images:
        return object()
    return (
        tuple(request.texts.items()),
        request.options,
        (request.explain, request.explain_all),
        request.tokenised,
        request.terms,
        request.target_prefix,
        request.min_alternative_probability,
    )
