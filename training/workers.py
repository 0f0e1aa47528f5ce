"""The processes that train together: one alone, or a group under torch.distributed."""

import signal
from types import FrameType
from typing import Any, Protocol

import torch
from torch import Tensor

from training.shared_memory import SharedBuffers, shared_buffers


class Workers(Protocol):
    """What the loop needs of the processes that it shares its work with."""

    rank: int
    world: int

    def buffer(self, count: int, device: torch.device) -> Tensor:
        """So many float32, nothing in them yet, in the place where `sum_` is fastest. All workers ask together."""

    def sum_(self, tensor: Tensor) -> None:
        """Replace the tensor by its sum over all workers."""

    def gather(self, item: Any) -> list[Any]:
        """Every worker's item, by rank, at every worker."""

    def asked_to_stop(self) -> int:
        """The signal by which this worker was asked to stop, or 0."""

    def asked_to_save(self) -> bool:
        """Whether a state shall be saved now, once for each time that somebody wished it."""

    def have_saved(self) -> None:
        """Whatever state was asked for is where a new group would find it."""


class Alone:
    """One process. `listen` turns SIGINT and SIGTERM into a wish that the loop sees between two updates."""

    rank = 0
    world = 1

    def __init__(self) -> None:
        self.signal = 0

    def listen(self) -> "Alone":
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, self.heard)
        return self

    def heard(self, number: int, _frame: FrameType | None) -> None:
        self.signal = number
        signal.signal(number, signal.SIG_DFL)  # a second one ends the process at once

    def buffer(self, count: int, device: torch.device) -> Tensor:
        return torch.empty(count, device=device)

    def sum_(self, tensor: Tensor) -> None:
        """Nothing to add."""

    def gather(self, item: Any) -> list[Any]:
        return [item]

    def asked_to_stop(self) -> int:
        return self.signal

    def asked_to_save(self) -> bool:
        return False

    def have_saved(self) -> None:
        """Nobody asks."""


class Group:
    """The default process group of torch.distributed, which is up (Ray Train or torchrun started it)."""

    def __init__(self) -> None:
        self.rank = torch.distributed.get_rank()
        self.world = torch.distributed.get_world_size()
        self.shared: SharedBuffers | None = None

    def buffer(self, count: int, device: torch.device) -> Tensor:
        """In memory that the workers share, where they are on one machine and compute on its processors."""
        if device.type == "cpu" and self.world > 1:
            self.shared = shared_buffers(self.rank, self.world, count, self.gather)
        return self.shared.mine if self.shared else torch.empty(count, device=device)

    def sum_(self, tensor: Tensor) -> None:
        if self.shared and tensor is self.shared.mine:
            self.shared.sum_()
        else:
            torch.distributed.all_reduce(tensor)

    def gather(self, item: Any) -> list[Any]:
        items: list[Any] = [None] * self.world
        torch.distributed.all_gather_object(items, item)
        return items

    def asked_to_stop(self) -> int:
        return 0

    def asked_to_save(self) -> bool:
        return False

    def have_saved(self) -> None:
        """Nobody asks."""
