"""Lanes: each leads to something that searches, knows what it was given, and is opened again when that has ended."""

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

from seq2seq.bundle import Bundle
from seq2seq.errors import InterlinearError
from seq2seq.explain import Explanation
from seq2seq.model.model import Model
from service.engine.process import TICKS, SearchProcess, Timeouts, WorkerConfig
from service.engine.queued import QueuedSequence
from service.engine.scheduler import (
    Command,
    EngineWorker,
    Event,
    SearchThread,
    UnloadModel,
    WorkerLost,
    WorkerLostError,
)
from service.logging import exception_location
from service.metrics import Metrics
from service.settings import Settings

log = logging.getLogger("interlinear.service")

STOP_TIMEOUT = 5.0  # seconds that a searcher has to end, once it has nothing to do
STABLE_SECONDS = 60.0  # seconds after which an earlier loss is forgotten
MAX_RESTART_DELAY = 60.0  # seconds before a lane is opened again, at most


@dataclass(frozen=True, eq=False)
class ModelSpec:
    """A model as lanes are given it: its number, and the name that its figures are counted under.

    It does not hold the `Served` that it is of, whose end is this one's.
    """

    number: int
    name: str
    bundle: Bundle[Model]
    slots: int
    width: int


class WorkerHandle:
    """A way to a searcher. Whoever changes what it has been given holds the engine's lock."""

    def __init__(
        self,
        name: str,
        create_worker: Callable[[Callable[[Event], None]], EngineWorker],
        on_event: Callable[["WorkerHandle", Event], None],
    ) -> None:
        """`create_worker` gives a searcher that tells its events to what it is given; `on_event` is then called with each."""
        self.name = name
        self.create_worker = create_worker
        self.on_event = on_event
        self.models: dict[int, ModelSpec] = {}  # that it has, by number
        self.sequences: dict[int, QueuedSequence] = {}  # that it was given, by number
        self.load = 0  # tokens x beam of these
        self.restarts = 0
        self.restart_requested = threading.Event()  # set where it is to be opened again
        self.lost_at = 0.0  # when it was last lost
        self._failures = 0  # one after the other
        self._incarnation = 0
        self.start_worker()

    def start_worker(self) -> None:
        """Have a new searcher, without models. Raises whatever keeps it from being made."""
        self._started_at = time.monotonic()
        self._incarnation += 1
        self.models.clear()
        self.up = False  # whether it is given texts
        self.lost = False  # whether the searcher has ended
        self.hung = False  # whether it has been silent for too long
        self._last_heartbeat: int | None = None  # of the searcher, as was last seen
        self._silent_ticks = 0  # times that it was looked at since
        self.worker = self.create_worker(partial(self._on_worker_event, self._incarnation))

    def _on_worker_event(self, incarnation: int, event: Event) -> None:
        if incarnation == self._incarnation:  # what an earlier searcher still tells is no news of this one
            self.on_event(self, event)

    @property
    def available(self) -> bool:
        """Whether it can be given texts."""
        return self.up and not self.hung and self.worker.alive

    def silent_ticks(self) -> int:
        """How often it has been looked at, by this, since it showed a sign of life."""
        worker = self.worker
        watched = worker.heartbeats is None and worker.alive
        self._silent_ticks = 0 if watched or worker.heartbeats != self._last_heartbeat else self._silent_ticks + 1
        self._last_heartbeat = worker.heartbeats
        return self._silent_ticks

    def load_model(self, model: ModelSpec) -> Explanation:
        """In any thread. Raises InterlinearError, LostError."""
        explanation = self.worker.load(model.number, model.bundle, model.slots, model.width)
        self.models[model.number] = model
        return explanation

    def send(self, command: Command) -> None:
        self.worker.send(command)

    def assign(self, sequence: QueuedSequence) -> None:
        self.sequences[sequence.number] = sequence
        self.load += sequence.cost

    def remove(self, number: int) -> QueuedSequence | None:
        """A ticket that is done with; None for one that was taken before."""
        if sequence := self.sequences.pop(number, None):
            self.load -= sequence.cost
        return sequence

    def restart_delay(self) -> float:
        """Seconds until it is to be opened again: none at first, and more when it was lost soon after."""
        if time.monotonic() - self._started_at > STABLE_SECONDS:
            self._failures = 0
        self._failures += 1
        return min(2.0 ** min(self._failures - 2, 10), MAX_RESTART_DELAY) if self._failures > 1 else 0.0


