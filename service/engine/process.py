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
from service.engine.scheduler import Command, Event, Ping, Pong, SearchFailed, SearchThread, WorkerLost, WorkerLostError
from service.logging import LogFormat, exception_location

log = logging.getLogger("interlinear.service")

SWITCH_SECONDS = 0.0005
STOP_TIMEOUT = 2.0  # seconds that a process has to end, once its search has
PINGS = 4  # within the patience with a process
TICKS = 10  # in which it is counted


@dataclass(frozen=True)
class Timeouts:
    """Seconds without an answer of the search after which its process is taken for hung."""

    searching: float
    loading: float  # while the process starts or loads a model: what is compiled or warmed may hold up the device


@dataclass(frozen=True)
class WorkerConfig:
    """Where a process searches, and with what."""

    device: str
    precision: Precision
    threads: int | None  # for the mathematics


@dataclass(frozen=True)
class LoadModel:
    """Load a bundle, and have it ready under this number."""

    model: int
    folder: Path
    slots: int
    width: int


@dataclass(frozen=True)
class ModelLoaded:
    """What came of that."""

    model: int
    outcome: Explanation | InterlinearError


@dataclass(frozen=True)
class Stop:
    """End, whatever is searched."""


class SearchProcess:
    """A Searcher in a process of its own; when that ends unasked, or hangs and is killed, the last event is `WorkerLost`."""

    def __init__(
        self, config: WorkerConfig, style: LogFormat, timeouts: Timeouts, emit: Callable[[Event], None]
    ) -> None:
        """`emit` is called with every event, in a thread of this process."""
        self._emit = emit
        self._timeouts = timeouts
        self._pong_received = threading.Event()  # since it was last asked whether it goes on
        self._silent_ticks = 0  # ticks
        self._stopping = False
        self._ended = threading.Event()
        self._commands: queue.SimpleQueue[Command | LoadModel | Stop] = queue.SimpleQueue()
        self._loading = threading.Lock()
        self._loads: dict[int, Future[Explanation]] = {}
        context = multiprocessing.get_context("spawn")
        self._pipe, child_end = context.Pipe()
        device = config.device
        self._process = context.Process(target=run_worker, args=[child_end, config, style], name=f"engine {device}")
        self._writer = threading.Thread(target=self._write, name=f"to {device}", daemon=True)
        try:
            self._process.start()
            atexit.register(self._process.kill)  # or a service that ends without `stop` would wait for it for ever
            self._writer.start()
            threading.Thread(target=self._read, name=f"from {device}", daemon=True).start()
            threading.Thread(target=self._monitor, name=f"watches {device}", daemon=True).start()
        except BaseException:  # no file or no thread is free: nothing of it stays
            self._stopping = True
            self.send(Stop())
            if self._process.pid:
                self._process.kill()
                self._process.join()
                atexit.unregister(self._process.kill)
            self._pipe.close()
            raise
        finally:
            child_end.close()

    @property
    def alive(self) -> bool:
        return not self._ended.is_set()

    @property
    def pid(self) -> int:
        assert self._process.pid
        return self._process.pid

    @property
    def heartbeats(self) -> None:
        """It is watched here."""

    @property
    def location(self) -> str:
        return f"process {self.pid}"

    def start(self) -> None:
        """It has, when it was made."""

    def load(self, model: int, bundle: Bundle[Model], slots: int, width: int) -> Explanation:
        """The bundle is read from its folder there; what is here of it may be without weights."""
        future: Future[Explanation] = Future()
        with self._loading:
            if not self.alive:
                raise self._lost_error()
            self._loads[model] = future
        self.send(LoadModel(model, bundle.folder, slots, width))
        return future.result()

    def send(self, command: Command | LoadModel | Stop) -> None:
        self._commands.put(command)

    def stop(self, seconds: float) -> None:
        self._stopping = True
        self.send(Stop())
        if not self._ended.wait(seconds):
            self._process.kill()
            self._ended.wait(STOP_TIMEOUT)

    def _lost_error(self) -> WorkerLostError:
        return WorkerLostError(self._process.name, "its process has ended", "see the log")

    def _write(self) -> None:
        """In a thread: a pipe may be full."""
        while True:
            command = self._commands.get()
            try:
                self._pipe.send(command)
            except OSError:  # the reader knows
                return
            if isinstance(command, Stop):
                return

    def _read(self) -> None:
        """In a thread, until the process ends, whatever it ends of."""
        try:
            while True:
                match self._pipe.recv():
                    case ModelLoaded() as message:
                        self._on_model_loaded(message)
                    case Pong():
                        self._pong_received.set()
                    case message if self.alive:  # of one that is lost nothing more is wanted
                        self._emit(message)
        except (EOFError, OSError):
            pass
        finally:
            self._process.kill()
            self._process.join()
            atexit.unregister(self._process.kill)
            self._fail_pending(f"exit code {self._process.exitcode}")
            self.send(Stop())
            self._writer.join()
            self._pipe.close()

    def _monitor(self) -> None:
        """In a thread: ask the search again and again whether it goes on, and kill the process when it is silent.

        The reader will see the process end; who waits for it is told at once, for a device's driver may keep a process
        that was killed for long.
        """
        tick, starting = self._timeouts.searching / TICKS, True
        while not self._ended.wait(self._timeouts.searching / PINGS):
            self._pong_received.clear()
            self._silent_ticks = 0
            self.send(Ping())
            while not self._pong_received.wait(tick):
                with self._loading:
                    self._silent_ticks += 1  # not by the clock: what stops this process as well is nobody's silence
                    allowed = self._timeouts.loading if starting or self._loads else self._timeouts.searching
                if self._silent_ticks * tick >= allowed:
                    self._process.kill()
                    self._fail_pending(f"it was silent for {allowed:g} s, and killed")
                    return
            starting = False

    def _fail_pending(self, reason: str) -> None:
        """Whoever waits for something is told that it will not come, once."""
        with self._loading:
            if not self.alive:
                return
            self._ended.set()
            pending = list(self._loads.values())
        self._pong_received.set()  # the watch is over
        for future in pending:
            future.set_exception(self._lost_error())
        if not self._stopping:
            self._emit(WorkerLost(reason))

    def _on_model_loaded(self, message: ModelLoaded) -> None:
        with self._loading:
            if not self.alive:
                return
            future = self._loads.pop(message.model)
            self._silent_ticks = 0  # until now it was allowed more
        if isinstance(message.outcome, InterlinearError):
            future.set_exception(message.outcome)
        else:
            future.set_result(message.outcome)


