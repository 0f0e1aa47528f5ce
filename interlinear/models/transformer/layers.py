"""Layers that encoders and decoders of a Transformer share: positions, residual connections, feed-forward layers.

Axes: leading ones are free, B sentences, Q positions or hypotheses of a sentence, D size of a layer, F feed-forward.
"""

import math
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from interlinear.models.layers.layer_norm import LayerNorm
from interlinear.models.layers.step_linear import at_least_fp32, product_dtype

PositionOrder = Literal["interleaved", "concatenated"]
Activation = Literal["relu", "gelu", "swiglu"]


@dataclass(frozen=True)
class LayerConfig:
    """Settings that all layers of a Transformer share.

    size: D of every layer's input and output. feedforward: F. norm: layer normalisation after each residual connection
    (post, Vaswani et al. 2017), or before each part and once at the end (pre). positions: their order of dimensions
    (`sinusoids`). dropout: after the sum of embeddings and positions, and after each part; attention_dropout: of
    attention weights; feedforward_dropout: inside the feed-forward layer; layer_drop: of whole layers (`skip_layer`).
    Raises ValueError for sizes that do not fit.
    """

    size: int
    heads: int
    feedforward: int
    activation: Activation = "relu"
    norm: Literal["post", "pre"] = "post"
    norm_epsilon: float = 1e-5
    positions: PositionOrder = "interleaved"
    dropout: float = 0.0
    attention_dropout: float = 0.0
    feedforward_dropout: float = 0.0
    layer_drop: float = 0.0

    def __post_init__(self) -> None:
        if self.size % self.heads:
            raise ValueError(f"a size of {self.size} cannot be divided among {self.heads} heads")
        if self.size % 2:
            raise ValueError(f"positions are pairs of sine and cosine, and a size of {self.size} is odd")


class Residual(nn.Module):
    """The residual connection around a part of a layer, with dropout and layer normalisation.

        post: LN(x + dropout(part(x)))        pre: x + dropout(part(LN(x)))

    `enter` makes the part's input, in the precision of its products; `leave` adds its output to x, which is kept in at
    least fp32.
    """

    def __init__(self, config: LayerConfig) -> None:
        super().__init__()
        self.norm = LayerNorm(config.size, config.norm_epsilon)
        self.is_pre, self.dropout = config.norm == "pre", config.dropout

    def enter(self, x: Tensor) -> Tensor:
        entering = self.norm(x) if self.is_pre else x
        return entering.to(product_dtype(self.norm.weight))

    def leave(self, x: Tensor, part: Tensor) -> Tensor:
        added = x + F.dropout(part, self.dropout, self.training)
        left: Tensor = added if self.is_pre else self.norm(added)
        return left


class FeedForward(nn.Module):
    """A feed-forward layer in its residual connection.

        relu, gelu: W_2 dropout(act(W_1 x + b_1)) + b_2 (Vaswani et al. 2017, equation 2)
        swiglu: W_2 dropout(swish(W x + b) * (V x + c)) + b_2 (Shazeer 2020, equation 6, with biases)

    With swiglu the rows of `inner` are W, then V.
    """

    def __init__(self, config: LayerConfig) -> None:
        super().__init__()
        self.residual = Residual(config)
        self.activation, self.dropout = config.activation, config.feedforward_dropout
        self.inner = nn.Linear(config.size, config.feedforward * (2 if config.activation == "swiglu" else 1))
        self.outer = nn.Linear(config.feedforward, config.size)

    def forward(self, x: Tensor) -> Tensor:
        """(..., D) -> (..., D)."""
        inner = self.activate(self.inner(self.residual.enter(x)))
        return self.residual.leave(x, self.outer(F.dropout(inner, self.dropout, self.training)))

    def activate(self, inner: Tensor) -> Tensor:
        """The activations (..., F) of the first map's output."""
        if self.activation == "swiglu":
            gate, linear = inner.chunk(2, -1)
            return F.silu(gate) * linear
        return F.relu(inner) if self.activation == "relu" else F.gelu(inner)


class Top(nn.Module):
    """The end of a stack: with pre-norm, the last layer normalisation; then the precision of products."""

    def __init__(self, config: LayerConfig) -> None:
        super().__init__()
        self.norm = LayerNorm(config.size, config.norm_epsilon) if config.norm == "pre" else None

    def forward(self, x: Tensor, dtype: torch.dtype) -> Tensor:
        """(..., D) -> (..., D)."""
        return (x if self.norm is None else self.norm(x)).to(dtype)


def with_positions(words: Tensor, position: Tensor, config: LayerConfig, training: bool) -> Tensor:
    """The input of the first layer, dropout(sqrt(D) w + p), (..., D), for words (..., D) at positions (...)."""
    words = at_least_fp32(words)
    positions = sinusoids(position, config.size, config.positions, words.dtype)
    return F.dropout(words * math.sqrt(config.size) + positions, config.dropout, training)


def sinusoids(position: Tensor, size: int, order: PositionOrder, dtype: torch.dtype) -> Tensor:
    """Sines and cosines (..., D) of positions (...), from 0.

    interleaved: dimension 2k is sin(p / 10000^(k / (D/2))), and 2k + 1 its cosine (Vaswani et al. 2017, section 3.5).
    concatenated: dimension k is sin(p / 10000^(k / (D/2 - 1))), and D/2 + k its cosine (Marian, tensor2tensor).
    """
    half = size // 2
    last = half if order == "interleaved" else max(half - 1, 1)
    exponent_K = torch.arange(half, device=position.device, dtype=dtype) / last
    angle = position[..., None] * torch.exp(exponent_K * -math.log(10000))
    if order == "interleaved":
        return torch.stack([angle.sin(), angle.cos()], -1).flatten(-2)
    return torch.cat([angle.sin(), angle.cos()], -1)


def skip_layer(before_BQD: Tensor, after_BQD: Tensor, share: float, training: bool) -> Tensor:
    """In training, a layer's input instead of its output with probability `share` (LayerDrop, Fan et al. 2020),
    drawn for each sentence as in stochastic depth (Huang et al. 2016). On the tensors' device."""
    if not (training and share):
        return after_BQD
    kept_B11 = torch.rand(len(before_BQD), 1, 1, device=before_BQD.device) >= share
    return torch.where(kept_B11, after_BQD, before_BQD)
