"""The energies of additive attention, which are computed in another way where no gradient is needed."""

import copy
import math

import pytest
import torch
from torch import Tensor, nn

from interlinear.batch import collate
from interlinear.models.recurrent.attention import additive_energy, fast_tanh
from tests.interlinear.systems import model_of

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


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize(("a", "b"), [(45.0, -50.0), (-45.0, 50.0), (39.0, -41.0), (1e4, 0.25 - 1e4), (60.0, -60.0)])
def test_large_terms_that_cancel_out(a: float, b: float, compiled: bool) -> None:
    """v = 1, W s = 45, U h = -50: the energy is tanh(-5) = -0.99991, with and without gradient."""
    energy = nn.Linear(1, 1, bias=False)
    nn.init.ones_(energy.weight)
    function = torch.compile(additive_energy, backend="eager") if compiled else additive_energy
    with torch.no_grad():
        found = function(energy, torch.tensor([a]), torch.tensor([b]))
    assert found.item() == pytest.approx(math.tanh(a + b), abs=1e-6)
    assert additive_energy(energy, torch.tensor([a]), torch.tensor([b])).item() == pytest.approx(found.item(), abs=1e-6)


def test_attention_of_large_weights_is_the_same_without_gradient() -> None:
    """In a model whose attention's weights are 100 times as large, terms are beyond 100."""
    model = copy.deepcopy(model_of("rnnsearch")).float()
    attention = model.decoder.attention
    with torch.no_grad():
        for parameter in (*attention.query.parameters(), *attention.key.parameters()):
            parameter.mul_(100)
    batch = collate({"source": [[5, 6, 7, 8, 4], [8, 5]]}, [[6, 7, 5, 4], [5]])
    assert batch.target_BL is not None
    expected = model.forced_attention(model.encode(batch), batch.target_BL[:, None]).weights
    with torch.no_grad():
        found = model.forced_attention(model.encode(batch), batch.target_BL[:, None]).weights
    for kind, weights in expected.items():
        torch.testing.assert_close(found[kind], weights.detach(), rtol=0, atol=1e-4)


def test_gradients_are_those_of_tanh() -> None:
    energy, (query, key, _) = layer(torch.float64), terms(1.0, torch.float64)
    query.requires_grad_()
    additive_energy(energy, query, key).sum().backward()
    slopes = 1 - torch.tanh(query.detach() + key) ** 2
    torch.testing.assert_close(query.grad, (slopes * energy.weight[0].detach()).sum(1, keepdim=True))
