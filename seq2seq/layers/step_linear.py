"""Linear maps inside a recurrence, and one product for a weight's gradient over all steps.

A map W x_t that every step applies would, left to autograd, multiply and add a weight-sized gradient at every step.
The gradient is a sum over steps, so it is one product of all gradients with all inputs: `Unrolled` keeps the inputs,
and makes it once. Axes: L steps, N rows, I inputs, O outputs.
"""

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F


def product_dtype(weight: Tensor) -> torch.dtype:
    """The precision of a product with a weight: autocast's where it is on (it leaves float64 alone), else its own."""
    kind = weight.device.type
    if torch.is_autocast_enabled(kind) and weight.dtype != torch.float64:
        return torch.get_autocast_dtype(kind)
    return weight.dtype


def full(leaf: Tensor) -> Tensor:
    """What every step adds to: never below fp32."""
    return leaf.to(torch.promote_types(leaf.dtype, torch.float32))


class Recurrent(nn.Module):
    """The map x -> given + W x, applied at every step; `given` is what does not depend on the recurrence."""

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(outputs, inputs))


class Moment:
    """All recurrent maps at one step: `moment(part, x)` is given + W x, for any leading axes of x."""

    def __init__(self, given: Mapping[Recurrent, Tensor]) -> None:
        self.given = given

    def __call__(self, part: Recurrent, x: Tensor) -> Tensor:
        product = F.linear(x.to(product_dtype(part.weight)), part.weight)
        return product + self.given[part].to(product.dtype) if part in self.given else product


class Unrolled:
    """All recurrent maps over L steps; `at(t)` is the moment t.

    `given` holds (L, ..., O) for every part, in the precision that the products are to have.
    """

    def __init__(self, given: Mapping[Recurrent, Tensor]) -> None:
        self.seen: dict[Recurrent, list[Tensor]] = {part: [] for part in given}
        self.steps = {
            part: _OneProduct.apply(rows, part.weight, self.seen[part]).unbind(0) for part, rows in given.items()
        }
        self.weights = {part: part.weight.detach().to(rows.dtype).t() for part, rows in given.items()}

    def at(self, step: int) -> "UnrolledMoment":
        return UnrolledMoment(self, step)


class UnrolledMoment(Moment):
    def __init__(self, unrolled: Unrolled, step: int) -> None:
        self.unrolled = unrolled
        self.step = step

    def __call__(self, part: Recurrent, x: Tensor) -> Tensor:
        given = self.unrolled.steps[part][self.step]
        rows_NI = x.flatten(0, -2).to(given.dtype)
        self.unrolled.seen[part].append(rows_NI.detach())
        product_NO = torch.addmm(given.flatten(0, -2), rows_NI, self.unrolled.weights[part])
        return product_NO.view(*x.shape[:-1], -1)


class _OneProduct(torch.autograd.Function):
    """The identity on `given`; backward, it also makes the weight's gradient from the gradients of all steps.

    The loop adds W x_t to given_t, so the gradient that reaches given_t is that of the product, and
    dW = sum_t grad_t x_t' . All steps have run by then: `seen` is full.
    """

    @staticmethod
    def forward(ctx: Any, given_LNO: Tensor, weight: Tensor, seen: list[Tensor]) -> Tensor:
        ctx.seen, ctx.dtype = seen, weight.dtype
        return given_LNO.view_as(given_LNO)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, Tensor, None]:
        (gradient,) = gradients
        inputs = torch.cat(ctx.seen)
        ctx.seen.clear()  # the inputs are of no more use, and the list outlives the graph
        return gradient, (gradient.reshape(-1, gradient.shape[-1]).t() @ inputs).to(ctx.dtype), None
