"""Worker in its own process: one for each GPU, or for each requested CPU device.

The process runs the same `SearchThread` that a service without worker processes runs. Commands and events are plain
dataclasses, sent over a pipe between the two processes; when one process ends, the pipe closes, and the other ends
its side. A process that is alive but makes no progress is detected with pings, which its search answers between
steps.
"""

import atexit
import logging
import multiprocessing
import os
import queue
import signal
import threading
from collections.abc import Callable
from concurrent.futures import Future
from multiprocessing.connection import Connection

import torch

from interlinear.devices import check_device
from interlinear.errors import InterlinearError, ServiceError
from interlinear.explanation import Explanation
from interlinear.generation.translator import Translator, open_translator
from interlinear.memory_allocator import keep_freed_memory
from service import logging as service_logging
from service.engine.protocol import (
    Command,
    Event,
    LoadModel,
    ModelLoaded,
    Ping,
    Pong,
    SearchFailed,
    Stop,
    Timeouts,
    WorkerConfig,
    WorkerLost,
    WorkerLostError,
)
from service.engine.search_thread import SearchThread, shorten_pauses
from service.logging import LogFormat, exception_location

log = logging.getLogger("interlinear.service")

STOP_TIMEOUT = 2.0  # seconds for the process to end, once its search has
PINGS = 4  # pings within the searching timeout
TICKS = 10  # resolution of the timeout


class SearchProcess:
    """An EngineWorker in its own process. If the process ends unexpectedly, or hangs and is killed, its last event is
    `WorkerLost`."""

    def __init__(
        self, config: WorkerConfig, style: LogFormat, timeouts: Timeouts, emit: Callable[[Event], None]
    ) -> None:
        """`emit` is called with every event, in a thread of this process."""
        self._emit = emit
        self._timeouts = timeouts
        self._pong_received = threading.Event()  # since the last ping
        self._silent_ticks = 0  # since the last ping, in ticks
        self._stopping = False
        self._kill_reason: str | None = None  # why `_monitor` killed the process
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
            # Otherwise a service that ends without `stop` would wait for the process forever.
            atexit.register(self._process.kill)
            self._writer.start()
            threading.Thread(target=self._read, name=f"from {device}", daemon=True).start()
            threading.Thread(target=self._monitor, name=f"watches {device}", daemon=True).start()
        except BaseException:  # no file descriptor or thread left: clean up
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
        """None: this class detects hangs itself."""

    @property
    def location(self) -> str:
        return f"process {self.pid}"

    def start(self) -> None:
        """Does nothing: the process runs since `__init__`."""

    def load(self, model: int, translator: Translator) -> Explanation:
        """The process opens the translator again by its reference; this one may have no weights."""
        future: Future[Explanation] = Future()
        with self._loading:
            if not self.alive:
                raise self._lost_error()
            self._loads[model] = future
        reverse = translator.reverse
        self.send(LoadModel(model, translator.reference, reverse.reference if reverse else None))
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
        """Thread that sends the commands, because sending to a full pipe blocks."""
        while True:
            command = self._commands.get()
            try:
                self._pipe.send(command)
            except OSError:  # the process has ended, which `_read` handles
                return
            if isinstance(command, Stop):
                return

    def _read(self) -> None:
        """Thread that receives events until the process ends for any reason."""
        try:
            while True:
                match self._pipe.recv():
                    case ModelLoaded() as message:
                        self._on_model_loaded(message)
                    case Pong():
                        self._pong_received.set()
                    case message if self.alive:  # events after the loss are dropped
                        self._emit(message)
        except (EOFError, OSError):
            pass
        finally:
            self._process.kill()
            self._process.join()
            atexit.unregister(self._process.kill)
            self._fail_pending()
            self.send(Stop())
            self._writer.join()
            self._pipe.close()

    def _monitor(self) -> None:
        """Thread that pings the search, and kills the process when it does not reply in time.

        Everything pending fails at once, before the reader sees the end of the process: a device's driver may keep a
        killed process alive for long.
        """
        tick, starting = self._timeouts.searching / TICKS, True
        while not self._ended.wait(self._timeouts.searching / PINGS):
            self._pong_received.clear()
            self._silent_ticks = 0
            self.send(Ping())
            while not self._pong_received.wait(tick):
                with self._loading:
                    self._silent_ticks += 1  # not seconds: time in which this process was suspended does not count
                    allowed = self._timeouts.loading if starting or self._loads else self._timeouts.searching
                if self._silent_ticks * tick >= allowed:
                    self._kill_reason = f"it was silent for {allowed:g} s, and killed"
                    self._process.kill()
                    self._fail_pending()
                    return
            starting = False

    def _fail_pending(self) -> None:
        """Fail all pending loads and emit `WorkerLost`, once."""
        with self._loading:
            if not self.alive:
                return
            self._ended.set()
            pending = list(self._loads.values())
        self._pong_received.set()  # ends `_monitor`'s wait
        for future in pending:
            future.set_exception(self._lost_error())
        if not self._stopping:
            self._emit(WorkerLost(self._kill_reason or f"exit code {self._process.exitcode}"))

    def _on_model_loaded(self, message: ModelLoaded) -> None:
        with self._loading:
            if not self.alive:
                return
            future = self._loads.pop(message.model)
            self._silent_ticks = 0  # the shorter timeout starts now
        if isinstance(message.outcome, InterlinearError):
            future.set_exception(message.outcome)
        else:
            future.set_result(message.outcome)


