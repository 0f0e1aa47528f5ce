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


class SharedBuffers:
    """A buffer of `count` float32 for each worker, in one piece of memory. A worker writes to its own, `mine`."""

    def __init__(self, memory: mmap.mmap, rank: int, world: int, count: int, meet: Callable[[], None]) -> None:
        """`meet` returns when all workers have called it."""
        all_WN = torch.frombuffer(memory, dtype=torch.float32).view(world, count)
        self.meet = meet
        self.mine = all_WN[rank]
        self.part_WP = all_WN[:, rank * count // world : (rank + 1) * count // world]

    def sum_(self) -> None:
        """Replace every worker's buffer by the sum of all, added in the order of ranks. All workers call it together.

        A worker sums its part of the numbers for all. Raises what `meet` raises where another does not come.
        """
        self.meet()  # all have written
        for block_WB in torch.split(self.part_WP, BLOCK, dim=1):
            total_B = block_WB[0]
            for one_B in block_WB[1:]:
                total_B += one_B
            block_WB[1:] = total_B
        self.meet()  # all is summed


def shared_buffers(
    rank: int, world: int, count: int, gather: Callable[[Any], list[Any]], meet: Callable[[], None]
) -> SharedBuffers | None:
    """Buffers that all workers see; None, at all of them, where one is on another machine or there is no room.

    `gather` brings every worker's item to all, `meet` returns when all have called it. The memory has a name only until
    all have opened it: it is given back when the last of them ends, however that happens.
    """
    size = 4 * world * count
    path = _reserved(FOLDER / f"interlinear-{uuid4().hex}", size) if rank == 0 else None
    try:
        path = gather(path)[0]
        memory = _opened(path, size) if path else None
        everywhere = all(gather(memory is not None))
    finally:
        if rank == 0 and path:
            path.unlink()
    return SharedBuffers(memory, rank, world, count, meet) if everywhere and memory else None


def _reserved(path: Path, size: int) -> Path | None:
    try:
        with path.open("xb") as file:
            os.posix_fallocate(file.fileno(), 0, size)  # a machine that has not so much says so now
    except OSError:
        path.unlink(missing_ok=True)
        return None
    return path


def _opened(path: Path, size: int) -> mmap.mmap | None:
    try:
        with path.open("r+b") as file:
            return mmap.mmap(file.fileno(), size)
    except OSError:
        return None
