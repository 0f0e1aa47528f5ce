"""Batch plans, which assign the pairs of an epoch to updates and workers, and a loader that builds batches in a
thread."""

from collections.abc import Iterator, Mapping, Sequence
from queue import Empty, Queue
from threading import Event, Thread
from types import TracebackType
from typing import Protocol, Self

import numpy as np
import torch
from torch import Tensor

from interlinear.batch import Batch, SourceInput, TextInput, pad_concatenated, padded_width
from interlinear.config import ImageGrid
from training.data.guide.piece_links import RowArrays, guide_matrix
from training.data.prepare.prepared import TARGET, PreparedSplit
from training.data.subword_sampling import SampledSplit

Rows = np.ndarray  # row numbers, int64

PREFETCH = 4  # updates whose batches are built ahead

# Widths are padded to a multiple of 4, and rows, where there are enough, cut to a multiple of 8: kernels are compiled
# for every new shape, so few shapes are worth a little padding.
LENGTH_MULTIPLE, ROW_MULTIPLE = 4, 8


class EpochPlan(Protocol):
    """The updates of one epoch and their pairs. The same at every worker."""

    @property
    def updates(self) -> int:
        """The number of updates in the epoch."""

    def target_tokens(self, update: int) -> int:
        """Target tokens of the global batch, end symbols included."""

    def sentences(self, update: int) -> int:
        """Pairs in the global batch."""

    def rows(self, update: int, rank: int = 0, world_size: int = 1) -> list[Rows]:
        """The rows of one of `world_size` workers in an update: one array for each of its `accumulation` parts."""


class BatchPlan:
    """The updates of one epoch. A pure function of its arguments: the same at every worker, for any number of workers.

    The global batch of an update holds as many pairs as have `tokens` target tokens together (end symbols and padding
    included; a longer pair forms a batch of its own), or `sentences` pairs. Pairs of similar target length, then of
    similar source length, share a batch; the batches come in random order. Worker r of w takes every w-th row of a
    batch starting at row r, in `accumulation` parts: the union over the workers does not depend on w, the loads of two
    workers differ by about one pair, and every worker has the same number of parts, some of them empty where there are
    few rows.
    """

    def __init__(
        self,
        lengths: Mapping[str, np.ndarray],
        *,
        tokens: int | None = None,
        sentences: int | None = None,
        seed: int = 0,
        epoch: int = 0,
        accumulation: int = 1,
        shuffle: bool = True,
        max_updates: int | None = None,
        window: int | None = None,
    ) -> None:
        """`lengths`: of every field's rows, without the end symbol; one of the fields is `target`.

        Either `tokens` or `sentences` sets the size of a batch. Without `shuffle`, batches go from short to long, for a
        dev set. `max_updates`: limits the updates of the epoch. `window`: number of the window of the epoch that the
        rows belong to.
        """
        if (tokens is None) == (sentences is None):
            raise ValueError("the size of a batch is given in tokens or in sentences")
        if min(size for size in (tokens, sentences, accumulation) if size is not None) < 1:
            raise ValueError("a batch has at least one token or sentence, and one part")
        self.accumulation = accumulation
        random = np.random.default_rng((seed, epoch) if window is None else (seed, epoch, window))
        target = lengths["target"]
        source = sum((lengths[name] for name in lengths if name != "target"), np.zeros_like(target))
        self._order = _sort_by_length(target, source, random if shuffle else None)
        ends = np.cumsum(target[self._order] + 1, dtype=np.int64)
        if sentences is not None:
            self._starts = np.append(np.arange(0, len(target), sentences), len(target))
        else:
            padded = np.cumsum((_width(target[self._order]) + 1) * LENGTH_MULTIPLE, dtype=np.int64)
            self._starts = cut_batches(padded, tokens or 1)
        self._tokens = np.diff(ends[self._starts[1:] - 1], prepend=0)
        self._updates = np.arange(len(self._tokens))
        if shuffle:
            random.shuffle(self._updates)
        self._updates = self._updates[:max_updates]

    @property
    def updates(self) -> int:
        return len(self._updates)

    def target_tokens(self, update: int) -> int:
        return int(self._tokens[self._updates[update]])

    def sentences(self, update: int) -> int:
        return len(self._batch(update))

    def rows(self, update: int, rank: int = 0, world_size: int = 1) -> list[Rows]:
        return np.array_split(self._batch(update)[rank::world_size], self.accumulation)

    def _batch(self, update: int) -> Rows:
        batch = self._updates[update]
        return self._order[self._starts[batch] : self._starts[batch + 1]].astype(np.int64)


def _sort_by_length(target: np.ndarray, source: np.ndarray, random: np.random.Generator | None) -> np.ndarray:
    """Row numbers sorted by padded width of the target, then of the source; equal ones in random order."""
    key = (_width(target) << 44) | (_width(source) << 24)
    if random is not None:
        key |= random.integers(0, 1 << 24, len(key), dtype=np.uint32)
    return np.argsort(key, kind="stable").astype(np.uint32)


def _width(lengths: np.ndarray) -> np.ndarray:
    """Positions in multiples of LENGTH_MULTIPLE, the end symbol included."""
    return lengths.astype(np.uint64) // LENGTH_MULTIPLE


