"""The group of processes that train together: a single process, or a group under torch.distributed."""

import os
import pickle
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from types import FrameType
from typing import Any, Protocol, TypeVar

import torch
from torch import Tensor

from interlinear.errors import InterlinearError, TrainingError
from training.loop.shared_memory import SharedMemoryBuffers, allocate_shared_buffers

T = TypeVar("T")

# Seconds that a worker waits for the others in a collective. Longer than any of them saves or searches while others
# wait, and longer than a network outage that is worth waiting for.
COLLECTIVE_TIMEOUT = float(os.environ.get("INTERLINEAR_COLLECTIVE_SECONDS") or 300)
POLL_SECONDS = 2e-5, 1e-3  # seconds between two checks whether a collective is done: shortest, longest
NO_WAIT = timedelta(milliseconds=1)


class WorkerLostError(TrainingError):
    """Other workers did not take part in a collective. Under Ray the worker group is restarted."""


class ProcessGroup(Protocol):
    """The collectives and requests that the training loop needs from the processes that it shares its work with."""

    rank: int
    world_size: int

    def buffer(self, count: int, device: torch.device) -> Tensor:
        """An uninitialised float32 tensor of `count` elements, in memory for which `all_reduce` is fastest. All workers
        call it together."""

    def all_reduce(self, tensor: Tensor, enqueue: bool = False) -> "Collective | None":
        """Replace the tensor by its sum over all workers.

        With `enqueue` the host does not wait: the tensor's device computes the sum before anything that it is given
        later, and the returned Collective waits for it. None: the sum is done.
        """

    def broadcast(self, tensor: Tensor) -> None:
        """Replace the tensor, which is on the CPU, by rank 0's."""

    def all_gather(self, item: Any) -> list[Any]:
        """Every worker's item, by rank, at every worker."""

    def stop_requested(self) -> int:
        """The signal that asked this worker to stop, or 0."""

    def save_requested(self) -> bool:
        """Whether a state shall be saved now; true once for every request."""

    def confirm_saved(self) -> None:
        """Confirm that every requested state is stored where a new worker group would find it."""


class Collective:
    """A collective that this worker has started."""

    def __init__(self, group: "TorchProcessGroup", start: Callable[[], torch.distributed.Work | None]) -> None:
        self.group, self.start_time = group, time.monotonic()
        try:
            work = start()
        except (torch.distributed.DistError, ValueError) as error:
            # Ray Train destroys the group of the remaining workers when one has ended: then there is none any more.
            if isinstance(error, ValueError) and torch.distributed.is_initialized():
                raise
            raise group.worker_lost_error(self.seconds) from error
        assert work is not None
        self.work = work

    @property
    def seconds(self) -> float:
        """Seconds since the start."""
        return time.monotonic() - self.start_time

    def wait_on_device(self) -> None:
        """Make all later work of a GPU's stream wait for the result; on a CPU, wait for it."""
        # `work.wait` would make the host wait too, under TORCH_NCCL_BLOCKING_WAIT.
        with self.lost_workers():
            self.work.get_future().wait()

    def wait(self) -> None:
        """Wait until the collective is done at this worker, at most for the group's timeout since its start.

        One that takes too long is abandoned: NCCL's communicator is aborted with it; gloo's runs into the group's
        timeout in its own thread.
        """
        with self.lost_workers():
            while not self.work.is_completed() and self.seconds < self.group.timeout:
                time.sleep(min(max(self.seconds / 20, POLL_SECONDS[0]), POLL_SECONDS[1]))
            # raises the collective's error, and a timeout error; NCCL raises the latter only with blocking wait
            self.work.wait(NO_WAIT)
            if not self.work.is_completed():
                raise self.group.worker_lost_error(self.seconds)

    @contextmanager
    def lost_workers(self) -> Iterator[None]:
        """Raise the collective's own errors as WorkerLostError."""
        try:
            yield
        except torch.AcceleratorError:  # this worker's own device failed
            raise
        except RuntimeError as error:
            raise self.group.worker_lost_error(self.seconds) from error


