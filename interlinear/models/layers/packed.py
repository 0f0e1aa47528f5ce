"""Matrix products of a search on a CPU with weights in the layout in which oneDNN multiplies them.

With plain weights every product copies them into that layout first: for the few rows of one sentence that takes longer
than the product. Packed weights are a copy, which a layer makes at its first product without a gradient, and again if
its weights have changed. With a gradient, or on another device, the layer multiplies as if it were plain.
"""

import itertools
from collections.abc import Iterable
from typing import Any
from weakref import WeakValueDictionary

import torch
from torch import Tensor, nn

from interlinear.devices import computes_bf16
from interlinear.models.layers.step_linear import StepLinear, product_dtype

MIN_WEIGHTS = 2**17  # smaller matrices stay in a core's cache, where packing gains nothing
ROWS = 32  # the number of rows that oneDNN lays weights out for; any number can be multiplied
# Asked once: the compiler cannot trace the question.
DTYPES = frozenset({torch.float32, torch.bfloat16} if computes_bf16(torch.device("cpu")) else {torch.float32})

_products: "WeakValueDictionary[int, PackedProduct]" = WeakValueDictionary()  # by number, for `_packed_product`
_numbers = itertools.count()


@torch.library.custom_op("interlinear::packed_product", mutates_args=())
def _packed_product(x: Tensor, number: int, outputs: int) -> Tensor:
    """The product of a `PackedProduct`, as an operator that a compiled step calls without looking into it."""
    return _products[number](x)


@_packed_product.register_fake
def _(x: Tensor, number: int, outputs: int) -> Tensor:
    return x.new_empty(*x.shape[:-1], outputs)


class PackedProduct:
    """W x + b for x (..., I), with a packed copy of W (O, I)."""

    def __init__(self, weight_OI: Tensor, bias_O: Tensor | None) -> None:
        self.weight, self.version = weight_OI, weight_OI._version
        self.bias = None if bias_O is None else bias_O.detach()
        self.packed = torch.ops.mkldnn._reorder_linear_weight(weight_OI.detach(), ROWS)
        self.number = next(_numbers)
        _products[self.number] = self

    @property
    def is_current(self) -> bool:
        """Whether the weights have not changed since they were packed."""
        return self.weight._version == self.version

    def __call__(self, x: Tensor) -> Tensor:
        product: Tensor = torch.ops.mkldnn._linear_pointwise(x, self.packed, self.bias, "none", [None], "")
        return product

    def __reduce__(self) -> tuple[Any, ...]:
        """A copied or pickled layer packs its own weights."""
        return _no_product, ()


def _no_product() -> None:
    return None


def packed_product(layer: "PackedLinear | PackedStepLinear", x: Tensor, bias: Tensor | None = None) -> Tensor | None:
    """W x + b with packed weights; None where they are not used."""
    weight = layer.weight
    if torch.is_grad_enabled() or not can_pack(weight) or not x.dtype == weight.dtype == product_dtype(weight):
        return None
    if torch.compiler.is_compiling():
        known = layer.product
        return None if known is None else _packed_product(x, known.number, len(weight))
    return current_product(layer, bias)(x)


def current_product(layer: "PackedLinear | PackedStepLinear", bias: Tensor | None) -> PackedProduct:
    """The product with the layer's present weights."""
    if layer.product is None or layer.product.weight is not layer.weight or not layer.product.is_current:
        layer.product = PackedProduct(layer.weight, bias)
    return layer.product


class PackedLinear(nn.Linear):
    """A linear layer that multiplies with packed weights where it computes no gradient."""

    product: PackedProduct | None = None

    def forward(self, x: Tensor) -> Tensor:
        product = packed_product(self, x, self.bias)
        return super().forward(x) if product is None else product


class PackedStepLinear(StepLinear):
    """A recurrent map that multiplies with packed weights, at each step of a search."""

    product: PackedProduct | None = None

    def forward(self, x: Tensor) -> Tensor:
        product = packed_product(self, x.to(product_dtype(self.weight)))
        return super().forward(x) if product is None else product


def pack(model: nn.Module) -> None:
    """Have a model's large linear layers and recurrent maps packed at their first product; parameters keep their names
    and values."""
    if not has_packed_products():
        return
    for layer in model.modules():
        # A layer with a forward of its own, of a class that extends these, is left alone.
        if type(layer) in (nn.Linear, StepLinear):
            assert isinstance(layer, nn.Linear | StepLinear)
            if layer.weight.numel() >= MIN_WEIGHTS:
                # Other modules hold references to the layer, so that it cannot be replaced: it changes its class.
                layer.__class__ = PackedLinear if isinstance(layer, nn.Linear) else PackedStepLinear


def make_products(layers: Iterable[nn.Module]) -> None:
    """Pack the weights of the layers now. A step that is compiled before they are packed multiplies with plain weights,
    and would have to be compiled again."""
    for layer in layers:
        if isinstance(layer, PackedLinear | PackedStepLinear) and can_pack(layer.weight):
            current_product(layer, layer.bias if isinstance(layer, PackedLinear) else None)


def can_pack(weight: Tensor) -> bool:
    """Whether there are packed products for a matrix of this precision, on this device."""
    return weight.device.type == "cpu" and weight.dtype in DTYPES


def has_packed_products() -> bool:
    """Whether this build of torch has the products, for this processor."""
    return torch.backends.mkldnn.is_available() and hasattr(torch.ops.mkldnn, "_reorder_linear_weight")
