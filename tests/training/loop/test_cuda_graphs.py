"""Gradients computed from buffers, as CUDA graphs need it, equal those computed from the batches.

Without a GPU the recorded function runs as it is; tests/training/loop/test_gpu_graphs.py runs the graphs.
"""

import gc
import pickle
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from interlinear.batch import tensors_of
from interlinear.minimum_risk.minimum_risk import RiskOptions
from interlinear.search.captured import CapturedStep
from interlinear.search.step import search_step
from tests.interlinear.recipes import EACH_ORDER, each_recipe, small
from tests.training.loop.test_out_of_memory import WHOLE, assert_same, assert_two_workers_equal_one, first_update, fits
from tests.training.loop.updates import SHAPES, batches_of, step_of, updates, weights_of, with_guide
from tests.training.observers import RecordingObserver, StopAfterUpdates
from tests.training.toy import toy_job
from training.events import TrainingJob
from training.loop import cuda_graphs
from training.loop.cuda_graphs import CaptureError, FunctionRecorder, Graph
from training.loop.process_group import ProcessGroup, SingleProcess, WorkerLostError
from training.loop.trainer import Trainer, train
from training.loop.training_step import Objective, TrainingStep
from training.recipe import load_recipe

CPU, META = torch.device("cpu"), torch.device("meta")


def with_buffers(job: TrainingJob, workers: ProcessGroup | None = None, *observers: RecordingObserver) -> Trainer:
    """A training on the CPU that computes as it would on a GPU, but for the graphs themselves."""
    training = Trainer(job, workers or SingleProcess(), observers, CPU)
    training.step = TrainingStep(
        training.settings, training.objective, training.model, training.workers, CPU, True, training.warn
    )
    return training


@each_recipe(quick=EACH_ORDER)
def test_updates_from_buffers_equal_those_of_the_batches(recipe: str) -> None:
    """Of every recipe, with its dropout, over batches of two shapes and many lengths: nothing is left in the buffers
    from the batch before, and each part of an update adds its own gradients."""
    batches = batches_of(small(recipe)[0])
    assert len({tuple(tensor.shape for tensor in tensors_of(batch)) for batch in batches}) == len(SHAPES)
    plain, buffered = step_of(recipe, False, CPU), step_of(recipe, True, CPU)
    torch.testing.assert_close(updates(buffered, batches), updates(plain, batches), rtol=1e-6, atol=0)
    torch.testing.assert_close(weights_of(buffered), weights_of(plain), rtol=0, atol=1e-8)
    assert buffered.captured and len(buffered.captured.buckets) == len(SHAPES)
    assert all(bucket.graph for bucket in buffered.captured.buckets.values())


GUIDED = [
    "rnnsearch_guided", "contextual_gates", "interactive_attention", "coverage_linguistic", "uam", "postedit_concat",
    "postedit_flat",
]  # fmt: skip


@each_recipe(GUIDED, quick=("contextual_gates", "coverage_linguistic", "uam", "postedit_flat"))
def test_guided_updates_from_buffers_equal_those_of_the_batches(recipe: str) -> None:
    """Every second batch has no guide, as after the guide's last epoch: it has buffers and sums of its own."""
    batches = [with_guide(each) if number % 4 < 2 else each for number, each in enumerate(batches_of(small(recipe)[0]))]
    plain, buffered = step_of(recipe, False, CPU), step_of(recipe, True, CPU)
    found = updates(buffered, batches)
    torch.testing.assert_close(found, updates(plain, batches), rtol=1e-6, atol=0)
    torch.testing.assert_close(weights_of(buffered), weights_of(plain), rtol=0, atol=1e-8)
    guide_nats, words = found[:, 4], found[:, 5]
    assert (words[1:3] > 0).all() and (guide_nats[1:3] > 0).all()
    assert words[3] == guide_nats[3] == 0  # neither it nor the batch before it has a guide
    assert buffered.captured and len(buffered.captured.buckets) == 2 * len(SHAPES)


