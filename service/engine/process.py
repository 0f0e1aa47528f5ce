"""A search in a process of its own: one for each GPU, or for as many CPU devices as were asked for.

The process runs the same `SearchThread` as the service's own would. Orders go to it, and events come back, as plain
dataclasses over a pipe that only these two have; that ends with either of them, and then so does the other. A process
that lives and does nothing is found by asking its search, between steps, whether it goes on.
"""

import atexit
import logging
import multiprocessing
import os
import queue
import signal
import sys
import threading
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path

import torch

from seq2seq.bundle import Bundle, load
from seq2seq.config import Precision
from seq2seq.devices import check_device
from seq2seq.errors import InterlinearError, ServiceError
from seq2seq.explain import Explanation
from seq2seq.memory_allocator import keep_freed_memory
from seq2seq.model.model import Model
from service import logging as service_logging
from service.engine.scheduler import Event, Failed, Lost, LostError, Order, Ping, Pong, SearchThread
from service.logging import Style, place_of

log = logging.getLogger("interlinear.service")

SWITCH_SECONDS = 0.0005
ENDING = 2.0  # seconds that a process has to end, once its search has
PINGS = 4  # within the patience with a process
TICKS = 10  # in which it is counted


@dataclass(frozen=True)
class Patience:
    """Seconds without an answer of the search after which its process is taken for hung."""

    searching: float
    loading: float  # while the process starts or loads a model: what is compiled or warmed may hold up the device


@dataclass(frozen=True)
class Means:
    """Where a process searches, and with what."""

    device: str
    precision: Precision
    threads: int | None  # for the mathematics


@dataclass(frozen=True)
class Load:
    """Load a bundle, and have it ready under this number."""

    model: int
    folder: Path
    slots: int
    width: int


@dataclass(frozen=True)
class Loaded:
    """What came of that."""

    model: int
    outcome: Explanation | InterlinearError


@dataclass(frozen=True)
class End:
    """End, whatever is searched."""


class SearchProcess:
    """A Searcher in a process of its own; when that ends unasked, or hangs and is killed, the last event is `Lost`."""

    def __init__(self, means: Means, style: Style, patience: Patience, tell: Callable[[Event], None]) -> None:
        """`tell` is called with every event, in a thread of this process."""
        self._tell = tell
        self._patience = patience
        self._answered = threading.Event()  # since it was last asked whether it goes on
        self._silent = 0  # ticks
        self._ending = False
        self._over = threading.Event()
        self._orders: queue.SimpleQueue[Order | Load | End] = queue.SimpleQueue()
        self._loading = threading.Lock()
        self._loads: dict[int, Future[Explanation]] = {}
        context = multiprocessing.get_context("spawn")
        self._pipe, theirs = context.Pipe()
        device = means.device
        self._process = context.Process(target=run, args=[theirs, means, style], name=f"engine {device}")
        self._writer = threading.Thread(target=self._write, name=f"to {device}", daemon=True)
        try:
            self._process.start()
            atexit.register(self._process.kill)  # or a service that ends without `end` would wait for it for ever
            self._writer.start()
            threading.Thread(target=self._read, name=f"from {device}", daemon=True).start()
            threading.Thread(target=self._watch, name=f"watches {device}", daemon=True).start()
        except BaseException:  # no file or no thread is free: nothing of it stays
            self._ending = True
            self.send(End())
            if self._process.pid:
                self._process.kill()
                self._process.join()
                atexit.unregister(self._process.kill)
            self._pipe.close()
            raise
        finally:
            theirs.close()

    @property
    def alive(self) -> bool:
        return not self._over.is_set()

    @property
    def pid(self) -> int:
        assert self._process.pid
        return self._process.pid

    @property
    def beats(self) -> None:
        """It is watched here."""

    @property
    def place(self) -> str:
        return f"process {self.pid}"

    def start(self) -> None:
        """It has, when it was made."""

    def load(self, model: int, bundle: Bundle[Model], slots: int, width: int) -> Explanation:
        """The bundle is read from its folder there; what is here of it may be without weights."""
        future: Future[Explanation] = Future()
        with self._loading:
            if not self.alive:
                raise self._lost()
            self._loads[model] = future
        self.send(Load(model, bundle.folder, slots, width))
        return future.result()

    def send(self, order: Order | Load | End) -> None:
        self._orders.put(order)

    def end(self, seconds: float) -> None:
        self._ending = True
        self.send(End())
        if not self._over.wait(seconds):
            self._process.kill()
            self._over.wait(ENDING)

    def _lost(self) -> LostError:
        return LostError(self._process.name, "its process has ended", "see the log")

    def _write(self) -> None:
        """In a thread: a pipe may be full."""
        while True:
            order = self._orders.get()
            try:
                self._pipe.send(order)
            except OSError:  # the reader knows
                return
            if isinstance(order, End):
                return

    def _read(self) -> None:
        """In a thread, until the process ends, whatever it ends of."""
        try:
            while True:
                match self._pipe.recv():
                    case Loaded() as said:
                        self._loaded(said)
                    case Pong():
                        self._answered.set()
                    case said if self.alive:  # of one that is lost nothing more is wanted
                        self._tell(said)
        except (EOFError, OSError):
            pass
        finally:
            self._process.kill()
            self._process.join()
            atexit.unregister(self._process.kill)
            self._gone(f"exit code {self._process.exitcode}")
            self.send(End())
            self._writer.join()
            self._pipe.close()

    def _watch(self) -> None:
        """In a thread: ask the search again and again whether it goes on, and kill the process when it is silent.

        The reader will see the process end; who waits for it is told at once, for a device's driver may keep a process
        that was killed for long.
        """
        tick, starting = self._patience.searching / TICKS, True
        while not self._over.wait(self._patience.searching / PINGS):
            self._answered.clear()
            self._silent = 0
            self.send(Ping())
            while not self._answered.wait(tick):
                with self._loading:
                    self._silent += 1  # not by the clock: what stops this process as well is nobody's silence
                    allowed = self._patience.loading if starting or self._loads else self._patience.searching
                if self._silent * tick >= allowed:
                    self._process.kill()
                    self._gone(f"it was silent for {allowed:g} s, and killed")
                    return
            starting = False

    def _gone(self, reason: str) -> None:
        """Whoever waits for something is told that it will not come, once."""
        with self._loading:
            if not self.alive:
                return
            self._over.set()
            unanswered = list(self._loads.values())
        self._answered.set()  # the watch is over
        for future in unanswered:
            future.set_exception(self._lost())
        if not self._ending:
            self._tell(Lost(reason))

    def _loaded(self, said: Loaded) -> None:
        with self._loading:
            if not self.alive:
                return
            future = self._loads.pop(said.model)
            self._silent = 0  # until now it was allowed more
        if isinstance(said.outcome, InterlinearError):
            future.set_exception(said.outcome)
        else:
            future.set_result(said.outcome)


