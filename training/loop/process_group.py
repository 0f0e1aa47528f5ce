"""The processes that train together: one alone, or a group under torch.distributed."""

import os
import pickle
import signal
import time
from collections.abc import Callable
from datetime import timedelta
from types import FrameType
from typing import Any, Protocol, TypeVar

import torch
from torch import Tensor

from seq2seq.errors import InterlinearError, TrainingError
from training.loop.shared_memory import SharedBuffers, shared_buffers

T = TypeVar("T")

# Seconds that a worker waits for the others in a collective. Longer than any of them saves or searches while others
# wait, longer than a network is cut that is worth waiting for.
PATIENCE = float(os.environ.get("INTERLINEAR_COLLECTIVE_SECONDS") or 300)
PAUSES = 2e-5, 1e-3  # seconds between two looks whether a collective is done: the shortest, the longest
NOW = timedelta(milliseconds=1)


class LostColleagueError(TrainingError):
    """A worker has waited in vain for others. Not the end under Ray, which starts the group again."""


class Workers(Protocol):
    """What the loop needs of the processes that it shares its work with."""

    rank: int
    world: int

    def buffer(self, count: int, device: torch.device) -> Tensor:
        """So many float32, nothing in them yet, in the place where `sum_` is fastest. All workers ask together."""

    def sum_(self, tensor: Tensor) -> None:
        """Replace the tensor by its sum over all workers."""

    def broadcast_(self, tensor: Tensor) -> None:
        """Replace the tensor, which is on the CPU, by rank 0's."""

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

    def broadcast_(self, tensor: Tensor) -> None:
        """It is rank 0's."""

    def gather(self, item: Any) -> list[Any]:
        return [item]

    def asked_to_stop(self) -> int:
        return self.signal

    def asked_to_save(self) -> bool:
        return False

    def have_saved(self) -> None:
        """Nobody asks."""


class Group:
    """The default process group of torch.distributed, which is up (Ray Train or torchrun started it).

    Tensors on the CPU are summed and gathered by gloo, those of a GPU by NCCL. Every collective is waited for at most
    `patience` seconds, which the group's own timeout must not undercut; under NCCL with TORCH_NCCL_BLOCKING_WAIT, since
    torch's watchdog ends the process otherwise. Methods raise LostColleagueError.
    """

    def __init__(self, patience: float = PATIENCE) -> None:
        self.rank = torch.distributed.get_rank()
        self.world = torch.distributed.get_world_size()
        self.patience = patience
        self.shared: SharedBuffers | None = None

    def buffer(self, count: int, device: torch.device) -> Tensor:
        """In memory that the workers share, where they are on one machine and compute on its processors."""
        if device.type == "cpu" and self.world > 1:
            self.shared = shared_buffers(self.rank, self.world, count, self.gather, self.meet)
        else:
            self.meet()  # NCCL connects in the first sum, for which the call itself waits: all are about to make it
        return self.shared.mine if self.shared else torch.empty(count, device=device)

    def sum_(self, tensor: Tensor) -> None:
        if self.shared and tensor is self.shared.mine:
            self.shared.sum_()
        else:
            self.finish(lambda: torch.distributed.all_reduce(tensor, async_op=True))

    def broadcast_(self, tensor: Tensor) -> None:
        self.finish(lambda: torch.distributed.broadcast(tensor, 0, async_op=True))

    def gather(self, item: Any) -> list[Any]:
        own = torch.frombuffer(bytearray(pickle.dumps(item)), dtype=torch.uint8)
        sizes = [torch.empty(1, dtype=torch.int64) for _ in range(self.world)]
        self.finish(lambda: torch.distributed.all_gather(sizes, torch.tensor([len(own)]), async_op=True))
        longest = max(map(int, sizes))
        padded = torch.cat([own, torch.zeros(longest - len(own), dtype=torch.uint8)])
        items = [torch.empty_like(padded) for _ in sizes]
        self.finish(lambda: torch.distributed.all_gather(items, padded, async_op=True))
        return [pickle.loads(one[: int(size)].numpy().tobytes()) for one, size in zip(items, sizes, strict=True)]

    def meet(self) -> None:
        """Wait until all workers are here."""
        self.finish(lambda: torch.distributed.all_reduce(torch.zeros(1), async_op=True))

    def finish(self, begin: Callable[[], torch.distributed.Work | None]) -> None:
        """Begin a collective, and wait until it is done here.

        One that takes too long is given up: NCCL's communicator is aborted with it, gloo's runs into the group's
        timeout in its own thread.
        """
        began = time.monotonic()
        try:
            work = begin()
        except torch.distributed.DistError as error:
            raise self.lost(time.monotonic() - began) from error
        assert work is not None
        try:
            while not work.is_completed() and (waited := time.monotonic() - began) < self.patience:
                time.sleep(min(max(waited / 20, PAUSES[0]), PAUSES[1]))
            work.wait(NOW)  # raises what it failed by, and for a timeout; NCCL does the latter only where it may block
            if not work.is_completed():
                raise self.lost(time.monotonic() - began)
        except torch.AcceleratorError:  # it is this worker's own
            raise
        except RuntimeError as error:
            raise self.lost(time.monotonic() - began) from error

    def lost(self, seconds: float) -> LostColleagueError:
        """The error for a collective that has failed after so long."""
        where = f"rank {self.rank}"
        problem = f"another of the {self.world} workers took no part in a sum, within {seconds:.0f} s"
        return LostColleagueError(where, problem, "see to it, then go on with --resume")

    def asked_to_stop(self) -> int:
        return 0

    def asked_to_save(self) -> bool:
        return False

    def have_saved(self) -> None:
        """Nobody asks."""


def read_by_rank_0(workers: Workers, read: Callable[[], tuple[T, dict[str, Tensor]]]) -> tuple[T, dict[str, Tensor]]:
    """What rank 0 reads, at every worker: an item that can be pickled, and tensors on the CPU by name, bit by bit.

    All workers call it together. One reader, so that no two go on from different files. An InterlinearError that
    `read` raises is raised by all.
    """
    item: T | None = None
    tensors: dict[str, Tensor] = {}
    failed: InterlinearError | None = None
    if workers.rank == 0:
        try:
            item, tensors = read()
        except InterlinearError as error:
            failed = error
    layout = {name: (tensor.shape, tensor.dtype) for name, tensor in tensors.items()}
    item, layout, failed = workers.gather((item, layout, failed))[0]
    if failed:
        raise failed
    if workers.rank != 0:
        tensors = {name: torch.empty(shape, dtype=dtype) for name, (shape, dtype) in layout.items()}
    for tensor in tensors.values():
        workers.broadcast_(tensor)
    assert item is not None
    return item, tensors
