"""Messages between the engine and its workers, and the interface of a worker.

Commands and events are plain data, the same for a worker in the service's process or in another.
"""

from dataclasses import dataclass
from typing import Protocol

from interlinear.config import CompileChoice, Precision
from interlinear.errors import InterlinearError, ServiceError
from interlinear.explanation import Explanation
from interlinear.generation.request import EncodedRequest, GenerationResult
from interlinear.generation.translator import Translator, TranslatorReference


@dataclass(frozen=True)
class EngineRequest:
    """A text to search: its model, whether to stream partial results, and the callers who wait for it."""

    number: int
    model: int
    row: EncodedRequest
    streamed: bool
    callers: tuple[str, ...] = ("",)


@dataclass(frozen=True)
class Add:
    """Queue these texts."""

    texts: tuple[EngineRequest, ...]


@dataclass(frozen=True)
class StreamOutputs:
    """Report partial results of these texts from now on."""

    numbers: frozenset[int]


@dataclass(frozen=True)
class AddCaller:
    """These texts are for this caller too."""

    numbers: frozenset[int]
    caller: str


@dataclass(frozen=True)
class Abort:
    """Stop searching these texts: no request waits for them any more."""

    numbers: frozenset[int]


@dataclass(frozen=True)
class UnloadModel:
    """Drop a model that will not be used again."""

    model: int


@dataclass(frozen=True)
class Ping:
    """Reply with `Pong` between two steps."""


Command = Add | StreamOutputs | AddCaller | Abort | UnloadModel | Ping


@dataclass(frozen=True)
class Scheduled:
    """These texts got slots."""

    numbers: tuple[int, ...]


@dataclass(frozen=True)
class EngineOutputs:
    """Results of a model's texts, and counts since the last report."""

    model: int
    searching: int
    steps: int
    texts: int
    source_positions: int
    padding_positions: int
    prefixes: dict[int, list[int]]  # final beginnings of unfinished results
    answers: tuple[tuple[int, GenerationResult], ...]


@dataclass(frozen=True)
class SearchFailed:
    """The search of these texts raised an exception at this location of the code."""

    model: int
    numbers: tuple[int, ...]
    location: str


@dataclass(frozen=True)
class Pong:
    """Reply to `Ping`."""


@dataclass(frozen=True)
class WorkerLost:
    """The worker has ended, and all of its state is lost."""

    reason: str


Event = Scheduled | EngineOutputs | SearchFailed | Pong | WorkerLost


class WorkerLostError(ServiceError):
    """The worker has ended before it completed the call."""


class EngineWorker(Protocol):
    """A worker that searches texts for the engine: it takes commands, and emits events in a thread of its own."""

    @property
    def alive(self) -> bool: ...

    @property
    def pid(self) -> int:
        """The process in which it searches."""

    @property
    def heartbeats(self) -> int | None:
        """A counter that increases between steps and while idle; if it stops, the worker hangs. None if the worker
        detects hangs itself."""

    @property
    def location(self) -> str:
        """The location in the code that it executes at this moment."""

    def start(self) -> None: ...

    def load(self, model: int, translator: Translator) -> Explanation:
        """Load a model under this number, and warm it up; returns an example of its explanations. May run in any
        thread, in parallel with the search. Raises InterlinearError, WorkerLostError."""

    def send(self, command: Command) -> None:
        """Never blocks, and may be called from anywhere, including finalizers that the garbage collector runs."""

    def stop(self, seconds: float) -> None:
        """Stop within this many seconds, without finishing searches."""


# Messages of worker processes only.


@dataclass(frozen=True)
class Timeouts:
    """Seconds without a reply from the search after which its process counts as hung."""

    searching: float
    loading: float  # while the process starts or loads a model: compilation and warm-up may block the device


@dataclass(frozen=True)
class WorkerConfig:
    """Device, precision, compilation, threads and warm-up of a worker process."""

    device: str
    precision: Precision
    threads: int | None  # for torch
    warm_up_texts: int  # numbers of texts up to this one take a step before a model is loaded, on a CPU
    compile: CompileChoice = "off"


@dataclass(frozen=True)
class LoadModel:
    """Command: open a translator under this number, and with it its reverse translator."""

    model: int
    translator: TranslatorReference
    reverse: TranslatorReference | None = None


@dataclass(frozen=True)
class ModelLoaded:
    """Reply to `LoadModel`."""

    model: int
    outcome: Explanation | InterlinearError


@dataclass(frozen=True)
class Stop:
    """Command: end, without finishing searches."""