# The process.


def run(pipe: "Connection[Event | Loaded, Order | Load | End]", means: Means, style: Style) -> None:
    """Search as ordered through the pipe, until it ends."""
    for ending in (signal.SIGINT, signal.SIGTERM):  # who sends them to all processes of a service means the first one
        signal.signal(ending, signal.SIG_IGN)
    keep_freed_memory()
    service_logging.configure(style, access=False)
    sys.setswitchinterval(SWITCH_SECONDS)
    telling = threading.Lock()

    def tell(said: Event | Loaded) -> None:
        if isinstance(said, Lost):  # which is for the service to say, once this process has ended
            log.error("the search has ended: %s", said.reason)
            os._exit(1)
        try:
            with telling:
                pipe.send(said)
        except OSError:  # the service has ended
            os._exit(1)
        if isinstance(said, Failed) and means.device != "cpu":
            check_still_there(means.device)

    search = SearchThread(tell, means.threads)
    search.start()
    while True:
        try:
            order = pipe.recv()
        except (EOFError, OSError):
            break
        match order:
            case End():
                break
            case Load():  # beside the search, and beside the orders for it
                threading.Thread(target=lambda order=order: tell(loaded(order, means, search)), daemon=True).start()
            case _:
                search.send(order)
    search.end(ENDING)
    os._exit(0)  # at once, though a model may be loading, whose thread would break in a Python that is taken down


def loaded(order: Load, means: Means, search: SearchThread) -> Loaded:
    """Do what was ordered."""
    device = means.device
    try:
        check_device(device)
        bundle = load(order.folder, device, means.precision)
        outcome = search.load(order.model, bundle, order.slots, order.width)
    except InterlinearError as error:
        return Loaded(order.model, error)
    except Exception as error:
        log.error("%s cannot be loaded on %s: %s", order.folder, device, place_of(error))
        return Loaded(order.model, ServiceError(str(order.folder), f"cannot be loaded on {device}", "see the log"))
    return Loaded(order.model, outcome)


def check_still_there(device: str) -> None:
    """End the process where its device takes no more work: after some faults a GPU never does for who made them."""
    try:
        torch.ones(1, device=device).sum().item()
    except RuntimeError as error:
        log.error("%s takes no more work: %s", device, place_of(error))
        os._exit(1)
