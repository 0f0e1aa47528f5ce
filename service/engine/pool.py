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
from service.engine.process import TICKS, Means, Patience, SearchProcess
from service.engine.queued import Ticket
from service.engine.scheduler import Event, Lost, LostError, Order, Searcher, SearchThread, Unload
from service.logging import place_of
from service.metrics import Metrics
from service.settings import Settings

log = logging.getLogger("interlinear.service")

ENDING = 5.0  # seconds that a searcher has to end, once it has nothing to do
STEADY = 60.0  # seconds after which an earlier loss is forgotten
LONGEST_PAUSE = 60.0  # seconds before a lane is opened again, at most


@dataclass(frozen=True, eq=False)
class Loadable:
    """A model as lanes are given it: its number, and the name that its figures are counted under.

    It does not hold the `Served` that it is of, whose end is this one's.
    """

    number: int
    name: str
    bundle: Bundle[Model]
    slots: int
    width: int


class Lane:
    """A way to a searcher. Whoever changes what it has been given holds the engine's lock."""

    def __init__(
        self, name: str, make: Callable[[Callable[[Event], None]], Searcher], hear: Callable[["Lane", Event], None]
    ) -> None:
        """`make` gives a searcher that tells its events to what it is given; `hear` is then called with each."""
        self.name = name
        self.make = make
        self.hear = hear
        self.models: dict[int, Loadable] = {}  # that it has, by number
        self.tickets: dict[int, Ticket] = {}  # that it was given, by number
        self.load = 0  # tokens x beam of these
        self.restarts = 0
        self.fallen = threading.Event()  # set where it is to be opened again
        self.down = 0.0  # when it was last lost
        self._failures = 0  # one after the other
        self._openings = 0
        self.open()

    def open(self) -> None:
        """Have a new searcher, without models. Raises whatever keeps it from being made."""
        self._opened = time.monotonic()
        self._openings += 1
        self.models.clear()
        self.up = False  # whether it is given texts
        self.lost = False  # whether the searcher has ended
        self.hung = False  # whether it has been silent for too long
        self._beats: int | None = None  # of the searcher, as was last seen
        self._silent = 0  # times that it was looked at since
        self.searcher = self.make(partial(self._heard, self._openings))

    def _heard(self, opening: int, event: Event) -> None:
        if opening == self._openings:  # what an earlier searcher still tells is no news of this one
            self.hear(self, event)

    @property
    def able(self) -> bool:
        """Whether it can be given texts."""
        return self.up and not self.hung and self.searcher.alive

    def silent(self) -> int:
        """How often it has been looked at, by this, since it showed a sign of life."""
        searcher = self.searcher
        watched = searcher.beats is None and searcher.alive
        self._silent = 0 if watched or searcher.beats != self._beats else self._silent + 1
        self._beats = searcher.beats
        return self._silent

    def load_model(self, model: Loadable) -> Explanation:
        """In any thread. Raises InterlinearError, LostError."""
        explanation = self.searcher.load(model.number, model.bundle, model.slots, model.width)
        self.models[model.number] = model
        return explanation

    def send(self, order: Order) -> None:
        self.searcher.send(order)

    def give(self, ticket: Ticket) -> None:
        self.tickets[ticket.number] = ticket
        self.load += ticket.cost

    def take(self, number: int) -> Ticket | None:
        """A ticket that is done with; None for one that was taken before."""
        if ticket := self.tickets.pop(number, None):
            self.load -= ticket.cost
        return ticket

    def pause(self) -> float:
        """Seconds until it is to be opened again: none at first, and more when it was lost soon after."""
        if time.monotonic() - self._opened > STEADY:
            self._failures = 0
        self._failures += 1
        return min(2.0 ** min(self._failures - 2, 10), LONGEST_PAUSE) if self._failures > 1 else 0.0