# Code that runs in the worker process.


def run_worker(
    pipe: "Connection[Event | ModelLoaded, Command | LoadModel | Stop]", config: WorkerConfig, style: LogFormat
) -> None:
    """Main function of the worker process: execute commands from the pipe until it closes."""
    for ending in (signal.SIGINT, signal.SIGTERM):  # signals to the whole process group are for the service itself
        signal.signal(ending, signal.SIG_IGN)
    keep_freed_memory()
    service_logging.configure(style, access=False)
    shorten_pauses()
    send_lock = threading.Lock()

    def emit(message: Event | ModelLoaded) -> None:
        if isinstance(message, WorkerLost):  # the service emits WorkerLost itself, once this process has ended
            log.error("the search has ended: %s", message.reason)
            os._exit(1)
        try:
            with send_lock:
                pipe.send(message)
        except OSError:  # the service has ended
            os._exit(1)
        if isinstance(message, SearchFailed) and config.device != "cpu":
            check_device_alive(config.device)

    search = SearchThread(emit, config.threads, config.warm_up_texts)
    search.start()
    while True:
        try:
            command = pipe.recv()
        except (EOFError, OSError):
            break
        match command:
            case Stop():
                break
            case LoadModel():  # in parallel with the search and its commands
                threading.Thread(
                    target=lambda command=command: emit(load_model(command, config, search)), daemon=True
                ).start()
            case _:
                search.send(command)
    search.stop(STOP_TIMEOUT)
    os._exit(0)  # at once: a thread that still loads a model would crash in interpreter shutdown


def load_model(command: LoadModel, config: WorkerConfig, search: SearchThread) -> ModelLoaded:
    """Load a model, and return the reply."""
    device = config.device
    try:
        check_device(device)
        translator = open_translator(command.translator, device, config.precision, config.compile)
        if command.reverse:
            reverse = open_translator(command.reverse, device, config.precision)  # it only decodes given texts
            translator = translator.with_reverse(reverse, f"the reverse model in {command.reverse.folder}")
        outcome = search.load(command.model, translator)
    except InterlinearError as error:
        return ModelLoaded(command.model, error)
    except Exception as error:
        folder = command.translator.folder
        log.error("%s cannot be loaded on %s: %s", folder, device, exception_location(error))
        return ModelLoaded(command.model, ServiceError(str(folder), f"cannot be loaded on {device}", "see the log"))
    return ModelLoaded(command.model, outcome)


def check_device_alive(device: str) -> None:
    """End the process if its device is unusable: after some errors, a GPU rejects all further work of the process."""
    try:
        torch.ones(1, device=device).sum().item()
    except RuntimeError as error:
        log.error("%s takes no more work: %s", device, exception_location(error))
        os._exit(1)
