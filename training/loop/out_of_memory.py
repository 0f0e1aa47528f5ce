"""Handling of batches that do not fit into memory: recognises the error and splits a batch into smaller ones."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from interlinear.batch import Batch, SourceInput, TextInput
from interlinear.memory_allocator import release_freed_memory


class RowDoesNotFitError(Exception):
    """A single row does not fit into memory: row `row` of part `part` of a worker's share of an update."""

    def __init__(self, part: int, row: int, reason: str) -> None:
        self.part, self.row, self.reason = part, row, reason
        super().__init__(part, row, reason)


@dataclass(frozen=True)
class MicroBatch:
    """Rows of an update whose gradient is computed at once: the rows of part `part` from row `first` on."""

    batch: Batch
    part: int
    first: int = 0
    whole: bool = True  # all rows of the part

    @property
    def size(self) -> int:
        """Positions of the target, padding included."""
        return 0 if self.batch.target_BL is None else self.batch.target_BL.numel()

    def halve(self) -> list["MicroBatch"]:
        first, second = halve(self.batch)
        middle = self.first + first.rows
        return [MicroBatch(first, self.part, self.first, False), MicroBatch(second, self.part, middle, False)]


def split_from(micro_batches: Sequence[MicroBatch], failed: int) -> list[MicroBatch]:
    """Replace the micro-batch that did not fit by its halves, and all later ones that are at least as large."""
    limit, result = micro_batches[failed].size, list(micro_batches[:failed])
    for number, micro_batch in enumerate(micro_batches[failed:], failed):
        too_large = number == failed or micro_batch.size >= limit
        result += micro_batch.halve() if too_large and micro_batch.batch.rows > 1 else [micro_batch]
    return result


def halve(batch: Batch) -> tuple[Batch, Batch]:
    """The first half of a batch's rows, and the second."""
    middle = batch.rows // 2
    return _rows(batch, slice(middle)), _rows(batch, slice(middle, None))


def _rows(batch: Batch, rows: slice) -> Batch:
    """A slice of the rows, without columns that hold only padding."""
    sources: dict[str, SourceInput] = {}
    for name, source in batch.sources.items():
        lengths_B = source.lengths_B[rows]
        if isinstance(source, TextInput):
            sources[name] = TextInput(source.ids_BT[rows, : max(1, *source.host_lengths[rows])], lengths_B)
        else:
            sources[name] = type(source)(source.values[rows], lengths_B)
    if batch.target_BL is None:
        return Batch(sources)
    assert batch.target_lengths is not None  # a batch from the loader, or a part of one
    lengths = batch.target_lengths[rows]
    guide_BLT = batch.guide_BLT
    if guide_BLT is not None:
        width = next(source.ids_BT.shape[1] for source in sources.values() if isinstance(source, TextInput))
        guide_BLT = guide_BLT[rows, : max(lengths), :width]
    return Batch(sources, batch.target_BL[rows, : max(lengths)], lengths, guide_BLT=guide_BLT)


def error_summary(error: BaseException) -> str:
    """The first line of an out-of-memory error's message."""
    return (str(error).strip().splitlines() or ["no memory is left"])[0].rstrip(".")


def empty_cache(device: torch.device) -> None:
    """Return freed memory from the allocator's cache, whose blocks may be too small for a large allocation."""
    if device.type == "cuda":
        torch.cuda.empty_cache()
    else:
        release_freed_memory()
