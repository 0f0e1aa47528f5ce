"""The energies of additive attention, which are computed in another way where no gradient is needed."""

import pytest
import torch
from torch import Tensor, nn

from seq2seq.layers.attention import additive_energy, fast_tanh

ATTENTION, LENGTH, HYPOTHESES = 50, 9, 3


def layer(dtype: torch.dtype) -> nn.Linear:
    torch.manual_seed(0)
    return nn.Linear(ATTENTION, 1, bias=False).to(dtype)


def terms(scale: float, dtype: torch.dtype) -> tuple[Tensor, Tensor, Tensor]:
    """Queries, keys and coverage of one sentence."""
    torch.manual_seed(1)
    shapes = (HYPOTHESES, 1), (1, LENGTH), (HYPOTHESES, LENGTH)
    query, key, coverage = (scale * torch.randn(*shape, ATTENTION, dtype=dtype) for shape in shapes)
    return query, key, coverage


@pytest.mark.parametrize(("dtype", "bound"), [(torch.float32, 1e-5), (torch.float64, 1e-13)])
@pytest.mark.parametrize("count", [2, 3])
@pytest.mark.parametrize("scale", [0.01, 1.0, 10.0])
def test_energies_without_gradient(scale: float, count: int, dtype: torch.dtype, bound: float) -> None:
    energy, parts = layer(dtype), terms(scale, dtype)[:count]
    with torch.no_grad():
        found, expected = additive_energy(energy, *parts), torch.tanh(sum(parts)) @ energy.weight[0]
    assert (found - expected).abs().max() <= bound * max(1.0, scale)


def test_energies_in_half_precision() -> None:
    """Of bf16 terms they are computed in fp32, so that only the terms are rounded, and their sum."""
    energy, (query, key, _) = layer(torch.bfloat16), terms(1.0, torch.bfloat16)
    with torch.no_grad():
        found = additive_energy(energy, query, key)
    expected = torch.tanh(query.double() + key.double()) @ energy.weight[0].double()
    assert (found - expected).abs().max() < 1e-5


def test_tanh_in_half_precision() -> None:
    """Values and gradients are those of tanh, rounded once."""
    x = torch.linspace(-6, 6, 999).bfloat16().requires_grad_()
    y = fast_tanh(x)
    assert torch.equal(y, torch.tanh(x.detach().double()).bfloat16())
    y.sum().backward()
    expected = (1 - y.detach().double() ** 2).float()
    assert x.grad is not None
    torch.testing.assert_close(x.grad.float(), expected, rtol=1e-2, atol=1e-6)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_extreme_values(dtype: torch.dtype) -> None:
    """Terms whose exponentials are no numbers of the precision, of either sign; a NaN stays one."""
    energy = layer(dtype)
    values = torch.tensor([-1e30, -800.0, -90.0, -0.0, 90.0, 800.0, 1e30], dtype=dtype)
    a, b = values[:, None, None].expand(-1, -1, ATTENTION), torch.tensor([0.3, -0.2], dtype=dtype)[:, None]
    b = b.expand(-1, ATTENTION)
    with torch.no_grad():
        found, expected = additive_energy(energy, a, b), torch.tanh(a + b) @ energy.weight[0]
        torch.testing.assert_close(found, expected)
        assert additive_energy(energy, a, b * torch.nan).isnan().all()


def test_gradients_are_those_of_tanh() -> None:
    energy, (query, key, _) = layer(torch.float64), terms(1.0, torch.float64)
    query.requires_grad_()
    additive_energy(energy, query, key).sum().backward()
    slopes = 1 - torch.tanh(query.detach() + key) ** 2
    torch.testing.assert_close(query.grad, (slopes * energy.weight[0].detach()).sum(1, keepdim=True))
