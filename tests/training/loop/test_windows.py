"""A corpus of many shards: every row once an epoch, batches of similar lengths, bounded memory."""

import tracemalloc
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.training.loop.test_batches import SIZES, every_row
from training.data.prepare.prepared import PreparedSplit, Skipped, SplitRecord, ends_file, ids_file
from training.loop import windows
from training.loop.batches import BatchLoader, BatchPlan, EpochPlan
from training.loop.windows import WindowedPlan, plan_epoch

FIELDS = ("source", "target")


def split_of(folder: Path, sizes: list[int], most: int = 30, seed: int = 3) -> PreparedSplit:
    """Shards with these numbers of rows; the source ids of row r are r, repeated."""
    random = np.random.default_rng(seed)
    tokens = dict.fromkeys(FIELDS, 0)
    start = 0
    for number, rows in enumerate(sizes):
        shard = number if len(sizes) > 1 else None
        for field in FIELDS:
            lengths = random.integers(1, most, rows)
            np.save(folder / ids_file("train", field, shard), np.repeat(np.arange(start, start + rows), lengths))
            np.save(folder / ends_file("train", field, shard), np.cumsum(lengths))
            tokens[field] += int(lengths.sum())
        start += rows
    several = tuple(sizes) if len(sizes) > 1 else ()
    record = SplitRecord(lines=start, rows=start, tokens=tokens, empty=Skipped(), long=Skipped(), shards=several)
    return PreparedSplit(folder, "train", record)


SHARDS = st.lists(st.integers(0, 40), min_size=windows.WINDOW_SHARDS + 1, max_size=13).filter(any)


@given(SHARDS, SIZES, st.integers(0, 99), st.integers(1, 4), st.integers(1, 3))
@settings(max_examples=60)
def test_every_row_comes_once_an_epoch_for_any_number_of_workers(
    tmp_path_factory, sizes, size, seed, world_size, accumulation
):
    split = split_of(tmp_path_factory.mktemp("split"), sizes)
    plan = plan_epoch(split, FIELDS, **size, seed=seed, epoch=3, accumulation=accumulation)
    assert isinstance(plan, WindowedPlan)
    assert sorted(every_row(plan, world_size)) == list(range(sum(sizes)))
    target = split.lengths("target")
    for update in range(plan.updates):
        whole = np.concatenate(plan.rows(update))
        shares = [plan.rows(update, rank, world_size) for rank in range(world_size)]
        assert all(len(share) == accumulation for share in shares)
        assert set(np.concatenate([part for share in shares for part in share])) == set(whole)
        assert plan.target_tokens(update) == (target[whole] + 1).sum()
        assert plan.sentences(update) == len(whole)
        if "tokens" in size:
            assert plan.target_tokens(update) <= size["tokens"] or len(whole) == 1


def test_few_shards_are_planned_like_one_corpus(tmp_path: Path):
    (tmp_path / "one").mkdir()
    (tmp_path / "few").mkdir()
    few = split_of(tmp_path / "few", [50, 70, 30, 50])
    lengths = {field: few.lengths(field) for field in FIELDS}
    plan = plan_epoch(few, FIELDS, tokens=100, seed=1, epoch=2)
    assert every_row(plan) == every_row(BatchPlan(lengths, tokens=100, seed=1, epoch=2))
    assert [few.ids("source", row)[0] for row in range(200)] == list(range(200))


def test_an_update_number_is_enough_to_resume(tmp_path: Path):
    split = split_of(tmp_path, [30] * 11)
    plan = plan_epoch(split, FIELDS, tokens=100, seed=1, epoch=2)
    whole = [(update, parts[0].sources["source"].ids_BT[:, 0].tolist()) for update, parts in loaded(split, plan)]
    assert [update for update, _ in whole] == list(range(plan.updates))
    for start in (1, plan.updates // 2, plan.updates - 1):
        again = plan_epoch(split_of(tmp_path, [30] * 11), FIELDS, tokens=100, seed=1, epoch=2)
        rest = [(u, parts[0].sources["source"].ids_BT[:, 0].tolist()) for u, parts in loaded(split, again, start)]
        assert rest == whole[start:]


def loaded(split: PreparedSplit, plan: EpochPlan, start: int = 0) -> BatchLoader:
    return BatchLoader(split, plan, ["source"], start_update=start)


def test_other_epochs_and_windows_have_other_orders(tmp_path: Path):
    split = split_of(tmp_path, [64] * 12)
    orders = [every_row(plan_epoch(split, FIELDS, sentences=8, seed=1, epoch=epoch)) for epoch in (1, 2)]
    assert orders[0] != orders[1]
    shards = [[row // 64 for row in order] for order in orders]
    assert [len(set(part)) for part in (shards[0][:256], shards[0][256:512], shards[0][512:])] == [4, 4, 4]
    assert set(shards[0][:256]) != set(shards[1][:256])
    # The order of a shard's rows differs between epochs, because each window is shuffled separately.
    places = [[row % 64 for row in orders[0][start : start + 256]] for start in (0, 256)]
    assert places[0] != places[1]


def test_an_epoch_may_be_shortened(tmp_path: Path):
    split = split_of(tmp_path, [64] * 12)
    whole, short = (plan_epoch(split, FIELDS, sentences=8, seed=1, max_updates=most) for most in (None, 50))
    assert (whole.updates, short.updates) == (96, 50)
    assert every_row(short) == every_row(whole)[:400]


def test_rows_of_a_batch_have_similar_lengths(tmp_path: Path):
    split = split_of(tmp_path, [500] * 10, most=40)
    plan = plan_epoch(split, FIELDS, tokens=800, seed=1)
    target = split.lengths("target")
    batches = [target[plan.rows(update)[0]] + 1 for update in range(plan.updates)]
    padded = sum(len(batch) * int(batch.max()) for batch in batches)
    assert 1 - sum(int(batch.sum()) for batch in batches) / padded < 0.12


@pytest.mark.parametrize("size", [{"tokens": 4000}, {"sentences": 200}])
def test_memory_does_not_grow_with_the_corpus(tmp_path: Path, size: dict[str, int]):
    peaks = []
    for shards in (8, 32):
        folder = tmp_path / str(shards)
        folder.mkdir()
        split = split_of(folder, [5000] * shards, most=20)
        tracemalloc.start()
        plan = plan_epoch(split, FIELDS, **size)
        for update in range(plan.updates):
            plan.rows(update)
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert peaks[1] < 1.2 * peaks[0]
