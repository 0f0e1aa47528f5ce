"""Training on a GPU: every recipe's update equals that on the CPU. `pytest -m gpu`."""

import copy
from dataclasses import dataclass
from typing import Literal

import pytest
import torch
from torch import Tensor

from interlinear.batch import Batch
from interlinear.models.model import Model
from tests.gpu import GPU, ON_GPU, RECIPES, on_devices, sample, sample_batch, waits_raised
from training.loop.process_group import SingleProcess
from training.loop.training_step import Objective, ResultCopy, StepResult, TrainingStep
from training.recipe import load_recipe

RATE = 0.1  # of learning: what an update changes is far above rounding
FP32, BF16 = 1e-3, 1e-2
BF16_GRADIENT = 0.15  # on a CPU up to 0.09 (multimodal_hierarchical), which has the same rounding


@dataclass(frozen=True)
class Update:
    """An update's result, gradients before clipping by parameter name, and the parameters after it."""

    result: StepResult
    gradients: dict[str, Tensor]
    parameters: dict[str, Tensor]

    @property
    def gradient(self) -> Tensor:
        return torch.cat([gradient.flatten() for gradient in self.gradients.values()])


def step_of(recipe: str, model: Model, device: str, precision: Literal["fp32", "bf16"] = "fp32") -> TrainingStep:
    settings = load_recipe(recipe).training.model_copy(update={"precision": precision, "clip": None})
    return TrainingStep(settings, Objective(settings), model.train(), SingleProcess(), torch.device(device))


def update(step: TrainingStep, batch: Batch, rate: float = RATE) -> Update:
    result = ResultCopy(step.run([batch], sum(batch.target_lengths), rate, 0)).read()
    named = dict(step.model.named_parameters())
    gradients = {name: parameter.grad.cpu() for name, parameter in named.items() if parameter.grad is not None}
    return Update(result, gradients, {name: parameter.detach().cpu() for name, parameter in named.items()})


def distance(found: Tensor, expected: Tensor) -> float:
    """The norm of the difference, relative to that of the expected values."""
    return float((found.double() - expected.double()).norm() / expected.double().norm())


@on_devices()
def test_an_update_equals_that_on_the_cpu(device: str, recipe: str) -> None:
    """Loss, each parameter's gradient, and its value after the optimizer's step, in fp32."""
    model = sample(recipe)
    batch = sample_batch(model)
    expected = update(step_of(recipe, copy.deepcopy(model), "cpu"), batch)
    found = update(step_of(recipe, copy.deepcopy(model).to(device), device), batch)
    assert found.result.objective == pytest.approx(expected.result.objective, rel=FP32)
    assert found.result.nats == pytest.approx(expected.result.nats, rel=FP32)
    assert found.gradients.keys() == expected.gradients.keys()
    rounding = 1e-5 * float(expected.gradient.norm())
    for name, gradient in expected.gradients.items():
        if gradient.norm() < rounding:  # a softmax does not depend on a number that is added to all of its energies
            assert found.gradients[name].norm() < 2 * rounding, name
            continue
        assert distance(found.gradients[name], gradient) < FP32, name
        # Adam and Adadelta divide by the gradient's size, which magnifies the rounding of what is nearly zero.
        large = gradient.abs() > 1e-3 * gradient.abs().max()
        before = dict(model.named_parameters())[name].detach()
        changes = [parameters[name][large] - before[large] for parameters in (found.parameters, expected.parameters)]
        assert distance(*changes) < 10 * FP32, name
        assert distance(found.parameters[name][large], expected.parameters[name][large]) < FP32, name


@on_devices()
def test_an_update_in_bf16_is_near_that_in_fp32(device: str, recipe: str) -> None:
    model = sample(recipe)
    batch = sample_batch(model)
    expected = update(step_of(recipe, copy.deepcopy(model), "cpu"), batch)
    found = update(step_of(recipe, copy.deepcopy(model).to(device), device, "bf16"), batch)
    assert found.result.objective == pytest.approx(expected.result.objective, rel=BF16)
    assert distance(found.gradient, expected.gradient) < BF16_GRADIENT


@on_devices([recipe for recipe in RECIPES if load_recipe(recipe).training.objective != "risk"], on_cpu=None)
def test_the_host_does_not_wait_in_an_update(device: str, recipe: str) -> None:
    """torch raises where it would."""
    model = sample(recipe)
    batch, step = sample_batch(model).pin_memory(), step_of(recipe, model.to(device), device)
    step.run([batch], 1, RATE, 0)  # the optimizer makes its state
    with waits_raised():
        step.run([batch], 1, RATE, 1)


@pytest.mark.parametrize("device", [pytest.param(GPU, marks=ON_GPU)])
def test_a_batch_that_does_not_fit_is_learned_in_halves(device: str) -> None:
    """With less memory than the update needs, CUDA's allocator raises its own error; the gradient is the same.

    A half needs little more than half, as most of the memory is for what each row keeps until its backward pass.
    """
    model = sample("rnnsearch", size=256, vocabulary=8000)
    batch = sample_batch(model, sentences=2048)
    step = step_of("rnnsearch", model.to(device), device)
    update(step, batch)  # the optimizer's state, and what CUDA's libraries keep
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats(device)
    held = torch.cuda.memory_allocated(device)
    whole = update(step, batch, rate=0.0)
    needed = torch.cuda.max_memory_allocated(device) - held
    torch.cuda.empty_cache()
    limit = torch.cuda.memory_reserved(device) + needed * 3 // 4
    torch.cuda.set_per_process_memory_fraction(limit / torch.cuda.mem_get_info(device)[1], device)
    try:
        halved = update(step, batch, rate=0.0)
    finally:
        torch.cuda.set_per_process_memory_fraction(1.0, device)
    assert (whole.result.splits, halved.result.splits) == (0, 1)
    assert halved.result.objective == pytest.approx(whole.result.objective, rel=FP32)
    for name, gradient in whole.gradients.items():
        assert distance(halved.gradients[name], gradient) < FP32, name
