"""Scaled dot-product attention with several heads (Vaswani et al. 2017, section 3.2).

    Attention(Q, K, V) = softmax(Q K' / sqrt(C)) V

Axes: B sentences, Q queries, T positions that are attended to, A all heads side by side, H heads, C size of a head,
D size of a layer. Masks are True where a position does not take part; they broadcast to (B, H, Q, T).
"""

import math

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from interlinear.models.layers.step_linear import product_dtype
from interlinear.models.memory import View
from interlinear.models.transformer.layers import LayerConfig


def split_heads(vectors_BTA: Tensor, heads: int) -> Tensor:
    """(B, T, A) -> (B, H, T, C), without a copy."""
    vectors_BTHC: Tensor = vectors_BTA.unflatten(-1, (heads, -1))
    return vectors_BTHC.transpose(-2, -3)


def join_heads(vectors_BHQC: Tensor) -> Tensor:
    """(B, H, Q, C) -> (B, Q, A)."""
    return vectors_BHQC.transpose(-2, -3).flatten(-2)


def energies(query_BQA: Tensor, keys_BTA: Tensor, heads: int) -> Tensor:
    """Q K' / sqrt(C), (B, H, Q, T)."""
    query_BHQC = split_heads(query_BQA, heads)
    return (query_BHQC / math.sqrt(query_BHQC.shape[-1])) @ split_heads(keys_BTA, heads).mT


def softmax(energy: Tensor, masked: Tensor) -> Tensor:
    """The softmax over the last axis, in at least fp32; a masked position gets exactly 0. One has to be unmasked."""
    energy = energy.masked_fill(masked, -torch.inf)
    return torch.softmax(energy, -1, dtype=torch.promote_types(energy.dtype, torch.float32))


class Heads(nn.Module):
    """Attention of several heads to keys and values that are projected already; no parameters."""

    def __init__(self, config: LayerConfig) -> None:
        super().__init__()
        self.count, self.dropout = config.heads, config.attention_dropout

    def forward(
        self,
        query_BQA: Tensor,
        keys_BTA: Tensor,
        values_BTA: Tensor,
        masked: Tensor | None = None,
        is_causal: bool = False,
        with_weights: bool = False,
    ) -> tuple[Tensor, Tensor | None]:
        """Contexts (B, Q, A), and the weights (B, H, Q, T) before dropout, if they are asked for.

        is_causal: query q attends to the positions up to q; then there is no mask, and there are no weights.
        """
        if with_weights:
            assert masked is not None
            weights_BHQT = softmax(energies(query_BQA, keys_BTA, self.count), masked)
            return self.contexts(weights_BHQT, values_BTA), weights_BHQT
        query, keys, values = (split_heads(vectors, self.count) for vectors in (query_BQA, keys_BTA, values_BTA))
        attended = None if masked is None else ~masked
        dropout = self.dropout if self.training else 0.0
        return join_heads(F.scaled_dot_product_attention(query, keys, values, attended, dropout, is_causal)), None

    def contexts(self, weights_BHQT: Tensor, values_BTA: Tensor) -> Tensor:
        """The sums (B, Q, A) of values by weights, after dropout."""
        weights_BHQT = F.dropout(weights_BHQT, self.dropout, self.training).to(values_BTA.dtype)
        return join_heads(weights_BHQT @ split_heads(values_BTA, self.count))


class SelfAttention(nn.Module):
    """Attention of a sequence to itself; the rows of `projection` are W_Q, W_K, W_V of all heads."""

    def __init__(self, config: LayerConfig) -> None:
        super().__init__()
        self.heads = Heads(config)
        self.projection = nn.Linear(config.size, 3 * config.size)
        self.output = nn.Linear(config.size, config.size)

    def forward(self, x_BTD: Tensor, masked: Tensor | None = None, is_causal: bool = False) -> Tensor:
        """(B, T, D) -> (B, T, D)."""
        query_BTA, key_value = self.project(x_BTD)
        keys_BTA, values_BTA = key_value.chunk(2, -1)
        return self.attend(query_BTA, keys_BTA, values_BTA, masked, is_causal)

    def project(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Queries (..., A), and keys and values side by side, (..., 2A)."""
        size = self.output.in_features
        query, key_value = self.projection(x).split([size, 2 * size], -1)
        return query, key_value

    def attend(
        self, query_BQA: Tensor, keys_BTA: Tensor, values_BTA: Tensor, masked: Tensor | None, is_causal: bool = False
    ) -> Tensor:
        """(B, Q, D) of projected queries, keys and values."""
        contexts_BQA, _ = self.heads(query_BQA, keys_BTA, values_BTA, masked, is_causal)
        attended_BQD: Tensor = self.output(contexts_BQA)
        return attended_BQD


class SourceAttention(nn.Module):
    """Attention of a decoder to one source; the rows of `key_value` are W_K and W_V of all heads.

    A sentence without the source has an output of 0, the bias included, and weights of 0.
    """

    def __init__(self, config: LayerConfig, annotation: int) -> None:
        super().__init__()
        self.heads = Heads(config)
        self.query = nn.Linear(config.size, config.size)
        self.key_value = nn.Linear(annotation, 2 * config.size)
        self.output = nn.Linear(config.size, config.size)

    def prepare(self, states_BTD: Tensor) -> tuple[Tensor, Tensor]:
        """Keys and values (B, T, A) of a source, once a sentence, for all hypotheses."""
        keys_BTA, values_BTA = self.key_value(states_BTD.to(product_dtype(self.key_value.weight))).chunk(2, -1)
        return keys_BTA, values_BTA

    def forward(self, x_BQD: Tensor, view: View, with_weights: bool) -> tuple[Tensor, Tensor | None]:
        """The output (B, Q, D) of attention to the source, and the weights (B, H, Q, T), if they are asked for."""
        masked_B11T, absent_B11 = view.masked_BT[:, None, None], view.absent_B1[:, None]
        contexts_BQA, weights_BHQT = self.heads(
            self.query(x_BQD), view.keys_BTA, view.values_BTD, masked_B11T, with_weights=with_weights
        )
        attended_BQD = self.output(contexts_BQA).masked_fill(absent_B11, 0.0)
        if weights_BHQT is not None:
            weights_BHQT = weights_BHQT.masked_fill(absent_B11[:, None], 0.0)
        return attended_BQD, weights_BHQT
