"""Batches that do not fit into memory: how such an error is told from others, and how a batch becomes smaller ones."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from seq2seq.batch import Batch, SourceInput, TextInput
from seq2seq.memory_allocator import release_freed_memory
from seq2seq.text import PAD

# What is said in another RuntimeError: by the allocator of a process whose memory is limited, by CUDA itself where
# torch's allocator takes no part (a context, a library's workspace), and by its libraries.
ALLOCATION_FAILURES = (
    "DefaultCPUAllocator",
    "CUDA error: out of memory",
    "CUBLAS_STATUS_ALLOC_FAILED",
    "CUDNN_STATUS_ALLOC_FAILED",
)


class RowDoesNotFitError(Exception):
    """Not even one row alone fits: row `row` of part `part` of a worker's share of an update."""

    def __init__(self, part: int, row: int, reason: str) -> None:
        self.part, self.row, self.reason = part, row, reason
        super().__init__(part, row, reason)


@dataclass(frozen=True)
class MicroBatch:
    """Some rows of an update, whose gradient is computed at once: those of its part `part` from row `first` on."""

    batch: Batch
    part: int
    first: int = 0

    @property
    def size(self) -> int:
        """Positions of the target, padding counted."""
        return 0 if self.batch.target_BL is None else self.batch.target_BL.numel()

    def halve(self) -> list["MicroBatch"]:
        one, two = halve(self.batch)
        return [MicroBatch(one, self.part, self.first), MicroBatch(two, self.part, self.first + one.rows)]


def split_from(micro_batches: Sequence[MicroBatch], failed: int) -> list[MicroBatch]:
    """Halves in the place of the piece that did not fit, and of those after it that are as large."""
    limit, found = micro_batches[failed].size, list(micro_batches[:failed])
    for number, micro_batch in enumerate(micro_batches[failed:], failed):
        too_large = number == failed or micro_batch.size >= limit
        found += micro_batch.halve() if too_large and micro_batch.batch.rows > 1 else [micro_batch]
    return found


def halve(batch: Batch) -> tuple[Batch, Batch]:
    """The first half of a batch's rows, and the others."""
    middle = batch.rows // 2
    return _rows(batch, slice(middle)), _rows(batch, slice(middle, None))


def _rows(batch: Batch, rows: slice) -> Batch:
    """Some rows, without the columns in which none of them has a word."""
    sources: dict[str, SourceInput] = {}
    for name, source in batch.sources.items():
        lengths_B = source.lengths_B[rows]
        if isinstance(source, TextInput):
            sources[name] = TextInput(source.ids_BT[rows, : max(1, int(lengths_B.max()))], lengths_B)
        else:
            sources[name] = type(source)(source.values[rows], lengths_B)
    if batch.target_BL is None:
        return Batch(sources)
    target_BL = batch.target_BL[rows]
    return Batch(sources, target_BL[:, : int((target_BL != PAD).sum(1).max())])


def is_out_of_memory(error: BaseException) -> bool:
    """Whether memory did not suffice: a GPU's, or, where the system limits it, the process's."""
    return isinstance(error, torch.OutOfMemoryError | MemoryError) or (
        isinstance(error, RuntimeError) and any(said in str(error) for said in ALLOCATION_FAILURES)
    )


def error_summary(error: BaseException) -> str:
    """What such an error says, in a line."""
    return (str(error).strip().splitlines() or ["no memory is left"])[0].rstrip(".")


def empty_cache(device: torch.device) -> None:
    """Give back what freed tensors have left in an allocator's cache, in pieces too small for a large one."""
    if device.type == "cuda":
        torch.cuda.empty_cache()
    else:
        release_freed_memory()
