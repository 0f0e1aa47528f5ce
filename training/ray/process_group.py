"""Ray's workers among themselves: their sums, and who of them is missing when one does not come about."""

import time
from typing import Any, Protocol

from training.loop import process_group
from training.loop.process_group import WorkerLostError
from training.ray.control import ControlRequests

REPORT_GRACE_SECONDS = 3.0  # seconds within which all whom a colleague has failed say so


class ControlChannel(Protocol):
    """A worker's end of the mailbox."""

    requests: ControlRequests
    saved: int

    def flush(self) -> None: ...

    def send(self, event: str, *values: object) -> None: ...

    def call(self, what: str, *values: object) -> Any: ...


class RayProcessGroup(process_group.TorchProcessGroup):
    """Ray's workers. Rank 0 looks into the mailbox; the loop tells the others when all shall stop."""

    def __init__(self, client: ControlChannel, timeout: float) -> None:
        super().__init__(timeout)
        self.client = client
        self.saved_request = 0  # the newest wish to save that has been heard

    def stop_requested(self) -> int:
        if self.rank == 0:
            self.client.flush()
        return self.client.requests.signal

    def save_requested(self) -> bool:
        new = self.client.requests.saves > self.saved_request
        self.saved_request = self.client.requests.saves
        return new

    def confirm_saved(self) -> None:
        self.client.saved = self.saved_request  # the next letter says so

    def worker_lost_error(self, seconds: float) -> WorkerLostError:
        """Those who are left say so, and the mailbox knows who is not: torch names no rank."""
        self.client.call("report_lost", self.rank, self.world_size, seconds)
        time.sleep(REPORT_GRACE_SECONDS)
        return WorkerLostError(f"rank {self.rank}", self.client.call("describe_lost"), "see to that node")
