"""Epoch plans for corpora too large to be sorted at once: an epoch is a sequence of windows of a few shards each.

A plan's memory does not grow with the corpus: it holds the number of updates of every window, and the plans of the two
windows that are being loaded and trained on.
"""

from collections.abc import Sequence
from itertools import accumulate
from threading import Lock

import numpy as np

from training.data.prepare.prepared import TARGET, PreparedSplit
from training.loop.batches import LENGTH_MULTIPLE, BatchPlan, EpochPlan, Rows, cut_batches

WINDOW_SHARDS = 4  # shards in a window: a million rows, whose batches group similar lengths


def plan_epoch(
    split: PreparedSplit,
    fields: Sequence[str],
    *,
    tokens: int | None = None,
    sentences: int | None = None,
    seed: int = 0,
    epoch: int = 0,
    accumulation: int = 1,
    max_updates: int | None = None,
) -> EpochPlan:
    """An epoch of a split: one plan of all rows, or a windowed plan where the split has more shards than a window.

    The arguments are BatchPlan's, with the same guarantee: the plan depends on them alone, not on the workers.
    """
    if split.shards <= WINDOW_SHARDS:
        lengths = {field: split.lengths(field) for field in fields}
        return BatchPlan(
            lengths,
            tokens=tokens,
            sentences=sentences,
            seed=seed,
            epoch=epoch,
            accumulation=accumulation,
            max_updates=max_updates,
        )
    return WindowedPlan(split, fields, tokens, sentences, seed, epoch, accumulation, max_updates)


class WindowedPlan:
    """The updates of an epoch, window after window. The shards are shuffled, WINDOW_SHARDS of them form a window, and
    each window has its own BatchPlan; no batch has rows of two windows. An update's number is enough to resume."""

    def __init__(
        self,
        split: PreparedSplit,
        fields: Sequence[str],
        tokens: int | None,
        sentences: int | None,
        seed: int,
        epoch: int,
        accumulation: int,
        max_updates: int | None,
    ) -> None:
        self._split, self._fields = split, fields
        self._tokens, self._sentences = tokens, sentences
        self._seed, self._epoch, self._accumulation = seed, epoch, accumulation
        order = np.random.default_rng((seed, epoch)).permutation(split.shards)
        self._windows = [order[start : start + WINDOW_SHARDS] for start in range(0, len(order), WINDOW_SHARDS)]
        self._starts = [0, *accumulate(map(self._count_updates, self._windows))]
        self._max_updates = max_updates
        self._plans: dict[int, BatchPlan] = {}
        self._lock = Lock()  # the loader's thread is ahead of the training thread

    @property
    def updates(self) -> int:
        return self._starts[-1] if self._max_updates is None else min(self._starts[-1], self._max_updates)

    def target_tokens(self, update: int) -> int:
        plan, within, _ = self._locate(update)
        return plan.target_tokens(within)

    def sentences(self, update: int) -> int:
        plan, within, _ = self._locate(update)
        return plan.sentences(within)

    def rows(self, update: int, rank: int = 0, world_size: int = 1) -> list[Rows]:
        plan, within, window = self._locate(update)
        shards = self._windows[window]
        begins = np.array([self._split.starts[shard] for shard in shards])
        ends = np.cumsum([self._split.starts[shard + 1] - self._split.starts[shard] for shard in shards])
        before = np.concatenate([[0], ends[:-1]])

        parts = plan.rows(within, rank, world_size)
        shard_indexes = [np.searchsorted(ends, part, side="right") for part in parts]
        return [part - before[shard] + begins[shard] for part, shard in zip(parts, shard_indexes, strict=True)]

    def _locate(self, update: int) -> tuple[BatchPlan, int, int]:
        """The plan that an update belongs to, the update's number in that plan, and the window's number."""
        window = int(np.searchsorted(self._starts, update, side="right")) - 1
        with self._lock:
            if window not in self._plans:
                for old in sorted(self._plans)[:-1]:
                    del self._plans[old]
                self._plans[window] = self._plan(window)
            return self._plans[window], update - self._starts[window], window

    def _plan(self, window: int) -> BatchPlan:
        shards = [self._split.shard(shard) for shard in self._windows[window]]
        return BatchPlan(
            {field: np.concatenate([shard.lengths(field) for shard in shards]) for field in self._fields},
            tokens=self._tokens,
            sentences=self._sentences,
            seed=self._seed,
            epoch=self._epoch,
            window=window,
            accumulation=self._accumulation,
        )

    def _count_updates(self, shards: np.ndarray) -> int:
        """The number of updates of a window. It depends only on the number of targets of each width."""
        if self._sentences is not None:
            rows: int = sum(self._split.starts[shard + 1] - self._split.starts[shard] for shard in shards)
            return -(-rows // self._sentences)
        widths = [self._split.length_histograms(TARGET, LENGTH_MULTIPLE)[shard] for shard in shards]
        rows_of = np.zeros(max(map(len, widths)), np.int64)
        for counts in widths:
            rows_of[: len(counts)] += counts
        padded = np.cumsum(np.repeat((np.arange(len(rows_of)) + 1) * LENGTH_MULTIPLE, rows_of))
        return len(cut_batches(padded, self._tokens or 1)) - 1
