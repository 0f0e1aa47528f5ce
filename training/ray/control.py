"""The events that a worker sends to the driver, pickled, and the actor that carries them there, and stop and save
requests back."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from interlinear.errors import InterlinearError
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


POLL_SECONDS = 0.5  # seconds between two batches of events from a worker, and between two polls by the driver


@dataclass(frozen=True)
class ControlRequests:
    """Requests to the workers: `signal`, the signal that the driver has received (0: none), asks them to stop; `saves`
    counts the save requests."""

    signal: int = 0
    saves: int = 0


@dataclass(frozen=True)
class ControlStatus:
    """The result of a poll: pickled batches of events, Ray Train's state, and the number and reason of worker
    failures."""

    event_batches: list[bytes]
    state: str = ""
    failures: int = 0
    reason: str = ""
    details: str = ""


class ControlActor:
    """Runs in a process of its own. Events are pickled by the sender, so this process need not import their classes."""

    def __init__(self) -> None:
        self.event_batches: list[bytes] = []
        self.starts: dict[int, int] = {}
        self.locations: dict[int, str] = {}
        self.lost_reports: dict[int, float] = {}
        self.world_size = 0
        self.requests = ControlRequests()
        self.saved = 0
        self.state, self.failures, self.reason, self.details = "", 0, "", ""
        self.controller: Any = None

    def set_controller(self, controller: Any) -> None:
        """Register Ray Train's controller, itself an actor."""
        self.controller = controller

    def get_controller(self) -> Any:
        """The controller's actor; None before it has started."""
        return self.controller

    def register_worker(self, rank: int, location: str) -> int:
        """A worker of this rank starts in a process at `location`; returns how many have started so far, this one
        included."""
        self.starts[rank] = self.starts.get(rank, 0) + 1
        self.locations[rank] = location
        self.lost_reports.clear()
        return self.starts[rank]

    def send_events(self, batch: bytes, saved: int = 0) -> ControlRequests:
        """Add a batch of events, and the number of the newest completed save request; returns the pending requests."""
        self.event_batches.append(batch)
        self.saved = max(self.saved, saved)
        return self.requests

    def report_lost(self, rank: int, world_size: int, seconds: float) -> None:
        """A worker reports that others did not take part in a sum, after `seconds` seconds."""
        self.lost_reports[rank], self.world_size = seconds, world_size

    def describe_lost(self) -> str:
        """Describes the workers that did not report a loss: a sum fails everywhere, and torch names no rank."""
        if not self.lost_reports:
            return ""
        others = [rank for rank in range(self.world_size) if rank not in self.lost_reports]
        ranks = self.describe_ranks(others)
        seconds = max(self.lost_reports.values())
        problem = f"{ranks} took no part" if others else "the network failed"
        return f"{problem} in a sum over {self.world_size} workers, within {seconds:.0f} s"

    def request_save(self) -> int:
        """Request that a state is saved; returns the request's number."""
        self.requests = ControlRequests(self.requests.signal, self.requests.saves + 1)
        return self.requests.saves

    def get_saved(self) -> int:
        """The newest completed save request."""
        return self.saved

    def describe_ranks(self, ranks: Iterable[int]) -> str:
        """Ranks with their locations."""
        return " and ".join(f"rank {rank} ({self.locations.get(rank, 'never begun')})" for rank in ranks)

    def set_state(self, state: str) -> None:
        """Set the state of Ray Train's controller."""
        self.state = state

    def report_failure(self, dead: Sequence[int], reason: str, details: str) -> None:
        """A worker group has failed. `dead`: ranks that have died; `reason`: Ray's error of the others in one line;
        `details`: the whole error."""
        self.failures, self.details = self.failures + 1, details
        self.reason = (
            f"{self.describe_ranks(dead)} {'has' if len(dead) == 1 else 'have'} died"
            if dead
            else self.describe_lost() or reason
        )

    def poll(self, signal: int) -> ControlStatus:
        """Take all events, and pass on the signal that the driver has received (0: none)."""
        self.requests = ControlRequests(signal, self.requests.saves)
        event_batches, self.event_batches = self.event_batches, []
        return ControlStatus(event_batches, self.state, self.failures, self.reason, self.details)