# The process.


def run_worker(
    pipe: "Connection[Event | ModelLoaded, Command | LoadModel | Stop]", config: WorkerConfig, style: LogFormat
) -> None:
    """Search as ordered through the pipe, until it ends."""
    for ending in (signal.SIGINT, signal.SIGTERM):  # who sends them to all processes of a service means the first one
        signal.signal(ending, signal.SIG_IGN)
    keep_freed_memory()
    service_logging.configure(style, access=False)
    sys.setswitchinterval(SWITCH_SECONDS)
    send_lock = threading.Lock()

    def emit(message: Event | ModelLoaded) -> None:
        if isinstance(message, WorkerLost):  # which is for the service to say, once this process has ended
            log.error("the search has ended: %s", message.reason)
            os._exit(1)
        try:
            with send_lock:
                pipe.send(message)
        except OSError:  # the service has ended
            os._exit(1)
        if isinstance(message, SearchFailed) and config.device != "cpu":
            check_device_alive(config.device)

    search = SearchThread(emit, config.threads)
    search.start()
    while True:
        try:
            command = pipe.recv()
        except (EOFError, OSError):
            break
        match command:
            case Stop():
                break
            case LoadModel():  # beside the search, and beside the orders for it
                threading.Thread(
                    target=lambda command=command: emit(load_model(command, config, search)), daemon=True
                ).start()
            case _:
                search.send(command)
    search.stop(STOP_TIMEOUT)
    os._exit(0)  # at once, though a model may be loading, whose thread would break in a Python that is taken down


def load_model(command: LoadModel, config: WorkerConfig, search: SearchThread) -> ModelLoaded:
    """Do what was ordered."""
    device = config.device
    try:
        check_device(device)
        bundle = load(command.folder, device, config.precision)
        outcome = search.load(command.model, bundle, command.slots, command.width)
    except InterlinearError as error:
        return ModelLoaded(command.model, error)
    except Exception as error:
        log.error("%s cannot be loaded on %s: %s", command.folder, device, exception_location(error))
        return ModelLoaded(
            command.model, ServiceError(str(command.folder), f"cannot be loaded on {device}", "see the log")
        )
    return ModelLoaded(command.model, outcome)


def check_device_alive(device: str) -> None:
    """End the process where its device takes no more work: after some faults a GPU never does for who made them."""
    try:
        torch.ones(1, device=device).sum().item()
    except RuntimeError as error:
        log.error("%s takes no more work: %s", device, exception_location(error))
        os._exit(1)
