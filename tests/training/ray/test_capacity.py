"""The number of workers of a training, and of trials of a tuning, where the user gives none."""

import os
from pathlib import Path

import pytest

from interlinear.errors import UsageError
from tests.training.observers import StopAfterUpdates
from tests.training.toy import toy_job
from training.loop.trainer import train
from training.ray import capacity
from training.ray.capacity import default_workers, trials_at_once, worker_bytes
from training.ray.cluster import have_token

PLENTY = 2**40
TOY_BATCH = 58  # pairs in 300 target tokens, of which a toy sentence has five with its end symbol


def test_a_cluster_where_no_home_folder_can_have_a_token_has_one_of_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("RAY_AUTH_TOKEN", "RAY_AUTH_TOKEN_PATH"):
        monkeypatch.setenv(name, "")
    monkeypatch.setenv("HOME", str(tmp_path))
    have_token()
    assert not os.environ["RAY_AUTH_TOKEN"], "Ray keeps one in the home folder"
    monkeypatch.setenv("HOME", "/proc")
    have_token()
    assert len(os.environ["RAY_AUTH_TOKEN"]) == 64


@pytest.mark.parametrize(
    ("processors", "workers_in_memory", "settings", "expected", "reason"),
    [
        (1, 99, (), 1, "1 worker, one for each processor"),
        (2, 99, (), 2, "2 workers, one for each processor"),
        (8, 3, (), 3, "3 workers on 8 processors, since the free memory suffices for no more"),
        (4, 0.5, (), 1, "1 worker on 4 processors, since the free memory suffices for no more"),
        (64, 99, (), 7, f"7 workers on 64 processors, since a batch has about {TOY_BATCH} pairs"),
        (
            4, 99, ("training.batch_tokens=null", "training.batch_sentences=4"),
            1, "1 worker on 4 processors, since a batch has about 4 pairs",
        ),
        (
            999, 9999, ("training.batch_tokens=null", "training.batch_sentences=5000"),
            75, "75 workers on 999 processors, since a batch has about 600 pairs",
        ),
    ],
)  # fmt: skip
def test_one_worker_for_each_processor_where_memory_and_batch_suffice(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    processors: int,
    workers_in_memory: float,
    settings: tuple[str, ...],
    expected: int,
    reason: str,
) -> None:
    job = toy_job(tmp_path, settings=settings)
    memory = int((workers_in_memory + 0.01) * worker_bytes(job.recipe) / capacity.MEMORY_SHARE)
    monkeypatch.setattr(capacity, "available_cpus", lambda: processors)
    monkeypatch.setattr(capacity, "available_memory", lambda: memory)
    assert default_workers(job) == (expected, reason)


def test_a_resumed_run_keeps_its_number_of_workers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With another number, dropout would draw other random numbers."""
    monkeypatch.setattr(capacity, "available_cpus", lambda: 2)
    monkeypatch.setattr(capacity, "available_memory", lambda: PLENTY)
    train(toy_job(tmp_path), StopAfterUpdates(2))
    assert default_workers(toy_job(tmp_path, resume=True)) == (1, "1 worker, as before")
    assert default_workers(toy_job(tmp_path, "another")) == (2, "2 workers, one for each processor")


@pytest.mark.parametrize(("processors", "per_gpu", "expected"), [(16, 1, 2), (16, 4, 8), (6, 4, 6)])
def test_trials_that_share_a_gpu_take_a_processor_each(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, processors: int, per_gpu: int, expected: int
) -> None:
    recipe = toy_job(tmp_path).recipe
    monkeypatch.setattr("torch.cuda.device_count", lambda: 2)
    monkeypatch.setattr(capacity, "available_cpus", lambda: processors)
    monkeypatch.setattr(capacity, "available_memory", lambda: PLENTY)
    assert trials_at_once(recipe, None, gpu=True, per_gpu=per_gpu) == expected
    with pytest.raises(UsageError, match=f"--at-once 9: .* this machine has 2. Ask for {2 * per_gpu} at most"):
        trials_at_once(recipe, 9, gpu=True, per_gpu=per_gpu)
