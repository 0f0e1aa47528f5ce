"""A batch that exceeds memory is processed in halves; the update is the same up to rounding."""

import re
import resource
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pytest
import torch

from interlinear.devices import is_out_of_memory
from interlinear.errors import TrainingError
from interlinear.minimum_risk.minimum_risk import RiskOptions
from tests.processes import in_ranks
from tests.training.observers import RecordingObserver
from tests.training.toy import toy_job, write_corpus
from training.events import TrainingJob
from training.loop.batches import BatchLoader, BatchPlan
from training.loop.process_group import ProcessGroup, SingleProcess, TorchProcessGroup
from training.loop.trainer import Trainer, train
from training.loop.training_step import ResultCopy

WHOLE = ["model.dropout=0", "training.clip=null", "training.batch_tokens=null"]
CPU = torch.device("cpu")
Begin = Callable[[TrainingJob, ProcessGroup], Trainer]


@dataclass(frozen=True)
class UpdateResult:
    """Result of an update: the gradient, objective and nats, and how many workers split their part."""

    gradient: np.ndarray
    sums: list[float]
    split: int
    grown: int = 0  # bytes of address space used


def first_update(training: Trainer) -> UpdateResult:
    """The first update, at a learning rate of 0."""
    workers, plan = training.workers, training.plan(1)
    with BatchLoader(training.data, plan, training.texts, workers.rank, workers.world_size) as loader:
        _, batches = next(iter(loader))
    before = address_space("VmSize")
    training.model.train()
    normalizer = training.objective.normalizer(plan.target_tokens(0), plan.sentences(0))
    result = ResultCopy(training.step.run(batches, normalizer, 0.0, 0)).read()
    gradients = [parameter.grad.flatten() for parameter in training.step.parameters if parameter.grad is not None]
    grown = address_space("VmPeak") - before
    return UpdateResult(torch.cat(gradients).numpy(), [result.objective, result.nats], result.splits, grown)


def address_space(what: str) -> int:
    """Bytes of address space that this process uses, or used at most."""
    found = re.search(rf"{what}:\s+(\d+) kB", Path("/proc/self/status").read_text())
    assert found
    return int(found[1]) * 1024


def fits(training: Trainer, rows: int, backward: bool = False) -> None:
    """Make the encoder raise the error of CUDA's allocator for more rows than these."""
    seen: list[int] = []

    def forward(_module: Any, inputs: tuple[torch.Tensor, ...]) -> None:
        seen[:] = [inputs[0].shape[0]]
        if seen[0] > rows and not backward:
            raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 20.00 MiB.")

    def gradient(_gradient: torch.Tensor) -> None:
        if backward and seen[0] > rows:
            raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 20.00 MiB.")

    training.model.encoders["source"].words.register_forward_pre_hook(forward)
    training.model.encoders["source"].words.weight.register_hook(gradient)  # the last gradient that backward computes


def assert_same(one: UpdateResult, other: UpdateResult) -> None:
    np.testing.assert_allclose(one.gradient, other.gradient, rtol=0, atol=1e-6)
    np.testing.assert_allclose(one.sums, other.sums, rtol=1e-5)
    assert np.abs(one.gradient).max() > 1e-3


@pytest.mark.parametrize("backward", [False, True], ids=["forward", "backward"])
@pytest.mark.parametrize("settings", [[], ["training.accumulation=3"]], ids=["one part", "three parts"])
def test_halves_have_the_gradient_of_the_whole_batch(tmp_path: Path, settings: list[str], backward: bool) -> None:
    """Also if backward had accumulated some gradients before it failed."""
    job = toy_job(tmp_path, settings=[*WHOLE, "training.batch_sentences=50", *settings])
    whole = first_update(Trainer(job, SingleProcess(), [], CPU))
    training = Trainer(job, SingleProcess(), [], CPU)
    fits(training, 7, backward=backward)
    halved = first_update(training)
    assert (whole.split, halved.split) == (0, 1)
    assert_same(halved, whole)


def limited(_rank: int, job: TrainingJob, room: int | None) -> UpdateResult:
    training = Trainer(job, SingleProcess(), [], CPU)
    if room is not None:
        resource.setrlimit(resource.RLIMIT_AS, (address_space("VmSize") + room, resource.RLIM_INFINITY))
    return first_update(training)


