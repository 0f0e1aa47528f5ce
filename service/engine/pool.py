"""Workers of the engine: their handles, model loading, failure detection and restarts."""

import logging
import os
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from interlinear.errors import InterlinearError
from interlinear.explanation import Explanation
from interlinear.generation.translator import Translator
from service.engine.process import TICKS, SearchProcess
from service.engine.protocol import (
    Command,
    EngineWorker,
    Event,
    Timeouts,
    UnloadModel,
    WorkerConfig,
    WorkerLost,
    WorkerLostError,
)
from service.engine.queued import QueuedSequence
from service.engine.search_thread import SearchThread
from service.logging import exception_location
from service.metrics import Metrics
from service.settings import Settings

log = logging.getLogger("interlinear.service")

STOP_TIMEOUT = 5.0  # seconds for a worker to stop, once it has nothing to do
STABLE_SECONDS = 60.0  # seconds of operation after which earlier failures are forgotten
MAX_RESTART_DELAY = 60.0  # longest delay before a restart, in seconds


@dataclass(frozen=True, eq=False)
class ModelSpec:
    """A model to load into workers: its number, and the name for its metrics.

    It holds no reference to its `ServedModel`: when that is freed, the workers unload the model.
    """

    number: int
    name: str
    translator: Translator


class WorkerHandle:
    """A worker of the engine, its models and its assigned texts. Callers must hold the engine's lock to change the
    latter."""

    def __init__(
        self,
        name: str,
        create_worker: Callable[[Callable[[Event], None]], EngineWorker],
        on_event: Callable[["WorkerHandle", Event], None],
    ) -> None:
        """`create_worker` creates a worker that emits its events to its argument; `on_event` is called with each
        event."""
        self.name = name
        self.create_worker = create_worker
        self.on_event = on_event
        self.models: dict[int, ModelSpec] = {}  # loaded models, by number
        self.sequences: dict[int, QueuedSequence] = {}  # assigned texts, by number
        self.outstanding_cost = 0  # tokens x beam of the assigned texts
        self.restarts = 0
        self.restart_requested = threading.Event()  # set when it has to be restarted
        self.lost_at = 0.0  # time of the last loss
        self._failures = 0  # consecutive failures
        self._incarnation = 0
        self.start_worker()

    def start_worker(self) -> None:
        """Create a new worker, without models. Raises whatever its creation raises."""
        self._started_at = time.monotonic()
        self._incarnation += 1
        self.models.clear()
        self.up = False  # whether texts are assigned to it
        self.lost = False  # whether the worker has ended
        self.hung = False  # whether it has shown no progress for too long
        self._last_heartbeat: int | None = None  # the worker's last known heartbeat
        self._silent_ticks = 0  # checks since the heartbeat last changed
        self.worker = self.create_worker(partial(self._on_worker_event, self._incarnation))

    def _on_worker_event(self, incarnation: int, event: Event) -> None:
        if incarnation == self._incarnation:  # events of an earlier worker are ignored
            self.on_event(self, event)

    @property
    def available(self) -> bool:
        """Whether texts can be assigned to it."""
        return self.up and not self.hung and self.worker.alive

    def silent_ticks(self) -> int:
        """Check the heartbeat; returns the number of checks since it last changed."""
        worker = self.worker
        monitors_itself = worker.heartbeats is None and worker.alive
        progressed = monitors_itself or worker.heartbeats != self._last_heartbeat
        self._silent_ticks = 0 if progressed else self._silent_ticks + 1
        self._last_heartbeat = worker.heartbeats
        return self._silent_ticks

    def load_model(self, model: ModelSpec) -> Explanation:
        """Load a model; may run in any thread. Raises InterlinearError, WorkerLostError."""
        explanation = self.worker.load(model.number, model.translator)
        self.models[model.number] = model
        return explanation

    def send(self, command: Command) -> None:
        self.worker.send(command)

    def assign(self, sequence: QueuedSequence) -> None:
        self.sequences[sequence.number] = sequence
        self.outstanding_cost += sequence.row.cost

    def remove(self, number: int) -> QueuedSequence | None:
        """Remove a text that is done; None if it was removed before."""
        if sequence := self.sequences.pop(number, None):
            self.outstanding_cost -= sequence.row.cost
        return sequence

    def restart_delay(self) -> float:
        """Seconds until the next restart: none at first, then exponential while it is lost soon after each start."""
        if time.monotonic() - self._started_at > STABLE_SECONDS:
            self._failures = 0
        self._failures += 1
        return min(2.0 ** min(self._failures - 2, 10), MAX_RESTART_DELAY) if self._failures > 1 else 0.0


