"""Workers with uneven shares of a batch, the `--workers` option, and the driver's failure limits; all without Ray."""

import socket
import time
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

import numpy as np
import pytest
import torch

from interlinear.cli.options import number_range
from interlinear.errors import TrainingError, UsageError
from tests.processes import in_ranks
from tests.training.toy import toy_job
from training.events import TrainingJob
from training.loop import shared_memory
from training.loop.batches import BatchLoader
from training.loop.process_group import ProcessGroup, SingleProcess, TorchProcessGroup, WorkerLostError
from training.loop.trainer import Trainer
from training.ray import failure_monitor
from training.ray.cluster import WorkerGroupConfig
from training.ray.control import ControlActor, ControlStatus
from training.ray.failure_monitor import MAX_FAILURES, FailureMonitor, missing_resources

WORLD = 3
SENTENCES = (3, 1)  # rows of a batch: two workers get two and one, or one and none


@dataclass(frozen=True)
class SharedUpdate:
    """A worker's own target tokens, and the gradient after summing over all workers."""

    tokens: int
    gradient: np.ndarray


@dataclass(frozen=True)
class SumResult:
    """Whether a worker's buffer is in shared memory, its sums there by update, and that of a separate tensor."""

    shared: bool
    sums: list[np.ndarray]
    elsewhere: list[float]


def first_update(job: TrainingJob, workers: ProcessGroup) -> SharedUpdate:
    training = Trainer(job, workers, [], torch.device("cpu"))
    plan = training.plan(1)
    with BatchLoader(training.data, plan, training.texts, workers.rank, workers.world_size) as loader:
        _, batches = next(iter(loader))
    training.step.run(batches, training.objective.normalizer(plan.target_tokens(0), plan.sentences(0)), 0.0, 0)
    gradients = [parameter.grad.flatten() for parameter in training.step.parameters if parameter.grad is not None]
    rows = np.concatenate(plan.rows(0, workers.rank, workers.world_size))
    return SharedUpdate(int((training.data.lengths("target")[rows] + 1).sum()), torch.cat(gradients).numpy())


def first_updates(_rank: int, jobs: list[TrainingJob]) -> list[SharedUpdate]:
    return [first_update(job, TorchProcessGroup()) for job in jobs]


def test_the_gradient_of_uneven_workers_equals_that_of_the_whole_batch(tmp_path: Path) -> None:
    """A mean of the workers' means would give more weight to the words of a worker with few of them."""
    settings = ["model.dropout=0", "training.clip=null"]
    jobs = [
        toy_job(
            tmp_path, f"of-{n}", settings=[*settings, "training.batch_tokens=null", f"training.batch_sentences={n}"]
        )
        for n in SENTENCES
    ]
    shares = in_ranks(2, first_updates, jobs)
    whole = [first_update(job, SingleProcess()) for job in jobs]
    for alone, *together in zip(whole, *shares, strict=True):
        own = sorted(one.tokens for one in together)
        assert own[0] < own[1] and sum(own) == alone.tokens
        for one in together:
            np.testing.assert_allclose(one.gradient, alone.gradient, rtol=0, atol=1e-6)
        assert np.abs(alone.gradient).max() > 1e-2


def summing(rank: int, folder: Path, count: int) -> SumResult:
    shared_memory.FOLDER = folder
    workers = TorchProcessGroup()
    buffer, sums = workers.buffer(count, torch.device("cpu")), []
    for generator in map(torch.Generator().manual_seed, range(3)):  # three updates
        buffer.copy_(torch.randn(WORLD, count, generator=generator)[rank])
        workers.all_reduce(buffer)
        sums.append(buffer.numpy().copy())
        buffer.mul_(0.5)  # a local operation like gradient clipping
    elsewhere = torch.full((2,), float(rank))
    workers.all_reduce(elsewhere)
    return SumResult(workers.shared is not None, sums, elsewhere.tolist())