class WorkerPool:
    """Where an engine can search: one lane for each device, loaded alike, and opened again when it is lost."""

    def __init__(
        self,
        settings: Settings,
        metrics: Metrics,
        on_event: Callable[[WorkerHandle, Event], None],
        on_restarted: Callable[[WorkerHandle], None],
        lock: threading.Condition,
    ) -> None:
        """`on_event` is called with what every lane tells, in threads of theirs; `restarted` with every lane that takes texts
        again, under the lock, which is the engine's."""
        self.metrics = metrics
        self._on_event = on_event
        self._lock = lock
        self._on_restarted = on_restarted
        self._loading = threading.Lock()  # held while models are loaded
        self._stopping = threading.Event()
        self._supervisors: list[threading.Thread] = []  # of the lanes
        self._models: dict[int, ModelSpec] = {}  # that every lane is to have

        timeouts = self._timeouts = Timeouts(settings.hang_seconds, settings.load_seconds)

        def worker(device: str, emit: Callable[[Event], None]) -> EngineWorker:
            if settings.uses_processes:
                return SearchProcess(
                    WorkerConfig(device, settings.precision, settings.threads), settings.log_format, timeouts, emit
                )
            return SearchThread(emit, settings.threads)

        self._handles = [
            WorkerHandle(name, partial(worker, device), on_event) for name, device in worker_names(settings.devices)
        ]
        for handle in self._handles:
            self._mark_up(handle)

    def __iter__(self) -> Iterator[WorkerHandle]:
        return iter(self._handles)

    def with_model(self, model: int) -> list[WorkerHandle]:
        """Those that can be given texts for a model."""
        return [handle for handle in self._handles if handle.available and model in handle.models]

    @property
    def unrecoverable(self) -> str | None:
        """Why nothing but another process of the service would help, where that is so."""
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
                target=self._supervise, args=[handle], name=f"keeps {handle.name}", daemon=True
            )
            supervisor.start()
            self._supervisors.append(supervisor)

    def load(self, model: ModelSpec) -> Explanation:
        """Have every lane load a model; one that is lost meanwhile will when it is opened again.

        Raises InterlinearError; then none has it.
        """
        with self._loading:
            handles = [handle for handle in self._handles if handle.up]
            if not handles:
                raise WorkerLostError(model.name, "no engine is up to load it", "it is tried again")
            with ThreadPoolExecutor(len(handles)) as executor:
                loading = [executor.submit(handle.load_model, model) for handle in handles]
            errors = [error for one in loading if (error := one.exception())]
            if others := [
                error for error in errors if len(errors) == len(handles) or not isinstance(error, WorkerLostError)
            ]:
                self.unload(model.number)
                raise others[0]
            self._models[model.number] = model
        for handle in handles:
            self.metrics.slots.labels(handle.name, model.name).set(model.slots)
        return next(one.result() for one in loading if not one.exception())

    def unload(self, model: int) -> None:
        """Nobody can ask for a model any more; called by the garbage collector, too, at any moment in any thread."""
        self._models.pop(model, None)
        for handle in self._handles:
            handle.models.pop(model, None)
            handle.send(UnloadModel(model))

    def lost(self, handle: WorkerHandle, reason: str) -> None:
        """A lane's searcher has ended; the caller holds the lock."""
        handle.lost = True
        if not handle.up:  # whoever is opening it will see
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
        for supervisor in self._supervisors:  # each ends what it has just opened
            supervisor.join(STOP_TIMEOUT)

    def _mark_up(self, handle: WorkerHandle) -> None:
        """The lane takes texts from now on."""
        handle.up = True
        self.metrics.engine_up.labels(handle.name).set(1)
        for metric in (self.metrics.engine_restarts, self.metrics.waiting, self.metrics.waiting_tokens):
            metric.labels(handle.name)  # from the beginning, so that a first one is a rise
        self.metrics.engine_memory.labels(handle.name).set_function(partial(resident_bytes, handle.worker.pid))

    def _supervise(self, handle: WorkerHandle) -> None:
        """In a thread for each lane: open it again when it is lost, and see whether it hangs, whatever is raised."""
        while not self._stopping.is_set():
            try:
                if handle.restart_requested.wait(self._timeouts.searching / TICKS):
                    handle.restart_requested.clear()
                    self._restart(handle)
                else:
                    self._check_hang(handle)
            except Exception as error:
                log.error("engine %s cannot be looked after: %s", handle.name, exception_location(error))

    def _check_hang(self, handle: WorkerHandle) -> None:
        """See whether a lane hangs, or has ended without a word.

        Not by the clock: what stops this process as well is nobody's silence.
        """
        hung = handle.silent_ticks() >= TICKS
        if hung and not handle.worker.alive:
            self._on_event(handle, WorkerLost("nobody knows of what"))
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
            log.warning("engine %s goes on", handle.name)

    def _restart(self, handle: WorkerHandle) -> None:
        """Have a searcher with every model again, however often it takes."""
        while not self._stopping.wait(handle.restart_delay()):
            try:
                if self._try_restart(handle):
                    return
            except InterlinearError as error:
                log.error("engine %s cannot be started again: %s", handle.name, error)
            except Exception as error:  # no file or thread is free, no memory, a fault of a device
                log.error("engine %s cannot be started again: %s", handle.name, exception_location(error))

    def _try_restart(self, handle: WorkerHandle) -> bool:
        """Have a new searcher with every model; whether it takes texts now. Nothing of it stays where it does not."""
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
                if model.number not in self._models:  # let go meanwhile
                    self.unload(model.number)
            with self._lock:
                if handle.lost or self._stopping.is_set():
                    return False
                handle.restarts += 1
                self.metrics.engine_restarts.labels(handle.name).inc()
                self._mark_up(handle)
                self._on_restarted(handle)
        log.warning("engine %s searches again", handle.name)
        return True


def worker_names(devices: tuple[str, ...]) -> list[tuple[str, str]]:
    """What lanes are called, and where each searches: the device, with a number where there are several on it."""
    counts: Counter[str] = Counter()
    pairs = []
    for device in devices:
        counts[device] += 1
        pairs.append((f"{device}.{counts[device]}" if devices.count(device) > 1 else device, device))
    return pairs


def resident_bytes(pid: int) -> int:
    """Bytes of memory that a process has; 0 once it has ended."""
    try:
        return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGESIZE")
    except OSError:
        return 0