@pytest.mark.parametrize("recipe", ["rnnsearch", "rnnsearch_star", "luong", "uam", "contextual_gates"])
def test_updates_in_bf16(recipe: str) -> None:
    """An LSTM's last memory among them, which is computed from products in bf16; with a guide for some."""
    batches = batches_of(small(recipe)[0], 2)
    batches = [with_guide(batch) for batch in batches] if recipe in GUIDED else batches
    plain, buffered = (step_of(recipe, on, CPU, torch.float32, "bf16") for on in (False, True))
    assert plain.bf16 == buffered.bf16
    torch.testing.assert_close(updates(buffered, batches, 0.0), updates(plain, batches, 0.0), rtol=0.02, atol=0)


class RecordOperations(TorchDispatchMode):
    """Records every operation with the shapes of its tensors and the values of all other arguments."""

    def __init__(self) -> None:
        super().__init__()
        self.operations: list[tuple[Any, ...]] = []

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):  # type: ignore[no-untyped-def]
        result = function(*args, **(kwargs or {}))
        leaves = tree_leaves((args, kwargs, result))
        described = ((leaf.shape, leaf.dtype) if isinstance(leaf, Tensor) else leaf for leaf in leaves)
        self.operations.append((function, *described))
        return result


@each_recipe(quick=EACH_ORDER)
def test_batches_of_one_shape_are_the_same_operations(recipe: str) -> None:
    """With the same arguments, whatever the lengths: what is recorded for one batch is right for the next."""
    recorded = []
    for batch in batches_of(small(recipe)[0])[::2]:
        step = step_of(recipe, True, CPU)
        assert step.captured
        bucket = step.captured.bucket(batch)
        assert bucket
        bucket.load(batch)
        with RecordOperations() as recorder:
            step.captured.compute(bucket.batch)
        recorded.append(recorder.operations)
    assert len(recorded) == 4 and len(recorded[0]) > 100
    for operations in recorded[1:]:
        for own, first in zip(operations, recorded[0], strict=True):
            assert own == first


def test_a_sequence_packed_by_its_lengths_would_be_noticed() -> None:
    """The test above finds operations that differ by lengths: those of a batch whose lengths are on the host."""
    recorded = []
    for batch in batches_of(small("luong")[0])[::2]:
        step = step_of("luong", True, CPU)
        assert step.captured
        with RecordOperations() as recorder:
            step.captured.compute(batch)
        recorded.append(recorder.operations)
    assert any(len(operations) != len(recorded[0]) or operations != recorded[0] for operations in recorded[1:])


class NoHostTensors(TorchDispatchMode):
    """Raises where a tensor of the host takes part, which a graph would copy once, or whose copy it cannot record."""

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):  # type: ignore[no-untyped-def]
        result = function(*args, **(kwargs or {}))
        for leaf in tree_leaves((args, kwargs, result)):
            assert not (isinstance(leaf, Tensor) and leaf.device == CPU), f"{function} with a tensor on the host"
        return result


@each_recipe(quick=EACH_ORDER)
def test_what_is_recorded_reads_nothing_from_the_device_and_nothing_from_the_host(recipe: str) -> None:
    """On the meta device, which has no values to read."""
    model, batch = small(recipe)
    settings = load_recipe(recipe).training.model_copy(update={"precision": "fp32"})
    step = TrainingStep(settings, Objective(settings), model.to(META), SingleProcess(), META, cuda_graphs=True)
    assert step.captured
    bucket = step.captured.bucket(batch)
    assert bucket
    with NoHostTensors():
        step.captured.compute(bucket.batch)
    result = step.run([batch, batch], normalizer=5, rate=0.1, updates_done=0)
    assert result.sums_6.device == result.norm.device == META


def test_no_garbage_is_collected_during_a_recording() -> None:
    """A CUDA graph in a reference cycle would be destroyed, which a recording does not survive."""
    enabled = []

    class Recorder(FunctionRecorder):
        def record(self, compute: Callable[[], None]) -> Graph:
            enabled.append(gc.isenabled())
            return super().record(compute)

    step = step_of("rnnsearch", True, CPU)
    assert step.captured
    step.captured.recorder = Recorder()
    updates(step, batches_of(step.model))
    assert len(enabled) == len(SHAPES) and not any(enabled) and gc.isenabled()