@pytest.mark.parametrize("count", [2, 400_001], ids=["fewer than workers", "several blocks and a rest"])
@pytest.mark.parametrize("room", [True, False], ids=["shared memory", "no room"])
def test_all_workers_have_the_same_sum_and_nothing_remains(tmp_path: Path, room: bool, count: int) -> None:
    folder = tmp_path if room else tmp_path / "not there"
    shares = in_ranks(WORLD, summing, folder, count)
    for seed in range(3):
        of_each = torch.randn(WORLD, count, generator=torch.Generator().manual_seed(seed)).double()
        for one in shares:
            np.testing.assert_allclose(one.sums[seed], of_each.sum(0), rtol=0, atol=1e-5)
            np.testing.assert_array_equal(one.sums[seed], shares[0].sums[seed])
    assert [(one.shared, one.elsewhere) for one in shares] == WORLD * [(room, [3.0, 3.0])]
    assert not list(tmp_path.glob("interlinear-*"))


def waiting(rank: int, how: str, folder: Path) -> str:
    """All ranks join one collective; then rank 2 does not join the next one, and stays alive."""
    workers = TorchProcessGroup(timeout=2)
    buffer = workers.buffer(5, torch.device("cpu"))
    assert workers.all_gather(rank) == [0, 1, 2]
    if rank == 2:
        while len(list(folder.glob("ended-*"))) < 2:
            time.sleep(0.02)
        return ""
    try:
        if how == "gather":
            workers.all_gather(rank)
        else:
            workers.all_reduce(buffer)
        return "it is done"
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    finally:
        (folder / f"ended-{rank}").touch()


@pytest.mark.parametrize("how", ["shared memory", "gather"])
def test_a_collective_that_a_rank_does_not_join_ends_at_its_deadline(tmp_path: Path, how: str) -> None:
    *said, _ = in_ranks(WORLD, waiting, how, tmp_path)
    for rank, sentence in enumerate(said):
        assert sentence.startswith(f"WorkerLostError: rank {rank}: another of the 3 workers took no part"), said
        assert "within 2 s" in sentence


class NeverDone(torch.distributed.Work):
    """An NCCL collective that another rank does not join: without blocking waits, `wait` returns at once."""

    def is_completed(self) -> bool:
        return False

    def wait(self, timeout: timedelta = timedelta()) -> bool:
        return True


def test_an_unfinished_collective_at_its_deadline_is_never_taken_as_done(tmp_path: Path) -> None:
    torch.distributed.init_process_group("gloo", f"file://{tmp_path / 'meeting'}", world_size=1, rank=0)
    try:
        with pytest.raises(WorkerLostError, match="within 0 s"):
            TorchProcessGroup(timeout=0.05).run_collective(NeverDone)
    finally:
        torch.distributed.destroy_process_group()


def test_a_group_that_was_destroyed_meanwhile_is_a_lost_worker(tmp_path: Path) -> None:
    """Ray Train destroys the group under a running worker when another one has ended: that is no fault of the job."""
    torch.distributed.init_process_group("gloo", f"file://{tmp_path / 'meeting'}", world_size=1, rank=0)
    group = TorchProcessGroup()
    torch.distributed.destroy_process_group()
    for collective in (group.barrier, lambda: group.all_gather(1), lambda: group.broadcast(torch.zeros(1))):
        with pytest.raises(WorkerLostError, match="rank 0"):
            collective()


def test_workers_are_a_number_or_a_range() -> None:
    assert [number_range("--workers", text) for text in ("1", "12", "1:4", "3:3")] == [(1, 1), (12, 12), (1, 4), (3, 3)]
    for text in ("", "0", "-1", "two", "4:1", "0:2", "1:", ":2", "1:2:3", "1.5", "²"):
        with pytest.raises(UsageError, match="neither a number from 1 on nor a range"):
            number_range("--workers", text)


def test_missing_cluster_resources_are_reported_with_the_available_ones() -> None:
    assert missing_resources(2, "CPU", {"10.0.0.1": 1, "10.0.0.2": 1}) == ""
    said = missing_resources(3, "GPU", {"10.0.0.2": 1, "10.0.0.1": 0})
    assert said == "3 workers need 3 GPUs, and the cluster has 1 (10.0.0.1: 0, 10.0.0.2: 1)"
    assert missing_resources(1, "CPU", {}).endswith("the cluster has 0 (no node)")
    assert missing_resources(8, "GPU", {"10.0.0.1": 2}, workers_each=4) == ""
    said = missing_resources(9, "GPU", {"10.0.0.1": 2}, workers_each=4)
    assert said == "9 workers need 3 GPUs, and the cluster has 2 (10.0.0.1: 2)"


