"""Products with packed weights: their values, any number of rows, weights that change, and copies of a layer."""

import copy
import pickle

import pytest
import torch
from torch import Tensor, nn

from interlinear.models.layers import packed
from interlinear.models.layers.packed import PackedLinear, PackedStepLinear, has_packed_products, make_products, pack
from interlinear.models.layers.step_linear import StepLinear

pytestmark = pytest.mark.skipif(not has_packed_products(), reason="this build of torch has no oneDNN")

INPUTS, OUTPUTS = 768, 1024


def packed_layer(dtype: torch.dtype, bias: bool = True) -> PackedLinear:
    torch.manual_seed(0)
    layer = nn.Linear(INPUTS, OUTPUTS, bias=bias).to(dtype)
    pack(layer)
    assert isinstance(layer, PackedLinear)
    return layer


def exact(layer: nn.Linear, x: Tensor) -> Tensor:
    product = x.double() @ layer.weight.double().T
    return product if layer.bias is None else product + layer.bias.double()


@pytest.mark.parametrize(("dtype", "bound"), [(torch.float32, 1e-5), (torch.bfloat16, 2e-2)])
@pytest.mark.parametrize("rows", [(1,), (5,), (32, 5), (3, 1, 7)])
@pytest.mark.parametrize("bias", [True, False])
def test_a_product_is_that_of_the_weights(dtype: torch.dtype, bound: float, rows: tuple[int, ...], bias: bool) -> None:
    layer, x = packed_layer(dtype, bias), torch.randn(*rows, INPUTS).to(dtype)
    with torch.inference_mode():
        found, expected = layer(x), exact(layer, x)
    assert (layer.product is not None) == (dtype in packed.DTYPES)  # no bf16 on a processor without AVX-512
    assert found.dtype == dtype
    torch.testing.assert_close(found.double(), expected, rtol=bound, atol=bound)


def test_a_precision_that_the_processor_has_no_packed_products_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """oneDNN refuses to pack bf16 without AVX-512: `--precision bf16` must then multiply by plain weights."""
    monkeypatch.setattr(packed, "DTYPES", frozenset({torch.float32}))
    layer, x = packed_layer(torch.bfloat16), torch.randn(5, INPUTS).to(torch.bfloat16)
    with torch.inference_mode():
        make_products(layer.modules())  # as before the first compiled step
        found = layer(x)
    assert layer.product is None
    torch.testing.assert_close(found.double(), exact(layer, x), rtol=2e-2, atol=2e-2)


def test_a_recurrent_map_is_packed_too() -> None:
    layer = StepLinear(INPUTS, OUTPUTS)
    nn.init.normal_(layer.weight)
    pack(layer)
    assert isinstance(layer, PackedStepLinear)
    x = torch.randn(5, INPUTS)
    with torch.no_grad():
        torch.testing.assert_close(layer(x), x @ layer.weight.T, rtol=1e-4, atol=1e-4)
    assert layer.product is not None


def test_small_layers_stay_as_they_are() -> None:
    model = nn.Sequential(nn.Linear(64, 64), nn.Linear(INPUTS, OUTPUTS))
    pack(model)
    assert [type(layer) for layer in model] == [nn.Linear, PackedLinear]


def test_weights_that_change_are_packed_again() -> None:
    """A model that was loaded for search can be trained: its next search uses the new weights."""
    layer, x = packed_layer(torch.float32), torch.randn(5, INPUTS)
    with torch.no_grad():
        before = layer(x)
    layer(x).square().sum().backward()
    assert layer.weight.grad is not None
    torch.optim.SGD(layer.parameters(), lr=0.1).step()
    with torch.no_grad():
        after = layer(x)
        torch.testing.assert_close(after.double(), exact(layer, x), rtol=1e-4, atol=1e-3)
    assert not torch.allclose(before, after, atol=1e-2)
    layer.load_state_dict({"weight": torch.zeros(OUTPUTS, INPUTS), "bias": torch.ones(OUTPUTS)})
    with torch.no_grad():
        assert torch.equal(layer(x), torch.ones(5, OUTPUTS))


@pytest.mark.parametrize("duplicate", [copy.deepcopy, lambda layer: pickle.loads(pickle.dumps(layer))])
def test_a_copy_has_weights_of_its_own(duplicate) -> None:  # type: ignore[no-untyped-def]
    layer, x = packed_layer(torch.float32), torch.randn(5, INPUTS)
    with torch.no_grad():
        first = layer(x)
        copied = duplicate(layer)
        copied.weight.zero_()
        assert torch.equal(copied(x), copied.bias.expand(5, -1))
        assert torch.equal(layer(x), first)


def test_another_precision_than_that_of_the_weights() -> None:
    layer, x = packed_layer(torch.float32), torch.randn(5, INPUTS)
    with torch.no_grad():
        layer(x)
        double = layer.double()(x.double())
    torch.testing.assert_close(double, exact(layer, x), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("dtype", [torch.float32])
def test_a_row_does_not_depend_on_the_rows_beside_it(dtype: torch.dtype) -> None:
    layer, x = packed_layer(dtype), torch.randn(160, INPUTS).to(dtype)
    with torch.inference_mode():
        together = layer(x)
        for rows in (5, 10, 31, 33, 80):
            assert torch.equal(layer(x[:rows]), together[:rows])