class RefusingRecorder(FunctionRecorder):
    """Records a number of graphs, then fails once as CUDA does, and records again."""

    def __init__(self, graphs: int) -> None:
        self.left = graphs

    def record(self, compute: Callable[[], None]) -> Graph:
        self.left -= 1
        if self.left == -1:
            raise CaptureError("CUDA error: operation not permitted when stream is capturing")
        return super().record(compute)


@pytest.mark.parametrize("graphs", [0, 1])
def test_only_the_shape_that_cannot_be_recorded_has_no_graph(graphs: int) -> None:
    """Also the update whose first part has been added already is right. There is one warning."""
    batches = batches_of(small("rnnsearch")[0])
    plain, warnings = step_of("rnnsearch", False, CPU), []
    buffered = step_of("rnnsearch", True, CPU, warn=warnings.append)
    assert buffered.captured
    buffered.captured.recorder = RefusingRecorder(graphs)
    torch.testing.assert_close(updates(buffered, batches), updates(plain, batches), rtol=1e-6, atol=0)
    torch.testing.assert_close(weights_of(buffered), weights_of(plain), rtol=0, atol=1e-8)
    assert len(buffered.captured.given_up) == 1 and len(buffered.captured.buckets) == len(SHAPES) - 1
    assert all(bucket.graph for bucket in buffered.captured.buckets.values())
    assert warnings == [
        "batches of some shapes are computed without CUDA graphs, and more slowly "
        "(CUDA error: operation not permitted when stream is capturing)"
    ]