class Lanes:
    """Where an engine can search: one lane for each device, loaded alike, and opened again when it is lost."""

    def __init__(
        self,
        settings: Settings,
        metrics: Metrics,
        hear: Callable[[Lane, Event], None],
        opened: Callable[[Lane], None],
        lock: threading.Condition,
    ) -> None:
        """`hear` is called with what every lane tells, in threads of theirs; `opened` with every lane that takes texts
        again, under the lock, which is the engine's."""
        self.metrics = metrics
        self._hear = hear
        self._lock = lock
        self._again = opened
        self._loading = threading.Lock()  # held while models are loaded
        self._ending = threading.Event()
        self._keepers: list[threading.Thread] = []  # of the lanes
        self._models: dict[int, Loadable] = {}  # that every lane is to have

        patience = self._patience = Patience(settings.hang_seconds, settings.load_seconds)

        def searcher(device: str, tell: Callable[[Event], None]) -> Searcher:
            if settings.apart:
                return SearchProcess(
                    Means(device, settings.precision, settings.threads), settings.log_format, patience, tell
                )
            return SearchThread(tell, settings.threads)

        self._lanes = [Lane(name, partial(searcher, device), hear) for name, device in named(settings.devices)]
        for lane in self._lanes:
            self._up(lane)

    def __iter__(self) -> Iterator[Lane]:
        return iter(self._lanes)

    def having(self, model: int) -> list[Lane]:
        """Those that can be given texts for a model."""
        return [lane for lane in self._lanes if lane.able and model in lane.models]

    @property
    def stuck(self) -> str | None:
        """Why nothing but another process of the service would help, where that is so."""
        if hung := [lane.name for lane in self._lanes if lane.hung]:
            return f"engine {hung[0]} has been silent for {self._patience.searching:g} s"
        now, patience = time.monotonic(), self._patience.loading
        if all(not lane.up and now - lane.down > patience for lane in self._lanes):
            return f"no engine could be started again within {patience:g} s"
        return None

    def start(self) -> None:
        for lane in self._lanes:
            lane.searcher.start()
            keeper = threading.Thread(target=self._keep, args=[lane], name=f"keeps {lane.name}", daemon=True)
            keeper.start()
            self._keepers.append(keeper)

    def load(self, model: Loadable) -> Explanation:
        """Have every lane load a model; one that is lost meanwhile will when it is opened again.

        Raises InterlinearError; then none has it.
        """
        with self._loading:
            lanes = [lane for lane in self._lanes if lane.up]
            if not lanes:
                raise LostError(model.name, "no engine is up to load it", "it is tried again")
            with ThreadPoolExecutor(len(lanes)) as beside:
                loading = [beside.submit(lane.load_model, model) for lane in lanes]
            errors = [error for one in loading if (error := one.exception())]
            if others := [error for error in errors if len(errors) == len(lanes) or not isinstance(error, LostError)]:
                self.unload(model.number)
                raise others[0]
            self._models[model.number] = model
        for lane in lanes:
            self.metrics.slots.labels(lane.name, model.name).set(model.slots)
        return next(one.result() for one in loading if not one.exception())

    def unload(self, model: int) -> None:
        """Nobody can ask for a model any more; called by the garbage collector, too, at any moment in any thread."""
        self._models.pop(model, None)
        for lane in self._lanes:
            lane.models.pop(model, None)
            lane.send(Unload(model))

    def lost(self, lane: Lane, reason: str) -> None:
        """A lane's searcher has ended; the caller holds the lock."""
        lane.lost = True
        if not lane.up:  # whoever is opening it will see
            return
        lane.up, lane.down = False, time.monotonic()
        log.error("engine %s has ended (%s): it is started again", lane.name, reason)
        self.metrics.engine_up.labels(lane.name).set(0)
        for model in list(lane.models.values()):
            self.metrics.searching.labels(lane.name, model.name).set(0)
        lane.fallen.set()

    def end(self) -> None:
        self._ending.set()
        for lane in self._lanes:
            lane.fallen.set()
            lane.searcher.end(ENDING)
        for keeper in self._keepers:  # each ends what it has just opened
            keeper.join(ENDING)

    def _up(self, lane: Lane) -> None:
        """The lane takes texts from now on."""
        lane.up = True
        self.metrics.engine_up.labels(lane.name).set(1)
        for metric in (self.metrics.engine_restarts, self.metrics.waiting, self.metrics.waiting_tokens):
            metric.labels(lane.name)  # from the beginning, so that a first one is a rise
        self.metrics.engine_memory.labels(lane.name).set_function(partial(resident, lane.searcher.pid))

    def _keep(self, lane: Lane) -> None:
        """In a thread for each lane: open it again when it is lost, and see whether it hangs, whatever is raised."""
        while not self._ending.is_set():
            try:
                if lane.fallen.wait(self._patience.searching / TICKS):
                    lane.fallen.clear()
                    self._reopen(lane)
                else:
                    self._look(lane)
            except Exception as error:
                log.error("engine %s cannot be looked after: %s", lane.name, place_of(error))

    def _look(self, lane: Lane) -> None:
        """See whether a lane hangs, or has ended without a word.

        Not by the clock: what stops this process as well is nobody's silence.
        """
        hung = lane.silent() >= TICKS
        if hung and not lane.searcher.alive:
            self._hear(lane, Lost("nobody knows of what"))
            return
        with self._lock:
            if lane.hung == hung or not lane.up:
                return
            lane.hung = hung
            self.metrics.engine_up.labels(lane.name).set(not hung)
        if hung:
            silence = f"{self._patience.searching:g} s"
            log.error("engine %s hangs, silent for %s, at %s", lane.name, silence, lane.searcher.place)
        else:
            log.warning("engine %s goes on", lane.name)

    def _reopen(self, lane: Lane) -> None:
        """Have a searcher with every model again, however often it takes."""
        while not self._ending.wait(lane.pause()):
            try:
                if self._opened(lane):
                    return
            except InterlinearError as error:
                log.error("engine %s cannot be started again: %s", lane.name, error)
            except Exception as error:  # no file or thread is free, no memory, a fault of a device
                log.error("engine %s cannot be started again: %s", lane.name, place_of(error))

    def _opened(self, lane: Lane) -> bool:
        """Have a new searcher with every model; whether it takes texts now. Nothing of it stays where it does not."""
        lane.open()
        opened = False
        try:
            opened = not self._ending.is_set() and self._filled(lane)
        finally:
            if not opened:
                lane.up = False
                lane.searcher.end(0)
        return opened

    def _filled(self, lane: Lane) -> bool:
        lane.searcher.start()
        with self._loading:
            for model in list(self._models.values()):
                lane.load_model(model)
                if model.number not in self._models:  # let go meanwhile
                    self.unload(model.number)
            with self._lock:
                if lane.lost or self._ending.is_set():
                    return False
                lane.restarts += 1
                self.metrics.engine_restarts.labels(lane.name).inc()
                self._up(lane)
                self._again(lane)
        log.warning("engine %s searches again", lane.name)
        return True


def named(devices: tuple[str, ...]) -> list[tuple[str, str]]:
    """What lanes are called, and where each searches: the device, with a number where there are several on it."""
    seen: Counter[str] = Counter()
    pairs = []
    for device in devices:
        seen[device] += 1
        pairs.append((f"{device}.{seen[device]}" if devices.count(device) > 1 else device, device))
    return pairs


def resident(pid: int) -> int:
    """Bytes of memory that a process has; 0 once it has ended."""
    try:
        return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGESIZE")
    except OSError:
        return 0
