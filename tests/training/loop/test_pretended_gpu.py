"""Updates on a pretended CUDA device: the host never waits for it, but for their results."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from interlinear.devices import to_device
from tests.interlinear.recipes import EACH_ORDER, RECIPES, each_recipe, small
from tests.pretended_gpu.device import pretended_gpu
from tests.pretended_gpu.process import on_a_pretended_gpu
from tests.training.loop.updates import with_guide
from training.loop.process_group import SingleProcess
from training.loop.training_step import Objective, ResultCopy, TrainingStep
from training.recipe import GuideSettings, load_recipe

pytestmark = pytest.mark.timeout(600)  # the first test imports torch and the project in another process

CUDA = torch.device("cuda", 0)
FOR_RESULT = {"training/loop/training_step.py ResultCopy.read": 1}


class OneOfTwo(SingleProcess):
    """A rank whose sums nobody else adds to: the gradients go through the buffer of several workers."""

    world_size = 2


def waits(recipe: str, recorded: bool = False, workers: int = 1, guided: bool = False) -> list[dict[str, int]]:
    """By function, how often the host waits in two updates of three batches, and for the result of one. The recorded
    gradients of a batch's shape are computed, captured and replayed."""
    model, batch = small(recipe)
    changes = {"precision": "bf16", "objective": "likelihood", "risk": None}
    if guided:
        changes["guide"] = GuideSettings.model_validate({"from": "hmm"})
        batch = with_guide(batch)
    settings = load_recipe(recipe).training.model_copy(update=changes)
    with pretended_gpu() as gpu:
        batch = batch.pin_memory()  # as the loader does
        group = OneOfTwo() if workers == 2 else SingleProcess()
        step = TrainingStep(settings, Objective(settings), model.to(CUDA), group, CUDA, recorded)
        gpu.waits.clear()
        for update, batches in enumerate(([batch, batch], [batch])):
            enqueued = step.run(batches, normalizer=5, rate=0.1, updates_done=update)
        found = [dict(gpu.waits)]
        gpu.waits.clear()
        ResultCopy(enqueued).read()
        assert (gpu.streams, gpu.graphs) == (int(recorded), int(recorded))
    assert step.bf16 and all(parameter.grad is not None and parameter.grad.is_cuda for parameter in step.parameters)
    return [*found, dict(gpu.waits)]


@each_recipe(quick=EACH_ORDER)
def test_the_host_does_not_wait_in_recorded_updates(recipe: str) -> None:
    assert on_a_pretended_gpu(waits, recipe, recorded=True, workers=2) == [{}, FOR_RESULT]


@each_recipe(quick=("rnnsearch",))
def test_the_host_does_not_wait_in_updates(recipe: str) -> None:
    assert on_a_pretended_gpu(waits, recipe) == [{}, FOR_RESULT]


@each_recipe([recipe for recipe in RECIPES if not load_recipe(recipe).images], quick=("uam",))
def test_the_host_does_not_wait_in_guided_updates(recipe: str) -> None:
    assert on_a_pretended_gpu(waits, recipe, workers=2, guided=True) == [{}, FOR_RESULT]


def waits_of(change: str) -> int:
    """How often the host waits for one operation."""
    on_host, numbers = torch.arange(4.0), torch.ones(3, dtype=torch.int64)
    operations: dict[str, Callable[[Tensor], object]] = {
        "a sum": lambda x: x.sum(),
        "a copy from page-locked memory": lambda x: to_device([on_host, numbers], CUDA),
        "a number filled in": lambda x: x[0].fill_(1),
        "a number assigned": lambda x: x.__setitem__(0, 1),
        "a copy": lambda x: on_host.to(CUDA),
        "a copy from pageable memory": lambda x: on_host.to(CUDA, non_blocking=True),
        "a copy to the host": lambda x: x.cpu(),
        "a new tensor of numbers": lambda x: torch.tensor([1, 2], device=CUDA),
        "a number read": lambda x: x.sum().item(),
        "rows chosen by a mask": lambda x: x[x > 0],
        "tensors on both devices": lambda x: x + on_host,
    }
    with pretended_gpu() as gpu:
        x = torch.zeros(4, device=CUDA)
        try:
            operations[change](x)
        except RuntimeError:
            return -1
        return gpu.waits.total()


@pytest.mark.parametrize(
    ("change", "waiting"),
    [
        ("a sum", 0), ("a copy from page-locked memory", 0), ("a number filled in", 0), ("a number assigned", 1),
        ("a copy", 1), ("a copy from pageable memory", 1), ("a copy to the host", 1), ("a new tensor of numbers", 1),
        ("a number read", -1), ("rows chosen by a mask", -1), ("tensors on both devices", -1),
    ],
)  # fmt: skip
def test_what_waits_on_a_gpu_is_seen(change: str, waiting: int) -> None:
    """-1: raises, as there are no values."""
    assert on_a_pretended_gpu(waits_of, change) == waiting
