"""What stands between the driver and its workers: news one way; the other way the wish to stop, and to save."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

POLL_SECONDS = 0.5  # seconds between two letters, and between two looks into the mailbox


@dataclass(frozen=True)
class ControlRequests:
    """What the workers are asked for: to stop, by the signal that the driver has received, and to save: how often."""

    signal: int = 0
    saves: int = 0


@dataclass(frozen=True)
class ControlStatus:
    """What the driver finds: letters, where Ray Train stands, and how often and why a group of workers has failed."""

    event_batches: list[bytes]
    state: str = ""
    failures: int = 0
    reason: str = ""
    details: str = ""


class ControlActor:
    """Lives in a process of its own. Letters are pickled at the sender: what they speak of is not needed here."""

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
        """Ray Train's controller is this actor."""
        self.controller = controller

    def get_controller(self) -> Any:
        """That actor; None until it has begun."""
        return self.controller

    def register_worker(self, rank: int, location: str) -> int:
        """A worker of this rank begins, in a process there; returns how many did so far, this one included."""
        self.starts[rank] = self.starts.get(rank, 0) + 1
        self.locations[rank] = location
        self.lost_reports.clear()
        return self.starts[rank]

    def send_events(self, batch: bytes, saved: int = 0) -> ControlRequests:
        """Leave a letter, and say which wish to save has been met; returns all wishes."""
        self.event_batches.append(batch)
        self.saved = max(self.saved, saved)
        return self.requests

    def report_lost(self, rank: int, world_size: int, seconds: float) -> None:
        """A worker's colleagues have failed it in a sum, after so long."""
        self.lost_reports[rank], self.world_size = seconds, world_size

    def describe_lost(self) -> str:
        """Who it is that does not say so: a sum's connections fail everywhere, and torch names no rank."""
        if not self.lost_reports:
            return ""
        others = [rank for rank in range(self.world_size) if rank not in self.lost_reports]
        ranks = self.describe_ranks(others)
        seconds = max(self.lost_reports.values())
        what = f"{ranks} took no part" if others else "the network failed"
        return f"{what} in a sum over {self.world_size} workers, within {seconds:.0f} s"

    def request_save(self) -> int:
        """Wish that a state is saved; returns the wish's number."""
        self.requests = ControlRequests(self.requests.signal, self.requests.saves + 1)
        return self.requests.saves

    def get_saved(self) -> int:
        """The newest wish that has been met."""
        return self.saved

    def describe_ranks(self, ranks: Iterable[int]) -> str:
        """Ranks, and where each is."""
        return " and ".join(f"rank {rank} ({self.locations.get(rank, 'never begun')})" for rank in ranks)

    def set_state(self, state: str) -> None:
        """Ray Train has come to another state."""
        self.state = state

    def report_failure(self, dead: Sequence[int], reason: str, details: str) -> None:
        """A group of workers has failed: these have died; what Ray says of the others, in a line, and all of it."""
        self.failures, self.details = self.failures + 1, details
        self.reason = (
            f"{self.describe_ranks(dead)} {'has' if len(dead) == 1 else 'have'} died"
            if dead
            else self.describe_lost() or reason
        )

    def poll(self, signal: int) -> ControlStatus:
        """Take all letters, and leave the signal that the driver has received."""
        self.requests = ControlRequests(signal, self.requests.saves)
        event_batches, self.event_batches = self.event_batches, []
        return ControlStatus(event_batches, self.state, self.failures, self.reason, self.details)
