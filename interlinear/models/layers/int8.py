"""Matrix products in int8 on a CPU, for search: int8 weights by output channel, activations quantised at each product.

A weight matrix W (O, I) is stored as int8 values with one scale for each output, an activation vector x as int8 values
with a scale of its own: W x = s_x s_W (x_8 W_8), with exact integer sums. As every vector has its own scale, a
sentence's results do not depend on the sentences beside it. Quantisation is symmetric, to the largest magnitude.

torch has two implementations, FBGEMM's and oneDNN's; the faster one is chosen by measuring. Both add products of
neighbours in 16 bits on processors without VNNI, and saturate: there, activations have 7 bits, with which no sum can.
"""

import itertools
import time
import warnings
from collections.abc import Callable
from functools import cache
from weakref import WeakValueDictionary

import torch
from torch import Tensor, nn

from interlinear.errors import UsageError
from interlinear.models.layers.step_linear import StepLinear

MIN_FEATURES = 32  # a layer with fewer inputs or outputs is computed in fp32: quantising takes longer than the product
SMALLEST = 1e-30  # lower bound of a scale, for vectors of zeros

IntegerProduct = Callable[[Tensor], Tensor]  # (N, I) fp32 with integer values -> (N, O) fp32, times the weight's scales
Kernel = Callable[[Tensor, Tensor, int], IntegerProduct]  # of int8 weights (O, I), their scales (O), and a zero point


def _fbgemm(weight_OI: Tensor, scale_O: Tensor, zero_point: int) -> IntegerProduct:
    engine = torch.backends.quantized.engine
    torch.backends.quantized.engine = "fbgemm"
    try:
        with warnings.catch_warnings():  # torch announces that quantised tensors will move to another package
            warnings.simplefilter("ignore", UserWarning)
            zeros = torch.zeros(len(scale_O), dtype=torch.int64)
            quantised = torch._make_per_channel_quantized_tensor(weight_OI, scale_O.double(), zeros, 0)
            packed = torch.ops.quantized.linear_prepack(quantised, None)
    finally:
        torch.backends.quantized.engine = engine
    product = torch.ops.quantized.linear_with_input_q_dq_qweight_dq_output_fp32
    return lambda x_NI: product(x_NI, 1.0, zero_point, packed)


def _onednn(weight_OI: Tensor, scale_O: Tensor, zero_point: int) -> IntegerProduct:
    packed = torch.ops.onednn.qlinear_prepack(weight_OI, None)
    zeros = torch.zeros(len(scale_O), dtype=torch.int64)
    settings: tuple[object, ...] = packed, scale_O, zeros, None, 1.0, 0, torch.float32, "none", [], ""
    product = torch.ops.onednn.qlinear_pointwise
    return lambda x_NI: product(x_NI.add(zero_point).to(torch.uint8), 1.0, zero_point, *settings)


KERNELS: dict[str, Kernel] = {"fbgemm": _fbgemm, "onednn": _onednn}


@cache
def largest_activation(kernel: str) -> int | None:
    """The largest quantised activation with exact sums on this processor, 127 or 63; None if the kernel cannot run."""
    for largest in (127, 63):
        x_NI, weight_OI = torch.full((1, 64), float(largest)), torch.full((1, 64), 127, dtype=torch.int8)
        try:
            found = KERNELS[kernel](weight_OI, torch.ones(1), largest + 1)(x_NI)
        except (RuntimeError, AttributeError):
            return None
        if found.item() == 64 * 127 * largest:
            return largest
    return None


def available_kernels() -> list[str]:
    """The kernels that this processor can run. Raises UsageError if there are none."""
    if kernels := [kernel for kernel in KERNELS if largest_activation(kernel)]:
        return kernels
    raise UsageError("--precision int8", "torch has no int8 products for this processor", "use fp32")


_products: "WeakValueDictionary[int, Int8Product]" = WeakValueDictionary()  # by number, for `_integer_product`
_numbers = itertools.count()


@torch.library.custom_op("interlinear::integer_product", mutates_args=())
def _integer_product(x_NI: Tensor, number: int, outputs: int) -> Tensor:
    """The integer product of an `Int8Product`, as an operator that a compiled step calls without looking into it."""
    return _products[number].integer_product(x_NI)


