"""All-reduce between workers on one machine through shared memory, without the network stack."""

import mmap
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any
from uuid import uuid4

import torch

FOLDER = Path("/dev/shm")  # Linux's named shared memory
BLOCK = 1 << 17  # elements that are summed at once: two workers' elements fit into a core's cache


class SharedMemoryBuffers:
    """One buffer of `count` float32 per worker, all in one shared memory block. A worker writes to its own, `local`."""

    def __init__(self, memory: mmap.mmap, rank: int, world_size: int, count: int, barrier: Callable[[], None]) -> None:
        """`barrier` returns when all workers have called it."""
        all_WN = torch.frombuffer(memory, dtype=torch.float32).view(world_size, count)
        self.barrier = barrier
        self.local = all_WN[rank]
        self.part_WP = all_WN[:, rank * count // world_size : (rank + 1) * count // world_size]

    def all_reduce(self) -> None:
        """Replace every worker's buffer by the sum of all, added in the order of ranks. All workers call it together.

        Each worker sums its part of the elements for all. Raises what `barrier` raises where a worker does not arrive.
        """
        self.barrier()  # all workers have written
        for block_WB in torch.split(self.part_WP, BLOCK, dim=1):
            total_B = block_WB[0]
            for one_B in block_WB[1:]:
                total_B += one_B
            block_WB[1:] = total_B
        self.barrier()  # all parts are summed


def allocate_shared_buffers(
    rank: int, world_size: int, count: int, all_gather: Callable[[Any], list[Any]], barrier: Callable[[], None]
) -> SharedMemoryBuffers | None:
    """Buffers that all workers share; None at every worker where one is on another machine or memory is too small.

    `all_gather` gathers every worker's item at all workers; `barrier` returns when all have called it. The memory's
    name is removed once all workers have opened it, so the system frees the memory when the last of them ends, also
    after a crash.
    """
    size = 4 * world_size * count
    path = _create(FOLDER / f"interlinear-{uuid4().hex}", size) if rank == 0 else None
    try:
        path = all_gather(path)[0]
        memory = _open(path, size) if path else None
        everywhere = all(all_gather(memory is not None))
    finally:
        if rank == 0 and path:
            path.unlink()
    return SharedMemoryBuffers(memory, rank, world_size, count, barrier) if everywhere and memory else None


def _create(path: Path, size: int) -> Path | None:
    try:
        with path.open("xb") as file:
            os.posix_fallocate(file.fileno(), 0, size)  # fails now on a machine without enough memory
    except OSError:
        path.unlink(missing_ok=True)
        return None
    return path


def _open(path: Path, size: int) -> mmap.mmap | None:
    try:
        with path.open("r+b") as file:
            return mmap.mmap(file.fileno(), size)
    except OSError:
        return None
