"""Sums over workers of one machine, in memory that all of them see: nothing passes through the network's stack."""

import mmap
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any
from uuid import uuid4

import torch

FOLDER = Path("/dev/shm")  # Linux's memory that has names
BLOCK = 1 << 17  # numbers that are summed at once: those of two workers stay in a core's cache


class SharedMemoryBuffers:
    """A buffer of `count` float32 for each worker, in one piece of memory. A worker writes to its own, `local`."""

    def __init__(self, memory: mmap.mmap, rank: int, world_size: int, count: int, barrier: Callable[[], None]) -> None:
        """`barrier` returns when all workers have called it."""
        all_WN = torch.frombuffer(memory, dtype=torch.float32).view(world_size, count)
        self.barrier = barrier
        self.local = all_WN[rank]
        self.part_WP = all_WN[:, rank * count // world_size : (rank + 1) * count // world_size]

    def all_reduce(self) -> None:
        """Replace every worker's buffer by the sum of all, added in the order of ranks. All workers call it together.

        A worker sums its part of the numbers for all. Raises what `barrier` raises where another does not come.
        """
        self.barrier()  # all have written
        for block_WB in torch.split(self.part_WP, BLOCK, dim=1):
            total_B = block_WB[0]
            for one_B in block_WB[1:]:
                total_B += one_B
            block_WB[1:] = total_B
        self.barrier()  # all is summed


def allocate_shared_buffers(
    rank: int, world_size: int, count: int, all_gather: Callable[[Any], list[Any]], barrier: Callable[[], None]
) -> SharedMemoryBuffers | None:
    """Buffers that all workers see; None, at all of them, where one is on another machine or there is no room.

    `all_gather` brings every worker's item to all, `barrier` returns when all have called it. The memory has a name only until
    all have opened it: it is given back when the last of them ends, however that happens.
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
            os.posix_fallocate(file.fileno(), 0, size)  # a machine that has not so much says so now
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