@pytest.mark.slow
def test_a_process_with_limited_memory_trains_in_halves(tmp_path: Path) -> None:
    """The operating system refuses memory for a batch that takes some hundred megabytes."""
    job = toy_job(tmp_path, settings=[*WHOLE, "training.batch_sentences=600", "model.hidden=256"])
    (whole,) = in_ranks(1, limited, job, None)
    (halved,) = in_ranks(1, limited, job, whole.grown * 2 // 3)
    assert (whole.split, halved.split) == (0, 1)
    assert_same(halved, whole)


def train_in_halves(rank: int, begin: Begin, job: TrainingJob) -> UpdateResult:
    """A worker of two; the second one's batch does not fit."""
    training = begin(job, TorchProcessGroup())
    if rank == 1:
        fits(training, 10)
    return first_update(training)


def assert_two_workers_equal_one(tmp_path: Path, begin: Begin) -> None:
    """The first update of two workers that `begin` begins, of which one trains in halves, equals that of one worker."""
    job = toy_job(tmp_path, settings=[*WHOLE, "training.batch_sentences=50"])
    shares = in_ranks(2, train_in_halves, begin, job)
    whole = first_update(Trainer(job, SingleProcess(), [], CPU))
    assert shares[0].split == shares[1].split == 1
    np.testing.assert_array_equal(shares[0].gradient, shares[1].gradient)
    assert_same(shares[0], whole)


def plain(job: TrainingJob, workers: ProcessGroup) -> Trainer:
    return Trainer(job, workers, [], CPU)


@pytest.mark.slow
def test_other_workers_wait_for_a_worker_that_trains_in_halves(tmp_path: Path) -> None:
    assert_two_workers_equal_one(tmp_path, plain)


@pytest.mark.parametrize("draw", ["samples", "beam"])
def test_minimum_risk_returns_to_training_mode_after_its_search_ran_out_of_memory(
    tmp_path: Path, draw: Literal["samples", "beam"]
) -> None:
    job = toy_job(tmp_path, settings=[*WHOLE, "training.batch_sentences=20"])
    risk = {"objective": "risk", "risk": RiskOptions(draw=draw, candidates=3)}
    settings = job.recipe.training.model_copy(update=risk)
    job = replace(job, recipe=job.recipe.model_copy(update={"training": settings}))
    training = Trainer(job, SingleProcess(), [], CPU)
    fits(training, 6)
    learned = first_update(training)
    assert learned.split == 1 and training.model.training
    assert np.isfinite(learned.gradient).all() and np.abs(learned.gradient).max() > 0


def test_splitting_is_reported_once_and_counted_and_the_result_is_the_same(tmp_path: Path) -> None:
    settings = ["model.dropout=0", "training.epochs=2"]
    expected = train(toy_job(tmp_path, "whole", settings=settings))
    notes = RecordingObserver()
    training = Trainer(toy_job(tmp_path, "halves", settings=settings), SingleProcess(), [notes], CPU)
    fits(training, 50)
    outcome = training.run()
    assert [("did not fit into the memory of 1 worker" in said) for said in notes.warnings] == [True]
    assert 0 < notes.steps[-1].split_batches == training.progress.split_batches <= outcome.updates
    assert outcome.dev_perplexity == pytest.approx(expected.dev_perplexity, rel=1e-2)


def test_a_dev_batch_that_exceeds_memory_is_scored_in_halves(tmp_path: Path) -> None:
    training = Trainer(toy_job(tmp_path), SingleProcess(), [], CPU)
    training.model.eval()
    evaluator = training.evaluator
    plan = BatchPlan({"target": evaluator.dev.lengths("target")}, sentences=40, shuffle=False)
    with BatchLoader(evaluator.dev, plan, training.texts) as loader:
        (_, (batch,)) = next(iter(loader))
    whole = evaluator.sums_of(batch)
    fits(training, 3)
    torch.testing.assert_close(evaluator.sums_of(batch), whole, rtol=1e-5, atol=0)


def test_a_sentence_that_exceeds_memory_alone_is_named(tmp_path: Path) -> None:
    """By its line number in the corpus."""
    write_corpus(tmp_path)
    longest = 300
    for side in ("source", "target"):
        lines = (tmp_path / f"train.{side}").read_text().splitlines()
        lines[longest] = " ".join(lines[longest].split()[:1] * 40)
        (tmp_path / f"train.{side}").write_text("".join(f"{line}\n" for line in lines))
    training = Trainer(toy_job(tmp_path), SingleProcess(), [], CPU)

    def narrow(_module: Any, inputs: tuple[Any, ...]) -> None:
        if inputs[0].shape[1] > 30:
            raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 20.00 MiB.")

    training.model.encoders["source"].words.register_forward_pre_hook(narrow)
    with pytest.raises(TrainingError, match="not even alone") as caught:
        training.run()
    sentence = str(caught.value)
    assert f"line {longest + 1} of the training data (tokens: source 41, target 41)" in sentence
    assert "CUDA out of memory. Tried to allocate 20.00 MiB" in sentence and "training.max_length" in sentence


def test_out_of_memory_errors_are_recognised() -> None:
    with pytest.raises(RuntimeError) as shapes:
        torch.ones(2, 3) @ torch.ones(2, 3)
    with pytest.raises((RuntimeError, MemoryError)) as memory:
        torch.empty(1 << 55, dtype=torch.uint8)
    assert is_out_of_memory(memory.value) and not is_out_of_memory(shapes.value)
    assert is_out_of_memory(torch.AcceleratorError("CUDA error: out of memory\nCUDA kernel errors might be reported"))
    assert not is_out_of_memory(torch.AcceleratorError("CUDA error: an illegal memory access was encountered"))
