"""Batch planning, and a loader that returns exactly the planned batches."""

import threading
import time
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from interlinear.batch import Batch, TextInput
from interlinear.text import END, PAD
from training.data.prepare.prepared import PreparedData, PreparedSplit, Skipped, SplitRecord, ends_file, ids_file
from training.loop.batches import LENGTH_MULTIPLE, PREFETCH, ROW_MULTIPLE, BatchLoader, BatchPlan
from training.loop.windows import plan_epoch
from training.runs.job import create_job

MOST_SHAPES = 40  # of the batches of an epoch: each is compiled, or captured as a CUDA graph, once


@st.composite
def corpora(draw) -> dict[str, np.ndarray]:
    rows = draw(st.integers(1, 200))
    random = np.random.default_rng(draw(st.integers(0, 2**32)))
    return {name: random.integers(1, draw(st.integers(2, 60)), rows, dtype=np.int32) for name in ("source", "target")}


SIZES = st.one_of(
    st.builds(lambda n: {"tokens": n}, st.integers(1, 500)), st.builds(lambda n: {"sentences": n}, st.integers(1, 50))
)


def every_row(plan: BatchPlan, world_size: int = 1) -> list[int]:
    return [
        int(row)
        for update in range(plan.updates)
        for rank in range(world_size)
        for part in plan.rows(update, rank, world_size)
        for row in part
    ]


@given(corpora(), SIZES, st.integers(0, 99), st.integers(1, 5), st.integers(1, 3), st.booleans())
def test_every_row_comes_once_an_epoch_for_any_number_of_workers(
    lengths, size, seed, world_size, accumulation, shuffle
):
    plan = BatchPlan(lengths, **size, seed=seed, epoch=3, accumulation=accumulation, shuffle=shuffle)
    assert sorted(every_row(plan, world_size)) == list(range(len(lengths["target"])))
    for update in range(plan.updates):
        whole = np.concatenate(plan.rows(update))
        shares = [plan.rows(update, rank, world_size) for rank in range(world_size)]
        assert all(len(share) == accumulation for share in shares)
        assert set(np.concatenate([part for share in shares for part in share])) == set(whole)
        held = [sum(map(len, share)) for share in shares]
        assert max(held) - min(held) <= 1
        assert plan.target_tokens(update) == (lengths["target"][whole] + 1).sum()
        assert plan.sentences(update) == len(whole)


def test_an_epoch_may_be_shortened_and_the_next_takes_other_batches():
    lengths = {name: np.arange(1, 401, dtype=np.int32) % 30 + 1 for name in ("source", "target")}
    whole = [BatchPlan(lengths, sentences=8, seed=1, epoch=epoch) for epoch in (1, 2)]
    cut = [BatchPlan(lengths, sentences=8, seed=1, epoch=epoch, max_updates=10) for epoch in (1, 2)]
    assert [plan.updates for plan in (*whole, *cut)] == [50, 50, 10, 10]
    assert every_row(cut[0]) == every_row(whole[0])[:80]
    assert set(every_row(cut[0])) != set(every_row(cut[1]))
    assert BatchPlan(lengths, sentences=8, max_updates=99).updates == 50