@_integer_product.register_fake
def _(x_NI: Tensor, number: int, outputs: int) -> Tensor:
    return x_NI.new_empty(x_NI.shape[0], outputs)


class Int8Product:
    """The product of any activations with one weight matrix, in int8."""

    def __init__(self, weight_OI: Tensor, kernel: str) -> None:
        """`kernel` is one of `available_kernels`."""
        largest = largest_activation(kernel)
        assert largest is not None
        self.largest = largest
        scale_O = (weight_OI.float().abs().amax(1) / 127).clamp_min(SMALLEST)
        weight_8 = (weight_OI / scale_O[:, None]).round().to(torch.int8)
        self.integer_product = KERNELS[kernel](weight_8, scale_O, largest + 1)
        self.outputs, self.number = len(weight_OI), next(_numbers)
        _products[self.number] = self

    def __call__(self, x: Tensor, bias_O: Tensor | None = None) -> Tensor:
        """W x + b (..., O) in fp32 for x (..., I)."""
        x_NI = x.reshape(-1, x.shape[-1]).float()
        scale_N1 = (x_NI.abs().amax(1, keepdim=True) / self.largest).clamp_min_(SMALLEST)
        # Rounded here: FBGEMM would add the zero point first, and round a sum that has lost digits.
        values_NI = (x_NI / scale_N1).round_()
        product_NO = (
            _integer_product(values_NI, self.number, self.outputs)
            if torch.compiler.is_compiling()
            else self.integer_product(values_NI)
        )
        product_NO = product_NO * scale_N1 if bias_O is None else torch.addcmul(bias_O, product_NO, scale_N1)
        return product_NO.reshape(*x.shape[:-1], -1)


class Int8Linear(nn.Linear):
    """A linear layer whose product is in int8. Its fp32 weights stay for other code that reads them."""

    product: Int8Product

    def forward(self, x: Tensor) -> Tensor:
        return self.product(x, self.bias)


class Int8StepLinear(StepLinear):
    """A recurrent map whose product is in int8, at each step of a search."""

    product: Int8Product

    def forward(self, x: Tensor) -> Tensor:
        return self.product(x)


def quantise(model: nn.Module) -> None:
    """Have a model's linear layers and recurrent maps computed in int8: output layer, cells, projections and keys.

    Recurrent encoders and embeddings stay in fp32. Parameters keep their names and values; the model can search and
    can no longer be trained. Raises UsageError if torch has no int8 products for this processor.
    """
    layers: list[nn.Linear | StepLinear] = []
    for layer in model.modules():
        # A layer with a forward of its own, of a class that extends these, is left alone.
        if type(layer) in (nn.Linear, StepLinear):
            assert isinstance(layer, nn.Linear | StepLinear)
            if min(layer.weight.shape) >= MIN_FEATURES:
                layers.append(layer)
    if not layers:
        return
    kernel = fastest_kernel(max((layer.weight for layer in layers), key=lambda weight: weight.numel()))
    for layer in layers:
        # Other modules hold references to the layer, so that it cannot be replaced: it changes its class.
        layer.__class__ = Int8Linear if isinstance(layer, nn.Linear) else Int8StepLinear
        assert isinstance(layer, Int8Linear | Int8StepLinear)
        layer.product = Int8Product(layer.weight.detach(), kernel)


def fastest_kernel(weight_OI: Tensor, rows: tuple[int, ...] = (5, 160), repetitions: int = 5) -> str:
    """The kernel with the shortest time for a weight matrix and batches of one and of 32 sentences at beam 5."""
    kernels = available_kernels()
    if len(kernels) == 1:
        return kernels[0]
    seconds = {}
    inputs = [torch.ones(n, weight_OI.shape[1]) for n in rows]
    for kernel in kernels:
        product = Int8Product(weight_OI.detach(), kernel)
        times = []
        for _ in range(repetitions + 1):  # the first one allocates
            started = time.perf_counter()
            for x_NI in inputs:
                product(x_NI)
            times.append(time.perf_counter() - started)
        seconds[kernel] = min(times[1:])
    return min(seconds, key=seconds.__getitem__)