def test_the_number_of_graphs_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Batches of further shapes are computed without."""
    batches = batches_of(small("rnnsearch")[0])
    expected = updates(step_of("rnnsearch", True, CPU), batches)
    monkeypatch.setattr(cuda_graphs, "MAX_GRAPHS", 1)
    bounded = step_of("rnnsearch", True, CPU)
    torch.testing.assert_close(updates(bounded, batches), expected, rtol=1e-6, atol=0)
    assert bounded.captured and len(bounded.captured.buckets) == 1


def test_expected_risk_is_computed_without_graphs() -> None:
    """Its candidates are made on the host."""
    settings = load_recipe("rnnsearch").training.model_copy(update={"objective": "risk", "risk": RiskOptions()})
    model, _ = small("rnnsearch")
    assert TrainingStep(settings, Objective(settings), model, SingleProcess(), CPU, True).captured is None


def test_a_training_learns_the_same_and_resumes_exactly(tmp_path: Path) -> None:
    """Interrupted in its second epoch, it ends with the weights of the uninterrupted one, bit for bit."""
    plain = Trainer(toy_job(tmp_path, "plain"), SingleProcess(), [], CPU).run()
    whole = with_buffers(toy_job(tmp_path, "whole")).run()
    assert whole.dev_perplexity == pytest.approx(plain.dev_perplexity, rel=1e-3)
    updates_an_epoch = whole.updates // 3
    stopped = with_buffers(toy_job(tmp_path, "stopped"), StopAfterUpdates(updates_an_epoch + 5)).run()
    assert stopped.signal and updates_an_epoch < stopped.updates < whole.updates
    resumed = with_buffers(toy_job(tmp_path, "stopped", resume=True)).run()
    assert resumed.weights_sha256 == whole.weights_sha256


def test_the_choice_belongs_to_the_job_and_not_to_the_run(tmp_path: Path, toy_weights: str) -> None:
    """It reaches workers in other processes, and a run that is resumed may have another."""
    job = toy_job(tmp_path, "one")
    assert job.cuda_graphs and not pickle.loads(pickle.dumps(replace(job, cuda_graphs=False))).cuda_graphs
    assert train(job, StopAfterUpdates(5)).signal
    resumed = train(replace(toy_job(tmp_path, "one", resume=True), cuda_graphs=False))
    assert resumed.weights_sha256 == toy_weights


def test_the_dev_set_is_searched_with_graphs_on_a_gpu(tmp_path: Path) -> None:
    evaluator = Trainer(toy_job(tmp_path), SingleProcess(), [], CPU).evaluator
    assert evaluator.search_step() is search_step
    evaluator.device = torch.device("cuda", 0)
    assert isinstance(evaluator.search_step(), CapturedStep)
    evaluator.job = replace(evaluator.job, cuda_graphs=False)
    assert evaluator.search_step() is search_step


@pytest.mark.parametrize("backward", [False, True], ids=["forward", "backward"])
def test_out_of_memory_frees_the_graphs_and_then_splits(tmp_path: Path, backward: bool) -> None:
    """The update is the same, and there is one warning."""
    job = toy_job(tmp_path, settings=[*WHOLE, "training.batch_sentences=50", "training.accumulation=3"])
    whole = first_update(Trainer(job, SingleProcess(), [], CPU))
    notes = RecordingObserver()
    training = with_buffers(job, None, notes)
    fits(training, 7, backward=backward)
    halved = first_update(training)
    assert halved.split == 1 and training.step.captured and training.step.captured.given_up
    assert_same(halved, whole)
    (warning,) = notes.warnings
    assert "are computed without CUDA graphs, and more slowly (CUDA out of memory." in warning


def test_memory_that_the_graphs_took_is_enough_without_them(tmp_path: Path) -> None:
    """A batch that fits once they are freed is not split."""
    job = toy_job(tmp_path, settings=[*WHOLE, "training.batch_sentences=50"])
    whole = first_update(Trainer(job, SingleProcess(), [], CPU))
    notes = RecordingObserver()
    training = with_buffers(job, None, notes)

    def forward(_module: Any, _inputs: Iterable[Tensor]) -> None:
        if training.step.captured and training.step.captured.buckets:
            raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 20.00 MiB.")

    training.model.encoders["source"].words.register_forward_pre_hook(forward)
    found = first_update(training)
    assert found.split == 0 and len(notes.warnings) == 1
    assert_same(found, whole)


def test_other_errors_are_not_taken_for_a_lack_of_memory(tmp_path: Path) -> None:
    training = with_buffers(toy_job(tmp_path))

    def forward(_module: Any, _inputs: Iterable[Tensor]) -> None:
        raise RuntimeError("shapes cannot be multiplied")

    training.model.encoders["source"].words.register_forward_pre_hook(forward)
    with pytest.raises(RuntimeError, match="shapes cannot be multiplied"):
        first_update(training)


class LosingAWorker(SingleProcess):
    """One of two workers, of which the other is lost after some sums: to wait for a later sum raises."""

    world_size = 2

    def __init__(self, sums: int) -> None:
        super().__init__()
        self.left = sums

    def all_reduce(self, tensor: Tensor, enqueue: bool = False) -> Any:
        self.left -= 1
        return self

    def wait(self) -> None:
        if self.left < 0:
            raise WorkerLostError("rank 0", "another of the 2 workers took no part in a sum", "check that worker")


def test_a_recording_does_not_wait_for_a_lost_worker_for_ever() -> None:
    """It begins by waiting for the device, which waits for the sum without a time limit."""
    batches = batches_of(small("rnnsearch")[0])[::2]
    step = step_of("rnnsearch", True, CPU, torch.float32, workers=LosingAWorker(2))
    assert step.captured
    for update in range(3):  # of one shape: warms up, records, replays; the last one's sum is never done
        step.run([batches[update]], 1, 0.01, update)
    step.captured.buckets.clear()
    step.run([batches[3]], 1, 0.01, 3)
    with pytest.raises(WorkerLostError, match="took no part in a sum"):
        step.run([batches[0]], 1, 0.01, 4)


def after_an_update(job: TrainingJob, workers: ProcessGroup) -> Trainer:
    """A training whose parameters' gradients are those of a sum."""
    training = with_buffers(job, workers)
    first_update(training)
    return training


@pytest.mark.slow
def test_two_workers_sum_their_gradients(tmp_path: Path) -> None:
    """Also where one of them has given up its graphs."""
    assert_two_workers_equal_one(tmp_path, after_an_update)
