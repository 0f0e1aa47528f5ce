"""Events that a worker sends to the driver, pickled, through the control actor."""

from dataclasses import dataclass

from seq2seq.errors import InterlinearError
from training.events import EpochReport, Outcome, StartReport, StepReport


@dataclass(frozen=True)
class WorkerWarning:
    """A warning for the observers."""

    message: str


@dataclass(frozen=True)
class WorkerFailed:
    """A worker ended with an expected error, which a restart would not avoid."""

    error: InterlinearError


@dataclass(frozen=True)
class WorkerCrashed:
    """A worker ended with an unexpected error."""

    error: str  # its repr
    traceback: str


WorkerEvent = StartReport | StepReport | EpochReport | Outcome | WorkerWarning | WorkerFailed | WorkerCrashed