@pytest.mark.parametrize("per_gpu", [1, 3, 7, 24, 100])
def test_as_many_trials_as_asked_for_fit_on_a_gpu(per_gpu: int) -> None:
    """Ray rounds the share to four digits."""
    share = WorkerGroupConfig(1, 1, gpu=True, per_gpu=per_gpu).worker_resources["gpu"]
    assert share == round(share, 4) and round(share * 10_000) * per_gpu <= 10_000 < round(share * 10_000) * (
        per_gpu + 1
    )


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[float]]:
    now = [100.0]
    monkeypatch.setattr(failure_monitor.time, "monotonic", lambda: now[0])
    yield now


def test_waiting_for_nodes_is_reported_once(clock: list[float]) -> None:
    room = {"10.0.0.1": 1}
    monitor = FailureMonitor("run", 2, "CPU", lambda: room)
    waits, runs = ControlStatus([], "ReschedulingState"), ControlStatus([], "RunningState")
    assert monitor.check(waits) is None and monitor.waiting
    clock[0] += 11
    assert "waiting for nodes: 2 workers need 2 CPUs, and the cluster has 1 (10.0.0.1: 1)" in (
        monitor.check(waits) or ""
    )
    clock[0] += 11
    assert monitor.check(waits) is None
    assert monitor.check(runs) is None and not monitor.waiting
    clock[0] += 11
    assert monitor.check(runs) is None
    room["10.0.0.2"] = 1
    assert monitor.check(waits) is None
    clock[0] += 11
    assert monitor.check(waits) is None  # there is capacity: they are about to start


def test_a_lost_and_returning_head_is_reported(clock: list[float]) -> None:
    runs = ControlStatus([], "RunningState")
    with socket.create_server(("127.0.0.1", 0)) as server:
        head = server.getsockname()
        monitor = FailureMonitor("run", 1, "CPU", dict, head)
        clock[0] += 6
        assert monitor.check(runs) is None
    clock[0] += 6
    assert f"head at 127.0.0.1:{head[1]} does not answer" in (monitor.check(runs) or "")
    clock[0] += 6
    assert monitor.check(runs) is None
    with socket.create_server(head):
        clock[0] += 6
        assert (monitor.check(runs) or "").endswith("is back.")


def test_failures_are_counted_until_training_makes_progress() -> None:
    monitor = FailureMonitor("run", 1, "CPU", dict)
    for failures in range(10):  # each time after more updates
        monitor.started(100 * failures, ControlStatus([], failures=failures))
        monitor.check(ControlStatus([], "RunningState", failures + 1))
    for failures in range(10, 10 + MAX_FAILURES - 1):
        monitor.started(900, ControlStatus([], failures=failures))
        monitor.check(ControlStatus([], "RunningState", failures + 1))
    with pytest.raises(TrainingError, match="failed 4 times without coming any further, at last with: out of memory"):
        monitor.check(ControlStatus([], "RestartingState", 9 + MAX_FAILURES + 1, "out of memory"))


def test_workers_that_do_not_report_waiting_are_the_missing_ones() -> None:
    control = ControlActor()
    for rank in range(3):
        assert control.register_worker(rank, f"process {rank}") == 1
    assert control.describe_lost() == ""
    control.report_lost(0, 3, 20.1)
    assert (
        control.describe_lost()
        == "rank 1 (process 1) and rank 2 (process 2) took no part in a sum over 3 workers, within 20 s"
    )
    control.report_lost(2, 3, 20.2)
    control.report_failure([], "what Ray says", "all of it")
    assert control.poll(0).reason == "rank 1 (process 1) took no part in a sum over 3 workers, within 20 s"
    control.report_lost(1, 3, 1.0)
    assert control.describe_lost().startswith("the network failed in a sum over 3 workers")
    assert control.register_worker(0, "another") == 2
    control.report_failure([], "what Ray says", "all of it")
    assert control.poll(0).reason == "what Ray says"
    control.report_failure([0, 1], "what Ray says", "all of it")
    status = control.poll(0)
    assert (status.failures, status.details, status.reason) == (
        3,
        "all of it",
        "rank 0 (another) and rank 1 (process 1) have died",
    )