class SingleProcess:
    """A single process. `install_signal_handlers` makes SIGINT and SIGTERM stop requests, which the loop polls between
    updates."""

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
        signal.signal(number, signal.SIG_DFL)  # a second signal ends the process at once

    def buffer(self, count: int, device: torch.device) -> Tensor:
        return torch.empty(count, device=device)

    def all_reduce(self, tensor: Tensor, enqueue: bool = False) -> None:
        """No other workers to sum over."""

    def broadcast(self, tensor: Tensor) -> None:
        """The tensor is already rank 0's."""

    def all_gather(self, item: Any) -> list[Any]:
        return [item]

    def stop_requested(self) -> int:
        return self.signal

    def save_requested(self) -> bool:
        return False

    def confirm_saved(self) -> None:
        """Nothing requests a save."""


class TorchProcessGroup:
    """The default process group of torch.distributed, already initialised (by Ray Train or torchrun).

    Tensors on the CPU are summed and gathered by gloo, tensors on a GPU by NCCL. Every collective is waited for at most
    `timeout` seconds, and the group's own timeout must not be shorter. NCCL needs TORCH_NCCL_BLOCKING_WAIT, since
    torch's watchdog ends the process otherwise. Methods raise WorkerLostError.
    """

    def __init__(self, timeout: float = COLLECTIVE_TIMEOUT) -> None:
        self.rank = torch.distributed.get_rank()
        self.world_size = torch.distributed.get_world_size()
        self.timeout = timeout
        self.shared: SharedMemoryBuffers | None = None

    def buffer(self, count: int, device: torch.device) -> Tensor:
        """In shared memory where the workers compute on the CPUs of one machine."""
        if device.type == "cpu" and self.world_size > 1:
            self.shared = allocate_shared_buffers(self.rank, self.world_size, count, self.all_gather, self.barrier)
        else:
            self.barrier()  # NCCL connects in the first sum, which then blocks until all workers take part
        return self.shared.local if self.shared else torch.empty(count, device=device)

    def all_reduce(self, tensor: Tensor, enqueue: bool = False) -> Collective | None:
        if self.shared and tensor is self.shared.local:
            self.shared.all_reduce()
            return None
        collective = Collective(self, lambda: torch.distributed.all_reduce(tensor, async_op=True))
        if enqueue:
            collective.wait_on_device()
            return collective
        collective.wait()
        return None

    def broadcast(self, tensor: Tensor) -> None:
        self.run_collective(lambda: torch.distributed.broadcast(tensor, 0, async_op=True))

    def all_gather(self, item: Any) -> list[Any]:
        payload = torch.frombuffer(bytearray(pickle.dumps(item)), dtype=torch.uint8)
        sizes = [torch.empty(1, dtype=torch.int64) for _ in range(self.world_size)]
        self.run_collective(lambda: torch.distributed.all_gather(sizes, torch.tensor([len(payload)]), async_op=True))
        longest = max(map(int, sizes))
        padded = torch.cat([payload, torch.zeros(longest - len(payload), dtype=torch.uint8)])
        items = [torch.empty_like(padded) for _ in sizes]
        self.run_collective(lambda: torch.distributed.all_gather(items, padded, async_op=True))
        return [
            pickle.loads(received[: int(size)].numpy().tobytes()) for received, size in zip(items, sizes, strict=True)
        ]

    def barrier(self) -> None:
        """Wait until all workers have called it."""
        self.run_collective(lambda: torch.distributed.all_reduce(torch.zeros(1), async_op=True))

    def run_collective(self, start: Callable[[], torch.distributed.Work | None]) -> None:
        """Start a collective and wait until it is done at this worker."""
        Collective(self, start).wait()

    def worker_lost_error(self, seconds: float) -> WorkerLostError:
        """The error for a collective that failed after `seconds` seconds."""
        where = f"rank {self.rank}"
        problem = f"another of the {self.world_size} workers took no part in a sum, within {seconds:.0f} s"
        return WorkerLostError(where, problem, "check that worker, then go on with --resume")

    def stop_requested(self) -> int:
        return 0

    def save_requested(self) -> bool:
        return False

    def confirm_saved(self) -> None:
        """Nothing requests a save."""


def broadcast_from_rank_0(
    workers: ProcessGroup, read: Callable[[], tuple[T, dict[str, Tensor]]]
) -> tuple[T, dict[str, Tensor]]:
    """Read at rank 0 and broadcast to every worker: a picklable item, and tensors on the CPU by name, bit for bit.

    All workers call it together. Only one worker reads, so that no two resume from different files. An InterlinearError
    that `read` raises is raised at every worker.
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
