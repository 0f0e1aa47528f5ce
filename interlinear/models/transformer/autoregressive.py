"""The part of a decoder's layer over the previous words: self-attention, or a recurrence in its place.

Axes: B sentences, K hypotheses of each, L target positions, D size of a layer.
"""

from abc import ABC, abstractmethod

import torch
from torch import Tensor, nn

from interlinear.models.layers.step_linear import at_least_fp32, product_dtype
from interlinear.models.state import WRITTEN
from interlinear.models.transformer.attention import SelfAttention
from interlinear.models.transformer.layers import LayerConfig
from interlinear.models.transformer.recurrence import linear_recurrence


class Autoregressive(nn.Module, ABC):
    """The part of a decoder's layer over the target words so far; it keeps one leaf of the decoder's state.

    leaf: its name. axis: the third axis of the leaf, as in `State.axes`, if that varies.
    """

    leaf: str
    axis: str | None = None

    def __init__(self, config: LayerConfig) -> None:
        super().__init__()

    @abstractmethod
    def start(self, sentences: int) -> Tensor:
        """The leaf before the first word, (B, 1, ...)."""

    @abstractmethod
    def step(self, x_BKD: Tensor, leaf: Tensor, position_BK: Tensor) -> tuple[Tensor, Tensor]:
        """One more word: the output (B, K, D) at each hypothesis' position, and the leaf after it."""

    @abstractmethod
    def unroll(self, x_BKLD: Tensor) -> Tensor:
        """The outputs (B, K, L, D) of known words; each depends on the words up to it."""

    @abstractmethod
    def whole(self, x_BKLD: Tensor, padding_BKL: Tensor) -> Tensor:
        """The outputs (B, K, L, D) of known words; each depends on all words but padding.

        Raises ValueError for a recurrence.
        """


class CachedSelfAttention(Autoregressive):
    """Self-attention to the words up to a position (Vaswani et al. 2017, section 3.1), with a cache that grows.

    The leaf `cache` (B, K, L, 2D) has the keys and values of every position; positions after a hypothesis' current one
    are masked. Hypotheses may differ in length: each writes at its current position.
    """

    leaf, axis = "cache", WRITTEN

    def __init__(self, config: LayerConfig) -> None:
        super().__init__(config)
        self.attention = SelfAttention(config)

    def start(self, sentences: int) -> Tensor:
        weight = self.attention.projection.weight
        return weight.new_zeros(sentences, 1, 0, 2 * weight.shape[1], dtype=product_dtype(weight))

    def step(self, x_BKD: Tensor, leaf: Tensor, position_BK: Tensor) -> tuple[Tensor, Tensor]:
        query_BKD, key_value_BKE = self.attention.project(x_BKD)
        # A finished hypothesis may have no position left; its state is not read any more.
        own_BK11 = position_BK[..., None, None].clamp(max=leaf.shape[2] - 1)
        written_BK1E = key_value_BKE[:, :, None].to(leaf.dtype)
        leaf = leaf.scatter(2, own_BK11.expand_as(written_BK1E), written_BK1E)
        later_BKL = torch.arange(leaf.shape[2], device=leaf.device) > position_BK[..., None]
        masked_N11L = later_BKL.flatten(0, 1)[:, None, None]
        keys_NLD, values_NLD = leaf.flatten(0, 1).chunk(2, -1)
        query_N1D = query_BKD.flatten(0, 1)[:, None]
        attended_N1D = self.attention.attend(query_N1D, keys_NLD, values_NLD, masked_N11L)
        return attended_N1D.view_as(x_BKD), leaf

    def unroll(self, x_BKLD: Tensor) -> Tensor:
        attended_NLD: Tensor = self.attention(x_BKLD.flatten(0, 1), is_causal=True)
        return attended_NLD.view_as(x_BKLD)

    def whole(self, x_BKLD: Tensor, padding_BKL: Tensor) -> Tensor:
        attended_NLD: Tensor = self.attention(x_BKLD.flatten(0, 1), padding_BKL.flatten(0, 1)[:, None, None])
        return attended_NLD.view_as(x_BKLD)


class SSRU(Autoregressive):
    """A simpler simple recurrent unit in the place of self-attention (Kim et al. 2019, section 3.1).

        f_t = sigmoid(W_f x_t + b_f)      c_t = f_t c_{t-1} + (1 - f_t) W x_t      h_t = relu(c_t)

    The rows of `maps` are W_f and W; `forget_bias` is b_f. The leaf `cell` (B, K, D) is c_t, all that a hypothesis
    needs of its words. No product depends on c: over known words, one product covers all positions.
    """

    leaf = "cell"

    def __init__(self, config: LayerConfig) -> None:
        super().__init__(config)
        self.maps = nn.Linear(config.size, 2 * config.size, bias=False)
        self.forget_bias = nn.Parameter(torch.zeros(config.size))

    def start(self, sentences: int) -> Tensor:
        return at_least_fp32(self.forget_bias.new_zeros(sentences, 1, len(self.forget_bias)))

    def terms(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """f_t and W x_t, (..., D), in at least fp32."""
        forget, inputs = at_least_fp32(self.maps(x)).chunk(2, -1)
        return torch.sigmoid(forget + self.forget_bias), inputs

    def step(self, x_BKD: Tensor, leaf: Tensor, position_BK: Tensor) -> tuple[Tensor, Tensor]:
        forget_BKD, inputs_BKD = self.terms(x_BKD)
        cell_BKD = torch.lerp(inputs_BKD, leaf, forget_BKD)
        return torch.relu(cell_BKD), cell_BKD

    def unroll(self, x_BKLD: Tensor) -> Tensor:
        forget_NLD, inputs_NLD = self.terms(x_BKLD.flatten(0, 1))
        return torch.relu(linear_recurrence(forget_NLD, inputs_NLD)).view_as(x_BKLD)

    def whole(self, x_BKLD: Tensor, padding_BKL: Tensor) -> Tensor:
        raise ValueError("an SSRU reads the words before a position only: it has no context of the whole target")


AUTOREGRESSIVE: dict[str, type[CachedSelfAttention | SSRU]] = {"transformer": CachedSelfAttention, "ssru": SSRU}
