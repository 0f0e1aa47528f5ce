"""Results of updates that the host reads some updates later, as on a GPU: the training is the same."""

import itertools
import math
import signal
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from interlinear.errors import TrainingError
from tests.processes import in_ranks
from tests.training.loop.test_out_of_memory import fits
from tests.training.observers import RecordingObserver, StopAfterUpdates
from tests.training.toy import toy_job
from training.events import Observer, Outcome, TrainingJob
from training.loop import shared_memory
from training.loop.checkpoints.checkpoint_manager import CheckpointManager
from training.loop.process_group import Collective, ProcessGroup, SingleProcess, TorchProcessGroup, WorkerLostError
from training.loop.trainer import Trainer
from training.loop.training_step import GPU_READ_DELAY

CPU = torch.device("cpu")
SAVE_ALWAYS = "training.save_minutes=0.000001"


def trainer(
    job: TrainingJob,
    workers: ProcessGroup | None = None,
    observers: Sequence[Observer] = (),
    delay: int = GPU_READ_DELAY,
) -> Trainer:
    training = Trainer(job, workers or SingleProcess(), observers, CPU)
    training.step.read_delay = delay
    return training


@pytest.fixture(scope="module")
def undelayed(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Outcome, RecordingObserver]:
    """A training of which every result is read at once, and its folder."""
    folder, notes = tmp_path_factory.mktemp("undelayed"), RecordingObserver()
    return folder, trainer(toy_job(folder), observers=[notes], delay=0).run(), notes


def test_weights_and_reported_losses_are_the_same(undelayed: tuple[Path, Outcome, RecordingObserver]) -> None:
    folder, expected, notes = undelayed
    delayed = RecordingObserver()
    outcome = trainer(toy_job(folder, "delayed"), observers=[delayed]).run()
    assert (outcome.weights_sha256, outcome.updates) == (expected.weights_sha256, expected.updates)
    assert [one.train_loss for one in delayed.epochs] == [one.train_loss for one in notes.epochs]


@pytest.mark.parametrize(
    ("updates", "settings"),
    [
        (3, ()),
        (14, (SAVE_ALWAYS,)),
        *(pytest.param(*case, marks=pytest.mark.slow) for case in ((3, (SAVE_ALWAYS,)), (14, ()))),
    ],
)
def test_a_stopped_training_resumes_to_the_same_weights(
    undelayed: tuple[Path, Outcome, RecordingObserver], updates: int, settings: tuple[str, ...]
) -> None:
    """It stops as many updates after the request as results are late, and at the end of an epoch at the latest."""
    folder, expected, _ = undelayed
    run = f"stopped-{updates}-{len(settings)}"
    stopped = trainer(toy_job(folder, run, settings=settings), StopAfterUpdates(updates))
    first = stopped.run()
    an_epoch = stopped.plan(1).updates
    assert 3 + GPU_READ_DELAY < an_epoch < 14 + GPU_READ_DELAY
    assert (first.signal, first.updates) == (signal.SIGTERM, min(updates + GPU_READ_DELAY, an_epoch))
    assert stopped.progress.tokens == sum(stopped.plan(1).target_tokens(update) for update in range(first.updates))
    assert trainer(toy_job(folder, run, resume=True, settings=settings)).run().weights_sha256 == expected.weights_sha256


def test_an_update_that_is_not_finite_is_named_and_nothing_after_it_is_saved(tmp_path: Path) -> None:
    errors = []
    always = ["training.keep_last=9", SAVE_ALWAYS]
    for delay, settings in ((0, always), (GPU_READ_DELAY, always), (GPU_READ_DELAY, [])):
        job = toy_job(tmp_path, f"delay-{delay}-{len(settings)}", settings=settings)
        training = trainer(job, delay=delay)
        updates = itertools.count(1)
        weight = training.model.encoders["source"].words.weight
        weight.register_hook(lambda gradient, updates=updates: gradient * (math.inf if next(updates) == 5 else 1))
        with pytest.raises(TrainingError, match="the gradient is not finite") as caught:
            training.run()
        errors.append(str(caught.value).replace(job.name, "run"))
        states = CheckpointManager(job.run, keep=9).states()
        assert [path.name for path in states] == [f"state-{update:09}" for update in range(1, 5) if settings]
        for state in states:
            assert all(tensor.isfinite().all() for tensor in load_file(state / "tensors.safetensors").values())
    assert len(set(errors)) == 1 and "epoch 1, update 5" in errors[0]