class WorkerPool:
    """The workers of an engine, one for each device. All load the same models, and lost workers are restarted."""

    def __init__(
        self,
        settings: Settings,
        metrics: Metrics,
        on_event: Callable[[WorkerHandle, Event], None],
        on_restarted: Callable[[WorkerHandle], None],
        lock: threading.Condition,
    ) -> None:
        """`on_event` is called with every worker's events, in the workers' threads; `on_restarted` is called with
        every restarted worker while holding `lock`, which is the engine's."""
        self.metrics = metrics
        self._on_event = on_event
        self._lock = lock
        self._on_restarted = on_restarted
        self._loading = threading.Lock()  # held while models load
        self._stopping = threading.Event()
        self._supervisors: list[threading.Thread] = []  # one for each worker
        self._models: dict[int, ModelSpec] = {}  # models that every worker has to have

        timeouts = self._timeouts = Timeouts(settings.hang_seconds, settings.load_seconds)

        def worker(device: str, emit: Callable[[Event], None]) -> EngineWorker:
            if settings.uses_processes:
                return SearchProcess(
                    WorkerConfig(
                        device, settings.precision, settings.threads, settings.warm_up_texts, settings.compile
                    ),
                    settings.log_format,
                    timeouts,
                    emit,
                )
            return SearchThread(emit, settings.threads, settings.warm_up_texts)

        self._handles = [
            WorkerHandle(name, partial(worker, device), on_event) for name, device in worker_names(settings.devices)
        ]
        for handle in self._handles:
            self._mark_up(handle)

    def __iter__(self) -> Iterator[WorkerHandle]:
        return iter(self._handles)

    def with_model(self, model: int) -> list[WorkerHandle]:
        """The workers that can search with a model."""
        return [handle for handle in self._handles if handle.available and model in handle.models]

    @property
    def unrecoverable(self) -> str | None:
        """Why only a new process of the service would help; None while there is no such reason."""
        if hung := [handle.name for handle in self._handles if handle.hung]:
            return f"engine {hung[0]} has been silent for {self._timeouts.searching:g} s"
        now, allowed = time.monotonic(), self._timeouts.loading
        if all(not handle.up and now - handle.lost_at > allowed for handle in self._handles):
            return f"no engine could be started again within {allowed:g} s"
        return None

    def start(self) -> None:
        for handle in self._handles:
            handle.worker.start()
            supervisor = threading.Thread(
                target=self._supervise, args=[handle], name=f"supervises {handle.name}", daemon=True
            )
            supervisor.start()
            self._supervisors.append(supervisor)

    def load(self, model: ModelSpec) -> Explanation:
        """Load a model in every worker; a worker that is lost meanwhile loads it when it is restarted.

        Raises InterlinearError; then no worker has it.
        """
        with self._loading:
            handles = [handle for handle in self._handles if handle.up]
            if not handles:
                raise WorkerLostError(model.name, "no engine is up to load it", "it is tried again")
            with ThreadPoolExecutor(len(handles)) as executor:
                load_futures = [executor.submit(handle.load_model, model) for handle in handles]
            errors = [error for load_future in load_futures if (error := load_future.exception())]
            if raised := [
                error for error in errors if len(errors) == len(handles) or not isinstance(error, WorkerLostError)
            ]:
                self.unload(model.number)
                raise raised[0]
            self._models[model.number] = model
        for handle in handles:
            self.metrics.slots.labels(handle.name, model.name).set(model.translator.reference.slots)
        return next(load_future.result() for load_future in load_futures if not load_future.exception())

    def unload(self, model: int) -> None:
        """Unload a model that is no longer used. The garbage collector calls this too, at any moment in any thread."""
        self._models.pop(model, None)
        for handle in self._handles:
            handle.models.pop(model, None)
            handle.send(UnloadModel(model))

    def lost(self, handle: WorkerHandle, reason: str) -> None:
        """Note that a worker has ended. The caller must hold the lock."""
        handle.lost = True
        if not handle.up:  # the restart in progress checks `lost`
            return
        handle.up, handle.lost_at = False, time.monotonic()
        log.error("engine %s has ended (%s): it is started again", handle.name, reason)
        self.metrics.engine_up.labels(handle.name).set(0)
        for model in list(handle.models.values()):
            self.metrics.searching.labels(handle.name, model.name).set(0)
        handle.restart_requested.set()

    def stop(self) -> None:
        self._stopping.set()
        for handle in self._handles:
            handle.restart_requested.set()
            handle.worker.stop(STOP_TIMEOUT)
        for supervisor in self._supervisors:  # each stops the worker that it has just started
            supervisor.join(STOP_TIMEOUT)

    def _mark_up(self, handle: WorkerHandle) -> None:
        """The worker gets texts from now on."""
        handle.up = True
        self.metrics.engine_up.labels(handle.name).set(1)
        for metric in (self.metrics.engine_restarts, self.metrics.waiting, self.metrics.waiting_tokens):
            metric.labels(handle.name)  # created now, so that a first one shows as an increase
        self.metrics.engine_memory.labels(handle.name).set_function(partial(resident_bytes, handle.worker.pid))

    def _supervise(self, handle: WorkerHandle) -> None:
        """Thread of each worker: restart it when it is lost, and check whether it hangs. No exception ends this
        thread."""
        while not self._stopping.is_set():
            try:
                if handle.restart_requested.wait(self._timeouts.searching / TICKS):
                    handle.restart_requested.clear()
                    self._restart(handle)
                else:
                    self._check_hang(handle)
            except Exception as error:
                log.error("the supervision of engine %s failed: %s", handle.name, exception_location(error))

    def _check_hang(self, handle: WorkerHandle) -> None:
        """Check whether a worker hangs, or has ended without an event.

        Counts checks, not seconds: time in which this process was suspended too does not count as the worker's
        silence.
        """
        hung = handle.silent_ticks() >= TICKS
        if hung and not handle.worker.alive:
            self._on_event(handle, WorkerLost("unknown reason"))
            return
        with self._lock:
            if handle.hung == hung or not handle.up:
                return
            handle.hung = hung
            self.metrics.engine_up.labels(handle.name).set(not hung)
        if hung:
            silence = f"{self._timeouts.searching:g} s"
            log.error("engine %s hangs, silent for %s, at %s", handle.name, silence, handle.worker.location)
        else:
            log.warning("engine %s responds again", handle.name)

    def _restart(self, handle: WorkerHandle) -> None:
        """Start a worker with every model, retrying until it succeeds."""
        while not self._stopping.wait(handle.restart_delay()):
            try:
                if self._try_restart(handle):
                    return
            except InterlinearError as error:
                log.error("engine %s cannot be started again: %s", handle.name, error)
            except Exception as error:  # no file descriptors, threads or memory left, or a device error
                log.error("engine %s cannot be started again: %s", handle.name, exception_location(error))

    def _try_restart(self, handle: WorkerHandle) -> bool:
        """Start a new worker with every model; returns whether it gets texts now. If not, it is stopped."""
        handle.start_worker()
        restarted = False
        try:
            restarted = not self._stopping.is_set() and self._load_models(handle)
        finally:
            if not restarted:
                handle.up = False
                handle.worker.stop(0)
        return restarted

    def _load_models(self, handle: WorkerHandle) -> bool:
        handle.worker.start()
        with self._loading:
            for model in list(self._models.values()):
                handle.load_model(model)
                if model.number not in self._models:  # unloaded meanwhile
                    self.unload(model.number)
            with self._lock:
                if handle.lost or self._stopping.is_set():
                    return False
                handle.restarts += 1
                self.metrics.engine_restarts.labels(handle.name).inc()
                self._mark_up(handle)
                self._on_restarted(handle)
        log.warning("engine %s has been restarted", handle.name)
        return True


def worker_names(devices: tuple[str, ...]) -> list[tuple[str, str]]:
    """Pairs of a worker's name and its device; the name is the device, numbered if it has several workers."""
    counts: Counter[str] = Counter()
    pairs = []
    for device in devices:
        counts[device] += 1
        pairs.append((f"{device}.{counts[device]}" if devices.count(device) > 1 else device, device))
    return pairs


def resident_bytes(pid: int) -> int:
    """Resident memory of a process in bytes; 0 once it has ended."""
    try:
        return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGESIZE")
    except OSError:
        return 0
