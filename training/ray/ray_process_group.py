"""Process group of Ray's workers; reports through the control actor which of them is missing when a collective
fails."""

import time
from typing import Protocol

from training.loop import process_group
from training.loop.process_group import WorkerLostError
from training.ray.control import ControlRequests

REPORT_GRACE_SECONDS = 3.0  # seconds in which all affected workers report the loss


class ControlChannel(Protocol):
    """A worker's connection to the control actor."""

    requests: ControlRequests
    saved: int

    def flush(self) -> None: ...

    def report_lost(self, rank: int, world_size: int, seconds: float) -> None: ...

    def describe_lost(self) -> str: ...


class RayProcessGroup(process_group.TorchProcessGroup):
    """Ray's workers. Rank 0 polls the control actor; the training loop tells the other ranks to stop."""

    def __init__(self, client: ControlChannel, timeout: float) -> None:
        super().__init__(timeout)
        self.client = client
        self.saved_request = 0  # the newest save request that was received

    def stop_requested(self) -> int:
        if self.rank == 0:
            self.client.flush()
        return self.client.requests.signal

    def save_requested(self) -> bool:
        new = self.client.requests.saves > self.saved_request
        self.saved_request = self.client.requests.saves
        return new

    def confirm_saved(self) -> None:
        self.client.saved = self.saved_request  # sent with the next batch of events

    def worker_lost_error(self, seconds: float) -> WorkerLostError:
        """Every remaining worker reports the loss; the control actor knows who is missing, since torch names no
        rank."""
        self.client.report_lost(self.rank, self.world_size, seconds)
        time.sleep(REPORT_GRACE_SECONDS)
        return WorkerLostError(f"rank {self.rank}", self.client.describe_lost(), "see to that node")