def test_split_batches_are_counted(tmp_path: Path) -> None:
    counts = []
    for delay in (0, GPU_READ_DELAY):
        training = trainer(toy_job(tmp_path, f"delay-{delay}", settings=["training.epochs=1"]), delay=delay)
        fits(training, 50)
        training.run()
        counts.append(training.progress.split_batches)
    assert counts[0] == counts[1] > 0


@dataclass(frozen=True)
class RankResult:
    """A rank's final weights when its results are read at once and late; updates done when rank 1 asked for a stop."""

    at_once: str | None
    late: str | None
    stopped_after: int
    resumed: str | None
    lost: str


class StopLater(TorchProcessGroup):
    """Rank 1 asks for a stop before its sixth update."""

    asked = 0

    def stop_requested(self) -> int:
        self.asked += 1
        return signal.SIGTERM if self.rank == 1 and self.asked >= 6 else 0


def enqueuing_rank(rank: int, jobs: Sequence[TrainingJob]) -> RankResult:
    """Without shared memory, so that sums are collectives that are enqueued, as by NCCL."""
    shared_memory.FOLDER = Path("not there")
    at_once, late, interrupted = jobs
    hashes = [
        trainer(job, TorchProcessGroup(), delay=delay).run().weights_sha256
        for job, delay in ((at_once, 0), (late, GPU_READ_DELAY))
    ]
    stopped = trainer(interrupted, StopLater()).run()
    again = trainer(replace(interrupted, resume=True), TorchProcessGroup()).run()
    group = TorchProcessGroup()
    lost = ""
    if rank == 0:
        try:  # rank 1 leaves
            for _ in range(1000):
                pending = group.all_reduce(torch.zeros(5), enqueue=True)
                assert pending is not None
                pending.wait()
        except WorkerLostError as error:
            lost = str(error)
    return RankResult(hashes[0], hashes[1], stopped.updates, again.weights_sha256, lost)


@pytest.mark.slow
def test_ranks_that_enqueue_their_sums_train_the_same_and_stop_at_the_same_update(tmp_path: Path) -> None:
    """As with NCCL, here with gloo. Rank 0 reads results early wherever it saves; it must not stop earlier for that."""
    brief = ["training.epochs=1", "training.average=1"]
    jobs = [toy_job(tmp_path, run, settings=brief) for run in ("at-once", "late")]
    jobs.append(toy_job(tmp_path, "interrupted", settings=[*brief, SAVE_ALWAYS]))
    results = in_ranks(2, enqueuing_rank, jobs)
    assert len({one for result in results for one in (result.at_once, result.late, result.resumed)}) == 1
    assert [result.stopped_after for result in results] == [6 + GPU_READ_DELAY] * 2
    assert any("took no part in a sum" in result.lost for result in results)


class NeverDone(torch.distributed.Work):
    """An NCCL collective that another rank does not join: its stream waits, and the host may go on."""

    def is_completed(self) -> bool:
        return False

    def wait(self, *_timeout: object) -> bool:
        return True

    def get_future(self) -> torch.futures.Future[None]:
        future = torch.futures.Future[None]()
        future.set_result(None)
        return future


def test_an_enqueued_sum_that_a_rank_does_not_join_ends_at_its_deadline(tmp_path: Path) -> None:
    torch.distributed.init_process_group("gloo", f"file://{tmp_path / 'meeting'}", world_size=1, rank=0)
    try:
        collective = Collective(TorchProcessGroup(timeout=0.05), NeverDone)
        collective.wait_on_device()
        with pytest.raises(WorkerLostError, match="within 0 s"):
            collective.wait()
    finally:
        torch.distributed.destroy_process_group()


def test_the_buffer_of_a_gpu_is_in_its_own_memory(tmp_path: Path) -> None:
    """Here the meta device stands for it."""
    torch.distributed.init_process_group("gloo", f"file://{tmp_path / 'meeting'}", world_size=1, rank=0)
    try:
        group = TorchProcessGroup()
        assert group.buffer(5, torch.device("meta")).device.type == "meta" and group.shared is None
    finally:
        torch.distributed.destroy_process_group()
