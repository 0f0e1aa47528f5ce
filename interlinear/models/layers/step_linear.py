"""Linear maps inside a recurrence, with one matrix product for the weight gradient over all steps.

With plain autograd, a map W x_t that every step applies would compute and add a weight-sized gradient at every step.
Their sum equals one product of all output gradients with all inputs: `UnrolledInputs` keeps the inputs and computes
that product once. Axes: L steps, N rows, I inputs, O outputs.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from interlinear.devices import autocast_dtype


def product_dtype(weight: Tensor) -> torch.dtype:
    """The dtype of a product with a weight: autocast's where it is enabled, except for float64, else the weight's."""
    dtype = None if weight.dtype == torch.float64 else autocast_dtype(weight.device)
    return dtype or weight.dtype


def at_least_fp32(leaf: Tensor) -> Tensor:
    """Casts a tensor that accumulates over steps to at least fp32."""
    return leaf.to(torch.promote_types(leaf.dtype, torch.float32))


class StepLinear(nn.Module):
    """The map x -> precomputed + W x, applied at every step; `precomputed` does not depend on the recurrence."""

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(outputs, inputs))

    def forward(self, x: Tensor) -> Tensor:
        """W x, in the dtype of products with the weight."""
        return F.linear(x.to(product_dtype(self.weight)), self.weight)


class StepInputs:
    """Applies the recurrent maps at one step: `step(part, x)` is precomputed + W x, for any leading axes of x."""

    def __init__(self, precomputed: Mapping[StepLinear, Tensor]) -> None:
        self.precomputed = precomputed

    def __call__(self, part: StepLinear, x: Tensor) -> Tensor:
        product: Tensor = part(x)
        return product + self.precomputed[part].to(product.dtype) if part in self.precomputed else product


class BiasedStepLinear(nn.Module):
    """A linear map with a bias inside the recurrence."""

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.map = StepLinear(inputs, outputs)
        self.bias = nn.Parameter(torch.zeros(outputs))

    def precompute(self) -> dict[StepLinear, Tensor]:
        return {self.map: self.bias}

    def forward(self, step: StepInputs, x: Tensor) -> Tensor:
        return step(self.map, x)


def words_or_bias(layer: nn.Linear | None, bias: nn.Parameter | None, words: Tensor) -> Tensor:
    """The precomputed term of a map: the layer's product with words where it has one, else the bias alone."""
    if layer is not None:
        product: Tensor = layer(words)
        return product
    assert bias is not None
    return bias


def terms_at_every_step(
    module: nn.Module, terms: Mapping[StepLinear, Tensor], axes: Sequence[int]
) -> dict[StepLinear, Tensor]:
    """The precomputed term (*axes, O) of every map in a module: biases repeated, zeros where there is none; each in the
    product's dtype. The first of `axes` is the steps'."""
    maps = [part for part in module.modules() if isinstance(part, StepLinear)]
    zeros = {part: part.weight.new_zeros(part.weight.shape[0]) for part in maps if part not in terms}
    return {
        part: term.to(product_dtype(part.weight)).expand(*axes, term.shape[-1])
        for part, term in {**terms, **zeros}.items()
    }


class UnrolledInputs:
    """The recurrent maps over L steps; `unrolled[t]` applies them at step t.

    `precomputed` holds (L, ..., O) for every map, in the dtype that the products will have.
    """

    def __init__(self, precomputed: Mapping[StepLinear, Tensor]) -> None:
        self.inputs: dict[StepLinear, list[Tensor]] = {part: [] for part in precomputed}
        self.steps = {
            part: _SummedWeightGradient.apply(rows, part.weight, self.inputs[part]).unbind(0)
            for part, rows in precomputed.items()
        }
        self.weights = {part: part.weight.detach().to(rows.dtype).t() for part, rows in precomputed.items()}

    def __getitem__(self, step: int) -> "UnrolledStepInputs":
        return UnrolledStepInputs(self, step)


class UnrolledStepInputs(StepInputs):
    """One step of `UnrolledInputs`: keeps the inputs of each map for its weight gradient."""

    def __init__(self, unrolled: UnrolledInputs, step: int) -> None:
        self.unrolled = unrolled
        self.step = step

    def __call__(self, part: StepLinear, x: Tensor) -> Tensor:
        precomputed = self.unrolled.steps[part][self.step]
        rows_NI = x.flatten(0, -2).to(precomputed.dtype)
        self.unrolled.inputs[part].append(rows_NI.detach())
        product_NO = torch.addmm(precomputed.flatten(0, -2), rows_NI, self.unrolled.weights[part])
        return product_NO.view(*x.shape[:-1], -1)


class _SummedWeightGradient(torch.autograd.Function):
    """The identity on `precomputed`; backward also computes the weight's gradient from the gradients of all steps.

    The loop adds W x_t to precomputed_t, so the product has the gradient of precomputed_t, and
    dW = sum_t grad_t x_t' . Backward runs after the last step, so `inputs` is complete.
    """

    @staticmethod
    def forward(ctx: Any, precomputed_LNO: Tensor, weight: Tensor, inputs: list[Tensor]) -> Tensor:
        ctx.inputs, ctx.dtype = inputs, weight.dtype
        return precomputed_LNO.view_as(precomputed_LNO)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, Tensor, None]:
        (gradient,) = gradients
        inputs = torch.cat(ctx.inputs)
        ctx.inputs.clear()  # free the inputs: the list outlives the graph
        return gradient, (gradient.reshape(-1, gradient.shape[-1]).t() @ inputs).to(ctx.dtype), None