@given(corpora(), st.integers(1, 300), st.integers(0, 99))
def test_the_token_budget_is_exceeded_only_by_a_single_long_row(lengths, tokens, seed):
    plan = BatchPlan(lengths, tokens=tokens, seed=seed)
    sizes = [plan.target_tokens(update) for update in range(plan.updates)]
    assert all(size <= tokens or plan.sentences(update) == 1 for update, size in enumerate(sizes))
    in_order = BatchPlan(lengths, tokens=tokens, shuffle=False)
    padded = (lengths["target"] // LENGTH_MULTIPLE + 1) * LENGTH_MULTIPLE
    for update in range(in_order.updates - 1):  # no batch is needlessly small
        batch, following = padded[in_order.rows(update)[0]], padded[in_order.rows(update + 1)[0]]
        assert batch.sum() + following[:ROW_MULTIPLE].sum() > tokens or len(following) < ROW_MULTIPLE


@given(corpora(), SIZES, st.integers(0, 99))
def test_a_plan_is_a_function_of_its_arguments(lengths, size, seed):
    plans = [BatchPlan(lengths, **size, seed=seed, epoch=4) for _ in range(2)]
    assert every_row(plans[0]) == every_row(plans[1])


def lengths_of_many(rows: int = 5000) -> dict[str, np.ndarray]:
    random = np.random.default_rng(5)
    target = random.integers(3, 40, rows, dtype=np.int32)
    return {"source": np.maximum(target + random.integers(-3, 4, rows, dtype=np.int32), 1), "target": target}


def test_other_seeds_and_epochs_are_other_plans():
    lengths = lengths_of_many()
    plans = [BatchPlan(lengths, tokens=1000, seed=seed, epoch=epoch) for seed, epoch in ((1, 1), (1, 2), (2, 1))]
    orders = [every_row(plan) for plan in plans]
    assert all(a != b for a, b in zip(orders, [*orders[1:], orders[0]], strict=True))
    batches = [{frozenset(map(int, plan.rows(u)[0])) for u in range(plan.updates)} for plan in plans]
    assert len(batches[0] & batches[1]) < plans[0].updates / 2  # more than a permutation of the same batches


def test_rows_of_a_batch_have_similar_lengths():
    lengths = lengths_of_many()
    plan = BatchPlan(lengths, tokens=1000, seed=1)
    for field, share in (("target", 0.10), ("source", 0.20)):
        padded = real = 0
        for update in range(plan.updates):
            batch = lengths[field][plan.rows(update)[0]] + 1
            padded += len(batch) * int(batch.max())
            real += int(batch.sum())
        assert 1 - real / padded < share


def test_few_shapes_are_produced():
    lengths = lengths_of_many()
    plan = BatchPlan(lengths, tokens=1000, seed=1)
    rows = [len(plan.rows(update)[0]) for update in range(plan.updates)]
    assert sum(count % ROW_MULTIPLE == 0 for count in rows) > 0.9 * len(rows)


def test_workers_have_about_equal_work():
    lengths = lengths_of_many()
    plan = BatchPlan(lengths, tokens=2000, seed=1)
    for update in range(plan.updates):
        tokens = [lengths["target"][plan.rows(update, rank, 4)[0]].sum() for rank in range(4)]
        assert max(tokens) - min(tokens) <= lengths["target"].max()


def test_without_shuffling_rows_are_sorted_by_length():
    lengths = lengths_of_many()
    plan = BatchPlan(lengths, sentences=64, shuffle=False)
    assert all(a // LENGTH_MULTIPLE <= b // LENGTH_MULTIPLE for a, b in pairwise(lengths["target"][every_row(plan)]))
    assert every_row(plan) == every_row(BatchPlan(lengths, sentences=64, shuffle=False, seed=9, epoch=9))


def test_a_million_rows_are_planned_quickly():
    random = np.random.default_rng(0)
    lengths = {name: random.integers(1, 100, 1_000_000, dtype=np.int32) for name in ("source", "target")}
    begun = time.process_time()
    assert BatchPlan(lengths, tokens=25_000).updates > 1000
    assert time.process_time() - begun < 3


@pytest.mark.parametrize("sizes", [{}, {"tokens": 1, "sentences": 1}, {"tokens": 0}, {"tokens": 9, "accumulation": 0}])
def test_exactly_one_valid_batch_size_is_required(sizes):
    with pytest.raises(ValueError, match="batch"):
        BatchPlan(lengths_of_many(10), **sizes)


# The loader


@pytest.fixture
def split(tmp_path) -> PreparedSplit:
    """300 rows whose ids encode their row: the source of row r is r + 4, repeated."""
    random = np.random.default_rng(3)
    tokens = {}
    for field in ("source", "target"):
        lengths = random.integers(1, 12, 300)
        ids = np.repeat(np.arange(300) + 4, lengths).astype(np.uint16)
        np.save(tmp_path / ids_file("train", field), ids)
        np.save(tmp_path / ends_file("train", field), np.cumsum(lengths))
        tokens[field] = len(ids)
    return PreparedSplit(
        tmp_path, "train", SplitRecord(lines=300, rows=300, tokens=tokens, empty=Skipped(), long=Skipped())
    )


def plan_of(split: PreparedSplit, **options) -> BatchPlan:
    return BatchPlan({field: split.lengths(field) for field in ("source", "target")}, tokens=60, seed=1, **options)


def loaders() -> int:
    return sum(thread.name == "batches" for thread in threading.enumerate())


def test_batches_contain_the_planned_rows(split):
    plan = plan_of(split, accumulation=2)
    seen = []
    for update, batches in BatchLoader(split, plan, ["source"], rank=1, world_size=2, multiple=4):
        seen.append(update)
        assert len(batches) == 2
        for batch, rows in zip(batches, plan.rows(update, 1, 2), strict=True):
            assert batch.rows == len(rows)
            source = batch.sources["source"]
            assert source.ids_BT.shape[1] % 4 == 0
            for i, row in enumerate(rows):
                length = int(split.lengths("source")[row])
                expected = [row + 4] * length + [END] + [PAD] * (source.ids_BT.shape[1] - length - 1)
                assert source.ids_BT[i].tolist() == expected
                assert int(source.lengths_B[i]) == length + 1
                assert int((batch.target_BL[i] == row + 4).sum()) == split.lengths("target")[row]
    assert seen == list(range(plan.updates))
    assert loaders() == 0


def split_of(folder: Path, rows: int, shards: int, seed: int) -> PreparedSplit:
    """Random ids in shards of random sizes, some of them empty. Rows may have no `mt`, and empty targets."""
    random = np.random.default_rng(seed)
    sizes = random.multinomial(rows, random.dirichlet(np.ones(shards)))
    tokens = dict.fromkeys(("source", "mt", "target"), 0)
    for number, own in enumerate(sizes):
        for field in tokens:
            lengths = random.integers(field == "source", 9, own) * (random.random(own) < 0.8 if field == "mt" else 1)
            shard = number if shards > 1 else None
            np.save(folder / ids_file("train", field, shard), random.integers(4, 999, lengths.sum(), dtype=np.uint16))
            np.save(folder / ends_file("train", field, shard), np.cumsum(lengths))
            tokens[field] += int(lengths.sum())
    several = tuple(map(int, sizes)) if shards > 1 else ()
    record = SplitRecord(lines=rows, rows=rows, tokens=tokens, empty=Skipped(), long=Skipped(), shards=several)
    return PreparedSplit(folder, "train", record)


def row_by_row(split: PreparedSplit, sources: list[str], rows: np.ndarray, multiple: int) -> Batch:
    """A batch as it was built before: each row's ids in turn."""
    padded, lengths = {}, {}
    for field in (*sources, "target"):
        ids = [split.ids(field, int(row)).tolist() for row in rows]
        ended = [[*own, END] if own or field == "target" else [] for own in ids]
        width = -(-max([1, *map(len, ended)]) // multiple) * multiple
        rectangle = [own + [PAD] * (width - len(own)) for own in ended]
        padded[field] = torch.tensor(rectangle, dtype=torch.long).reshape(len(rows), width)
        lengths[field] = tuple(map(len, ended))
    texts = {name: TextInput(padded[name], torch.tensor(lengths[name], dtype=torch.long)) for name in sources}
    return Batch(texts, padded["target"], lengths["target"])


def assert_equal_batches(one: Batch, other: Batch) -> None:
    assert one.sources.keys() == other.sources.keys() and one.target_lengths == other.target_lengths
    assert torch.equal(one.target_BL, other.target_BL) and one.target_BL.dtype == other.target_BL.dtype
    for name in one.sources:
        ours, theirs = one.text(name), other.text(name)
        assert ours.lengths == theirs.lengths and torch.equal(ours.lengths_B, theirs.lengths_B)
        assert torch.equal(ours.ids_BT, theirs.ids_BT)
        assert (ours.ids_BT.dtype, ours.lengths_B.dtype) == (theirs.ids_BT.dtype, theirs.lengths_B.dtype)


@given(st.integers(1, 60), st.sampled_from([1, 3, 7]), st.integers(0, 99), st.integers(1, 3), SIZES)
@settings(max_examples=40, deadline=None)
def test_batches_equal_those_built_row_by_row(tmp_path_factory, rows, shards, seed, accumulation, size):
    split = split_of(tmp_path_factory.mktemp("split"), rows, shards, seed)
    fields = ("source", "mt", "target")
    plan = plan_epoch(split, fields, **size, seed=seed, accumulation=accumulation)
    for update, batches in BatchLoader(split, plan, ["source", "mt"]):
        for batch, own in zip(batches, plan.rows(update), strict=True):
            assert_equal_batches(batch, row_by_row(split, ["source", "mt"], own, LENGTH_MULTIPLE))


def test_the_parts_of_several_workers_are_as_wide_as_the_widest(tmp_path):
    split = split_of(tmp_path, rows=90, shards=2, seed=1)
    plan = plan_epoch(split, ("source", "target"), sentences=10, accumulation=2)
    loaders = [BatchLoader(split, plan, ["source"], rank, 3, multiple=1) for rank in range(3)]
    for update, shares in enumerate(zip(*loaders, strict=True)):
        for part in range(2):
            batches = [batches[part] for _, batches in shares]
            rows = [plan.rows(update, rank, 3)[part] for rank in range(3)]
            for field, widths in (
                ("source", {batch.text("source").ids_BT.shape[1] for batch in batches}),
                ("target", {batch.target_BL.shape[1] for batch in batches}),
            ):
                assert widths == {max(len(split.ids(field, row)) for own in rows for row in own) + 1}


# The shapes of batches


def shapes(split: PreparedSplit, plan: BatchPlan, world_size: int) -> set[tuple[int, int, int]]:
    """(B, T, L) of every batch of an epoch, of all workers."""
    return {
        (batch.rows, batch.text("source").ids_BT.shape[1], batch.target_BL.shape[1])
        for rank in range(world_size)
        for _, batches in BatchLoader(split, plan, ["source"], rank, world_size)
        for batch in batches
        if batch.rows
    }


@pytest.mark.parametrize("world_size", [1, 2, 4, 8])
def test_an_epoch_has_few_shapes_for_any_number_of_workers(tmp_path, world_size):
    """Lengths are distributed as in Multi30k: gamma, with that corpus's mean and deviation."""
    random = np.random.default_rng(7)
    target = np.clip(random.gamma(9, 1.5, 12_000), 3, 44).astype(np.int64)
    source = np.clip(target + random.normal(0, 3, len(target)), 2, 54).astype(np.int64)
    tokens = {}
    for field, lengths in (("source", source), ("target", target)):
        np.save(tmp_path / ids_file("train", field), np.full(lengths.sum(), 7, np.uint16))
        np.save(tmp_path / ends_file("train", field), np.cumsum(lengths))
        tokens[field] = int(lengths.sum())
    record = SplitRecord(lines=12_000, rows=12_000, tokens=tokens, empty=Skipped(), long=Skipped())
    split = PreparedSplit(tmp_path, "train", record)
    plan = plan_epoch(split, ("source", "target"), tokens=1500, seed=1, epoch=1)
    assert len(shapes(split, plan, world_size)) <= MOST_SHAPES


@pytest.mark.slow
def test_an_epoch_of_multi30k_has_few_shapes(tmp_path, corpora):
    """For any number of workers, and in the next epoch the same ones. Prints how much of a batch is padding."""
    job = create_job(
        "rnnsearch", "multi30k-de-en", data_root=corpora, prepared=tmp_path / "prepared", runs=tmp_path / "runs"
    )
    split = PreparedData.load(job.prepared).split("train")
    seen = [
        shapes(split, plan_epoch(split, ("source", "target"), tokens=1500, seed=1, epoch=epoch), world_size)
        for epoch, world_size in ((1, 1), (2, 1), (1, 2), (1, 4), (1, 8))
    ]
    print([len(one) for one in seen], "shapes")
    assert all(len(one) <= MOST_SHAPES for one in seen)
    assert len(seen[0] | seen[1]) <= MOST_SHAPES
    plan = plan_epoch(split, ("source", "target"), tokens=1500, seed=1, epoch=1)
    padded = real = 0
    for _, (batch,) in BatchLoader(split, plan, ["source"]):
        padded += batch.text("source").ids_BT.numel() + batch.target_BL.numel()
        real += sum(batch.text("source").lengths) + sum(batch.target_lengths)
    print(f"{1 - real / padded:.1%} of the positions are padding")
    assert 1 - real / padded < 0.12


def test_the_loader_resumes_where_it_stopped(split):
    plan = plan_of(split)
    whole = list(BatchLoader(split, plan, ["source"]))
    rest = list(BatchLoader(split, plan, ["source"], start_update=5))
    assert [update for update, _ in rest] == [update for update, _ in whole][5:]
    for (_, before), (_, now) in zip(whole[5:], rest, strict=True):
        assert torch.equal(before[0].target_BL, now[0].target_BL)
        assert torch.equal(before[0].sources["source"].ids_BT, now[0].sources["source"].ids_BT)
    assert list(BatchLoader(split, plan, ["source"], start_update=plan.updates)) == []


def test_an_error_in_the_thread_is_raised_in_the_reader(split):
    loader = BatchLoader(split, plan_of(split), ["nothing"])
    with pytest.raises(KeyError, match="nothing"):
        next(iter(loader))
    assert loaders() == 0


@pytest.mark.parametrize("read", [0, 1, 7])
def test_leaving_early_does_not_hang(split, read):
    with BatchLoader(split, plan_of(split), ["source"]) as loader:
        batches = iter(loader)
        for _ in range(read):
            next(batches)
    assert loaders() == 0


def test_a_broken_loop_ends_the_thread(split):
    for _ in BatchLoader(split, plan_of(split), ["source"]):
        break
    assert loaders() == 0


class Counting(PreparedSplit):
    """Counts the rows that are read."""

    count = 0

    def concatenated_ids(self, field: str, rows: np.ndarray) -> np.ndarray:
        self.count += len(rows) * (field == "target")
        return super().concatenated_ids(field, rows)


def test_the_loader_prefetches_only_a_few_updates(split, tmp_path):
    counting = Counting(tmp_path, "train", split.record)
    plan = plan_of(split)
    with BatchLoader(counting, plan, ["source"]) as loader:
        next(iter(loader))
        time.sleep(0.1)
        ahead = sum(plan.sentences(update) for update in range(PREFETCH + 2))
        assert 0 < counting.count <= ahead < split.rows


def test_batches_can_be_iterated_once(split):
    loader = BatchLoader(split, plan_of(split), ["source"])
    assert list(loader)
    with pytest.raises(RuntimeError, match="read once"):
        next(iter(loader))
