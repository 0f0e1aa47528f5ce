"""The recurrence c_t = f_t c_{t-1} + (1 - f_t) x_t over known inputs, and its backward pass."""

import pytest
import torch
from torch import Tensor
from torch.autograd import gradcheck
from torch.autograd.graph import saved_tensors_hooks

from interlinear.models.transformer.recurrence import linear_recurrence


def literal(forget_NLD: Tensor, inputs_NLD: Tensor) -> Tensor:
    """One position after the other, in float64."""
    states, state = [], torch.zeros_like(inputs_NLD[:, 0], dtype=torch.float64)
    for f, x in zip(forget_NLD.double().unbind(1), inputs_NLD.double().unbind(1), strict=True):
        state = f * state + (1 - f) * x
        states.append(state)
    return torch.stack(states, 1)


def gates(kind: str, shape: tuple[int, ...]) -> Tensor:
    if kind == "mixed":  # closed, open and between, side by side
        return torch.rand(shape).mul(3).sub(1).clamp(0, 1)
    return torch.full(shape, {"closed": 0.0, "open": 1.0, "nearly open": 1 - 2**-24}[kind])


@pytest.mark.parametrize("kind", ["closed", "open", "nearly open", "mixed"])
def test_it_is_exact_over_512_positions_in_fp32(kind: str) -> None:
    torch.manual_seed(0)
    inputs_NLD = torch.randn(3, 512, 4, requires_grad=True)
    forget_NLD = gates(kind, (3, 512, 4)).requires_grad_()
    upstream_NLD = torch.randn(3, 512, 4)
    states_NLD = linear_recurrence(forget_NLD, inputs_NLD)
    expected_NLD = literal(forget_NLD, inputs_NLD)
    torch.testing.assert_close(states_NLD.double(), expected_NLD, rtol=0, atol=1e-6)
    found = torch.autograd.grad(states_NLD, (forget_NLD, inputs_NLD), upstream_NLD)
    expected = torch.autograd.grad(expected_NLD, (forget_NLD, inputs_NLD), upstream_NLD.double())
    for ours, theirs in zip(found, expected, strict=True):  # gradients of open gates are sums of 512 terms
        assert (ours - theirs).abs().max() <= 1e-6 * max(theirs.abs().max(), 1)


def test_closed_gates_copy_inputs_and_open_ones_the_state() -> None:
    inputs_NLD = torch.randn(2, 9, 3)
    assert torch.equal(linear_recurrence(torch.zeros(2, 9, 3), inputs_NLD), inputs_NLD)
    forget_NLD = torch.cat([torch.zeros(2, 1, 3), torch.ones(2, 8, 3)], 1)
    assert torch.equal(linear_recurrence(forget_NLD, inputs_NLD), inputs_NLD[:, :1].expand(2, 9, 3))


@pytest.mark.parametrize("length", [1, 2, 7])
def test_gradients_are_those_of_finite_differences(length: int) -> None:
    torch.manual_seed(0)
    forget_NLD = torch.rand(2, length, 3, dtype=torch.float64, requires_grad=True)
    inputs_NLD = torch.randn(2, length, 3, dtype=torch.float64, requires_grad=True)
    assert gradcheck(linear_recurrence, (forget_NLD, inputs_NLD))


def test_gradients_of_slices_of_a_product_are_right() -> None:
    """As the layer calls it: both inputs are halves of one product, and some of the gradient is expanded."""
    torch.manual_seed(0)
    product_NLE = torch.randn(2, 5, 6, dtype=torch.float64, requires_grad=True)

    def total(product_NLE: Tensor) -> Tensor:
        forget_NLD, inputs_NLD = product_NLE.chunk(2, -1)
        return linear_recurrence(torch.sigmoid(forget_NLD), inputs_NLD).sum()

    assert gradcheck(total, (product_NLE,))


@pytest.mark.parametrize("length", [32, 256])
def test_backward_keeps_three_tensors_of_the_size_of_the_inputs(length: int) -> None:
    kept: list[int] = []
    with saved_tensors_hooks(lambda tensor: kept.append(tensor.numel()) or tensor, lambda tensor: tensor):
        linear_recurrence(torch.rand(2, length, 4, requires_grad=True), torch.randn(2, length, 4, requires_grad=True))
    assert sum(kept) == 3 * 2 * length * 4
