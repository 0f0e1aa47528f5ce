"""Products in int8: their values, their exact sums, and searches of every recipe with them."""

import copy
from pathlib import Path

import pytest
import torch
from torch import nn

from interlinear.batch import Batch
from interlinear.bundle import load
from interlinear.errors import UsageError
from interlinear.models.layers import int8
from interlinear.models.layers.int8 import Int8Linear, Int8Product, Int8StepLinear, available_kernels, quantise
from interlinear.models.layers.step_linear import StepLinear
from tests.interlinear.recipes import each_recipe, small
from tests.interlinear.search.slot_table import search


@pytest.mark.parametrize("kernel", available_kernels())
def test_a_product_is_that_of_the_quantised_values(kernel: str) -> None:
    """By the definition, in float64: both sides to 8 bits (activations to 7 without VNNI), each with its own scales."""
    x, weight, bias = torch.randn(3, 7, 96), torch.randn(50, 96) * torch.rand(50, 1), torch.randn(50)
    x[0, 0] = 0
    product = Int8Product(weight, kernel)
    x_scale = x.abs().amax(-1, keepdim=True).clamp_min(1e-30) / product.largest
    w_scale = weight.abs().amax(1, keepdim=True) / 127
    x_8, w_8 = (x / x_scale).round().double(), (weight / w_scale).round().double()
    expected = (x_8 @ w_8.T) * x_scale.double() * w_scale.T.double() + bias
    torch.testing.assert_close(product(x, bias).double(), expected, rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(product(x), product(x, torch.zeros(50)), rtol=0, atol=0)
    exact = x @ weight.T + bias
    assert (product(x, bias) - exact).norm() / exact.norm() < (0.02 if product.largest == 127 else 0.03)
    assert torch.equal(product(x, bias)[0, 0], bias)


@pytest.mark.parametrize("kernel", available_kernels())
def test_the_largest_sums_do_not_saturate(kernel: str) -> None:
    weight = torch.tensor([1.0, -1.0]).repeat_interleave(64).reshape(2, 64)
    product = Int8Product(weight, kernel)
    found = product(torch.stack([torch.full((64,), 3.0), torch.full((64,), -3.0)]))
    torch.testing.assert_close(found, torch.tensor([[192.0, -192.0], [-192.0, 192.0]]))


@pytest.mark.parametrize("kernel", available_kernels())
def test_a_row_is_the_same_beside_any_others(kernel: str) -> None:
    product, x = Int8Product(torch.randn(200, 64), kernel), torch.randn(33, 64)
    x[7] *= 1000
    together = product(x)
    for row in range(len(x)):
        assert torch.equal(product(x[row : row + 1])[0], together[row])


def test_kernels_give_the_same_values() -> None:
    weight, x = torch.randn(100, 64), torch.randn(9, 64)
    first, *others = [Int8Product(weight, kernel)(x) for kernel in available_kernels()]
    for other in others:
        torch.testing.assert_close(first, other, rtol=1e-6, atol=1e-6)


@each_recipe()
def test_every_recipe_searches_in_int8(recipe: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(int8, "MIN_FEATURES", 1)
    model, batch = small(recipe)
    model.eval()
    scores = [result.hypotheses[0].score for result in search(model, Batch(batch.sources))]
    weights = copy.deepcopy(model.state_dict())
    quantise(model)
    assert isinstance(model.output, Int8Linear)
    left = [layer for layer in model.modules() if type(layer) in (nn.Linear, StepLinear)]
    assert not any(layer.weight.numel() for layer in left)  # a map may have no input of its own
    assert any(isinstance(layer, Int8Linear | Int8StepLinear) for layer in model.decoder.modules())
    results = search(model, Batch(batch.sources))
    found = [result.hypotheses[0].score for result in results]
    assert found == pytest.approx(scores, rel=0.15)  # vectors of 8 values, of which a hypothesis may be another
    assert all(result.attention_weights is not None for result in results)
    assert model.state_dict().keys() == weights.keys()
    assert all(torch.equal(tensor, weights[name]) for name, tensor in model.state_dict().items())


def test_small_layers_stay_in_fp32() -> None:
    model, _ = small("rnnsearch")
    quantise(model)
    assert not [layer for layer in model.modules() if isinstance(layer, Int8Linear | Int8StepLinear)]


def test_int8_is_refused_where_it_cannot_be_computed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UsageError, match="it is for CPUs, and the device is cuda:0"):
        load(tmp_path, "cuda:0", "int8")
    monkeypatch.setattr(int8, "largest_activation", lambda kernel: None)
    with pytest.raises(UsageError, match="no int8 products for this processor"):
        available_kernels()
