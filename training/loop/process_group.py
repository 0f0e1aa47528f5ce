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
from training.loop.shared_memory import SharedMemoryBuffers, allocate_shared_buffers

T = TypeVar("T")

# Seconds that a worker waits for the others in a collective. Longer than any of them saves or searches while others
# wait, longer than a network is cut that is worth waiting for.
COLLECTIVE_TIMEOUT = float(os.environ.get("INTERLINEAR_COLLECTIVE_SECONDS") or 300)
POLL_SECONDS = 2e-5, 1e-3  # seconds between two looks whether a collective is done: the shortest, the longest
NO_WAIT = timedelta(milliseconds=1)


class WorkerLostError(TrainingError):
    """A worker has waited in vain for others. Not the end under Ray, which starts the group again."""


class ProcessGroup(Protocol):
    """What the loop needs of the processes that it shares its work with."""

    rank: int
    world_size: int

    def buffer(self, count: int, device: torch.device) -> Tensor:
        """So many float32, nothing in them yet, in the place where `all_reduce` is fastest. All workers ask together."""

    def all_reduce(self, tensor: Tensor) -> None:
        """Replace the tensor by its sum over all workers."""

    def broadcast(self, tensor: Tensor) -> None:
        """Replace the tensor, which is on the CPU, by rank 0's."""

    def all_gather(self, item: Any) -> list[Any]:
        """Every worker's item, by rank, at every worker."""

    def stop_requested(self) -> int:
        """The signal by which this worker was asked to stop, or 0."""

    def save_requested(self) -> bool:
        """Whether a state shall be saved now, once for each time that somebody wished it."""

    def confirm_saved(self) -> None:
        """Whatever state was asked for is where a new group would find it."""


class SingleProcess:
    """One process. `install_signal_handlers` turns SIGINT and SIGTERM into a wish that the loop sees between two updates."""

    rank = 0
    world_size = 1

    def __init__(self) -> None:
        self.signal = 0

    def install_signal_handlers(self) -> "SingleProcess":
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, self.handle_signal)
        return self

    def handle_signal(self, number: int, _frame: FrameType | None) -> None:
        self.signal = number
        signal.signal(number, signal.SIG_DFL)  # a second one ends the process at once

    def buffer(self, count: int, device: torch.device) -> Tensor:
        return torch.empty(count, device=device)

    def all_reduce(self, tensor: Tensor) -> None:
        """Nothing to add."""

    def broadcast(self, tensor: Tensor) -> None:
        """It is rank 0's."""

    def all_gather(self, item: Any) -> list[Any]:
        return [item]

    def stop_requested(self) -> int:
        return self.signal

    def save_requested(self) -> bool:
        return False

    def confirm_saved(self) -> None:
        """Nobody asks."""


class TorchProcessGroup:
    """The default process group of torch.distributed, which is up (Ray Train or torchrun started it).

    Tensors on the CPU are summed and gathered by gloo, those of a GPU by NCCL. Every collective is waited for at most
    `timeout` seconds, which the group's own timeout must not undercut; under NCCL with TORCH_NCCL_BLOCKING_WAIT, since
    torch's watchdog ends the process otherwise. Methods raise LostColleagueError.
    """

    def __init__(self, timeout: float = COLLECTIVE_TIMEOUT) -> None:
        self.rank = torch.distributed.get_rank()
        self.world_size = torch.distributed.get_world_size()
        self.timeout = timeout
        self.shared: SharedMemoryBuffers | None = None

    def buffer(self, count: int, device: torch.device) -> Tensor:
        """In memory that the workers share, where they are on one machine and compute on its processors."""
        if device.type == "cpu" and self.world_size > 1:
            self.shared = allocate_shared_buffers(self.rank, self.world_size, count, self.all_gather, self.barrier)
        else:
            self.barrier()  # NCCL connects in the first sum, for which the call itself waits: all are about to make it
        return self.shared.local if self.shared else torch.empty(count, device=device)

    def all_reduce(self, tensor: Tensor) -> None:
        if self.shared and tensor is self.shared.local:
            self.shared.all_reduce()
        else:
            self.run_collective(lambda: torch.distributed.all_reduce(tensor, async_op=True))

    def broadcast(self, tensor: Tensor) -> None:
        self.run_collective(lambda: torch.distributed.broadcast(tensor, 0, async_op=True))

    def all_gather(self, item: Any) -> list[Any]:
        own = torch.frombuffer(bytearray(pickle.dumps(item)), dtype=torch.uint8)
        sizes = [torch.empty(1, dtype=torch.int64) for _ in range(self.world_size)]
        self.run_collective(lambda: torch.distributed.all_gather(sizes, torch.tensor([len(own)]), async_op=True))
        longest = max(map(int, sizes))
        padded = torch.cat([own, torch.zeros(longest - len(own), dtype=torch.uint8)])
        items = [torch.empty_like(padded) for _ in sizes]
        self.run_collective(lambda: torch.distributed.all_gather(items, padded, async_op=True))
        return [pickle.loads(one[: int(size)].numpy().tobytes()) for one, size in zip(items, sizes, strict=True)]

    def barrier(self) -> None:
        """Wait until all workers are here."""
        self.run_collective(lambda: torch.distributed.all_reduce(torch.zeros(1), async_op=True))

    def run_collective(self, start: Callable[[], torch.distributed.Work | None]) -> None:
        """Begin a collective, and wait until it is done here.

        One that takes too long is given up: NCCL's communicator is aborted with it, gloo's runs into the group's
        timeout in its own thread.
        """
        began = time.monotonic()
        try:
            work = start()
        except torch.distributed.DistError as error:
            raise self.worker_lost_error(time.monotonic() - began) from error
        assert work is not None
        try:
            while not work.is_completed() and (waited := time.monotonic() - began) < self.timeout:
                time.sleep(min(max(waited / 20, POLL_SECONDS[0]), POLL_SECONDS[1]))
            work.wait(
                NO_WAIT
            )  # raises what it failed by, and for a timeout; NCCL does the latter only where it may block
            if not work.is_completed():
                raise self.worker_lost_error(time.monotonic() - began)
        except torch.AcceleratorError:  # it is this worker's own
            raise
        except RuntimeError as error:
            raise self.worker_lost_error(time.monotonic() - began) from error

    def worker_lost_error(self, seconds: float) -> WorkerLostError:
        """The error for a collective that has failed after so long."""
        where = f"rank {self.rank}"
        problem = f"another of the {self.world_size} workers took no part in a sum, within {seconds:.0f} s"
        return WorkerLostError(where, problem, "see to it, then go on with --resume")

    def stop_requested(self) -> int:
        return 0

    def save_requested(self) -> bool:
        return False

    def confirm_saved(self) -> None:
        """Nobody asks."""


def broadcast_from_rank_0(
    workers: ProcessGroup, read: Callable[[], tuple[T, dict[str, Tensor]]]
) -> tuple[T, dict[str, Tensor]]:
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
    item, layout, failed = workers.all_gather((item, layout, failed))[0]
    if failed:
        raise failed
    if workers.rank != 0:
        tensors = {name: torch.empty(shape, dtype=dtype) for name, (shape, dtype) in layout.items()}
    for tensor in tensors.values():
        workers.broadcast(tensor)
    assert item is not None
    return item, tensors