def cut_batches(ends: np.ndarray, budget: int) -> np.ndarray:
    """The start of each batch and the end of the last, so that each has at most `budget` positions, or a single row.

    `ends`: cumulative number of positions, each row included.
    """
    starts = [0]
    before = 0
    while starts[-1] < len(ends):
        rows = max(int(np.searchsorted(ends, before + budget, side="right")) - starts[-1], 1)
        rows -= rows % ROW_MULTIPLE if rows >= 2 * ROW_MULTIPLE and starts[-1] + rows < len(ends) else 0
        end = starts[-1] + rows
        starts.append(end)
        before = int(ends[end - 1])
    return np.array(starts)


class BatchLoader:
    """One worker's batches of a plan, in order, from `start_update` on. A thread builds them a few updates ahead.

    Iterating yields (update, one batch for each of its parts); a part may have no rows. An exception in the thread is
    raised in the consumer. The context manager stops the thread on exit.
    """

    def __init__(
        self,
        split: PreparedSplit | SampledSplit,
        plan: EpochPlan,
        sources: Sequence[str],
        rank: int = 0,
        world_size: int = 1,
        start_update: int = 0,
        pin: bool = False,
        multiple: int = LENGTH_MULTIPLE,
        images: Mapping[str, ImageGrid] | None = None,
        guide: RowArrays | None = None,
    ) -> None:
        """`sources`: the text sources, the first of which is in every row; `images`: the image sources.

        `pin`: put batches in page-locked memory, for a GPU. `multiple`: pad widths to multiples of it. `guide`: links
        (target piece, source piece) of every row, for guided attention.
        """
        self._split = split
        self._plan = plan
        self._sources = sources
        self._rank = rank
        self._world = world_size
        self._start_update = start_update
        self._pin = pin
        self._multiple = multiple
        self._images = images or {}
        self._guide = guide
        self._ready: Queue[tuple[int, list[Batch]] | BaseException | None] = Queue(PREFETCH)
        self._closed = Event()
        self._thread: Thread | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def __iter__(self) -> Iterator[tuple[int, list[Batch]]]:
        """Start the thread and yield its batches. Each loader can be iterated once."""
        if self._thread is not None:
            raise RuntimeError("a loader's batches are read once")
        self._thread = Thread(target=self._produce, name="batches", daemon=True)
        self._thread.start()
        try:
            while (item := self._ready.get()) is not None:
                if isinstance(item, BaseException):
                    raise item
                yield item
        finally:
            self.close()

    def close(self) -> None:
        """Stop the thread and wait for its end."""
        self._closed.set()
        while self._thread is not None and self._thread.is_alive():
            try:
                self._ready.get_nowait()  # the thread may be blocked on a full queue
            except Empty:
                self._thread.join(0.01)

    def _produce(self) -> None:
        try:
            for update in range(self._start_update, self._plan.updates):
                batches = self._batches(update)
                if self._closed.is_set():
                    return
                self._ready.put((update, batches))
            self._ready.put(None)
        except BaseException as error:
            self._ready.put(error)

    def _batches(self, update: int) -> list[Batch]:
        """This worker's parts of an update. A part is as wide as at the worker with the longest row, so that the shapes
        of a training do not depend on how many workers share it."""
        shares = [self._plan.rows(update, rank, self._world) for rank in range(self._world)]
        return [self._collate(parts[self._rank], np.concatenate(parts)) for parts in zip(*shares, strict=True)]

    def _collate(self, rows: Rows, all_rows: Rows) -> Batch:
        """The padded tensors of some rows, with the width of `all_rows`. A source text without ids is absent."""
        texts: dict[str, TextInput] = {}
        for name in self._sources:
            lengths_B = self._split.row_lengths(name, rows)
            texts[name] = TextInput(*self._pad(name, rows, all_rows, lengths_B + (lengths_B > 0)))
        sources: dict[str, SourceInput] = {**texts}
        for name, grid in self._images.items():
            sources[name] = self._split.images[name].batch(rows, grid)
        target_lengths_B = self._split.row_lengths(TARGET, rows) + 1
        target_BL, _ = self._pad(TARGET, rows, all_rows, target_lengths_B)
        guide_BLT = None
        if self._guide is not None:
            source_width = texts[self._sources[0]].ids_BT.shape[1]
            links, linked_rows = self._guide, rows
            if isinstance(self._split, SampledSplit):
                links = self._split.links(links, self._sources[0], rows)
                linked_rows = np.arange(len(rows))
            guide_BLT = torch.from_numpy(guide_matrix(links, linked_rows, target_BL.shape[1], source_width))
        batch = Batch(sources, target_BL, tuple(target_lengths_B.tolist()), guide_BLT=guide_BLT)
        return batch.pin_memory() if self._pin else batch

    def _pad(self, field: str, rows: Rows, all_rows: Rows, lengths_B: np.ndarray) -> tuple[Tensor, Tensor]:
        width = padded_width(int(self._split.row_lengths(field, all_rows).max(initial=0)) + 1, self._multiple)
        return pad_concatenated(self._split.concatenated_ids(field, rows), lengths_B, width)
