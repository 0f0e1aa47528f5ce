"""Attention of a decoder's layer to its sources (Libovicky, Helcl and Marecek 2018, section 3): one after the other
(serial), side by side (parallel), with one softmax over all positions (flat), or with a second attention over contexts
(hierarchical). With a single source, serial is Vaswani et al.'s layer.

A source that is absent from a sentence has weights of 0 and adds nothing. Axes: B sentences, Q queries, T_k positions
of source k, N sources, A all heads side by side, H heads, C size of a head, D size of a layer.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import cast

import torch
from torch import Tensor, nn

from interlinear.models.memory import View
from interlinear.models.transformer.attention import SourceAttention, energies, softmax, split_heads
from interlinear.models.transformer.layers import LayerConfig, Residual


@dataclass(frozen=True)
class Attended:
    """A layer's output after its sources, (B, Q, D). If weights are asked for, they are by source (B, H, Q, T_k); where
    a softmax covers the sources, with the total weight of each source and head, (B, H, Q)."""

    states: Tensor
    weights: dict[str, Tensor] = field(default_factory=dict)
    source_weights: dict[str, Tensor] = field(default_factory=dict)


class CrossAttention(nn.Module, ABC):
    """The part of a decoder's layer that attends to the sources, with its residual connections."""

    @abstractmethod
    def prepare(self, source: str, states_BTD: Tensor) -> tuple[Tensor, Tensor]:
        """Keys and values (B, T, A) of a source, once a sentence."""

    @abstractmethod
    def forward(self, x_BQD: Tensor, views: Mapping[str, View], with_weights: bool) -> Attended:
        """Attention of the layer's states (B, Q, D) to the views of all sources."""


class SeparateAttentions(CrossAttention):
    """Base of the strategies with an attention for each source."""

    def __init__(self, config: LayerConfig, sources: Sequence[str], annotation: int) -> None:
        super().__init__()
        self.attentions = nn.ModuleDict({source: SourceAttention(config, annotation) for source in sources})

    def prepare(self, source: str, states_BTD: Tensor) -> tuple[Tensor, Tensor]:
        return self.attention(source).prepare(states_BTD)

    def attention(self, source: str) -> SourceAttention:
        return cast(SourceAttention, self.attentions[source])

    def attend(
        self, x_BQD: Tensor, views: Mapping[str, View], with_weights: bool
    ) -> tuple[list[Tensor], dict[str, Tensor]]:
        """The output of each source's attention, with the same queries, and the weights by source."""
        read = {source: self.attention(source)(x_BQD, view, with_weights) for source, view in views.items()}
        weights = {source: weights for source, (_, weights) in read.items() if weights is not None}
        return [added_BQD for added_BQD, _ in read.values()], weights


class SerialAttention(SeparateAttentions):
    """One source after the other, each in a residual connection of its own (section 3.1)."""

    def __init__(self, config: LayerConfig, sources: Sequence[str], annotation: int) -> None:
        super().__init__(config, sources, annotation)
        self.residuals = nn.ModuleDict({source: Residual(config) for source in sources})

    def forward(self, x_BQD: Tensor, views: Mapping[str, View], with_weights: bool) -> Attended:
        weights: dict[str, Tensor] = {}
        for source, view in views.items():
            residual = cast(Residual, self.residuals[source])
            (added_BQD,), of_source = self.attend(residual.enter(x_BQD), {source: view}, with_weights)
            x_BQD = residual.leave(x_BQD, added_BQD)
            weights |= of_source
        return Attended(x_BQD, weights)


class ParallelAttention(SeparateAttentions):
    """The sum of the sources' attentions with the same queries: sum_k A(Q, K_k, V_k) (section 3.2)."""

    def __init__(self, config: LayerConfig, sources: Sequence[str], annotation: int) -> None:
        super().__init__(config, sources, annotation)
        self.residual = Residual(config)

    def forward(self, x_BQD: Tensor, views: Mapping[str, View], with_weights: bool) -> Attended:
        added, weights = self.attend(self.residual.enter(x_BQD), views, with_weights)
        return Attended(self.residual.leave(x_BQD, sum(added[1:], added[0])), weights)


class FlatAttention(CrossAttention):
    """One attention to the states of all sources, as if they were one (section 3.3).

    K = V = concat(K_1, ..., K_N), with the same projections for every source. The softmax covers the energies of all
    sources side by side, so that no step copies their keys.
    """

    def __init__(self, config: LayerConfig, sources: Sequence[str], annotation: int) -> None:
        super().__init__()
        self.residual, self.attention = Residual(config), SourceAttention(config, annotation)

    def prepare(self, source: str, states_BTD: Tensor) -> tuple[Tensor, Tensor]:
        return self.attention.prepare(states_BTD)

    def forward(self, x_BQD: Tensor, views: Mapping[str, View], with_weights: bool) -> Attended:
        heads = self.attention.heads
        query_BQA = self.attention.query(self.residual.enter(x_BQD))
        energy_BHQT = torch.cat([energies(query_BQA, view.keys_BTA, heads.count) for view in views.values()], -1)
        padding_BT = torch.cat([view.padding_BT for view in views.values()], -1)
        nothing_B111 = padding_BT.all(-1)[:, None, None, None]
        masked_B11T = padding_BT[:, None, None] & ~nothing_B111
        weights_BHQT = softmax(energy_BHQT, masked_B11T).masked_fill(nothing_B111, 0.0)
        parts = weights_BHQT.split([view.padding_BT.shape[1] for view in views.values()], -1)
        weights = dict(zip(views, parts, strict=True))
        contexts = [heads.contexts(weights[source], view.values_BTD) for source, view in views.items()]
        added_BQD = self.attention.output(sum(contexts[1:], contexts[0])).masked_fill(nothing_B111[..., 0], 0.0)
        states_BQD = self.residual.leave(x_BQD, added_BQD)
        if not with_weights:
            return Attended(states_BQD)
        return Attended(states_BQD, weights, {source: part.sum(-1) for source, part in weights.items()})


class HierarchicalAttention(SeparateAttentions):
    """A second attention, with the same queries, over the contexts of the sources (section 3.4).

    K = V = concat(A(Q, K_1, V_1), ..., A(Q, K_N, V_N)); the rows of `key_value` are the second attention's W_K and W_V.
    """

    def __init__(self, config: LayerConfig, sources: Sequence[str], annotation: int) -> None:
        super().__init__(config, sources, annotation)
        self.residual = Residual(config)
        self.combination = SourceAttention(config, config.size)

    def forward(self, x_BQD: Tensor, views: Mapping[str, View], with_weights: bool) -> Attended:
        query_BQD, second = self.residual.enter(x_BQD), self.combination
        read, weights = self.attend(query_BQD, views, with_weights)
        absent_BN = torch.cat([view.absent_B1 for view in views.values()], -1)
        nothing_B11 = absent_BN.all(-1)[:, None, None]
        contexts_BHQC, beta_BHQN = self.combine(query_BQD, torch.stack(read, 2), absent_BN)
        added_BQD = second.output(contexts_BHQC.transpose(1, 2).flatten(2)).masked_fill(nothing_B11, 0.0)
        states_BQD = self.residual.leave(x_BQD, added_BQD)
        if not with_weights:
            return Attended(states_BQD)
        beta_BHQN = beta_BHQN.masked_fill(nothing_B11[..., None], 0.0)
        return Attended(states_BQD, weights, dict(zip(views, beta_BHQN.unbind(-1), strict=True)))

    def combine(self, query_BQD: Tensor, read_BQND: Tensor, absent_BN: Tensor) -> tuple[Tensor, Tensor]:
        """The second attention: every query attends to its own N contexts. Contexts (B, H, Q, C), weights (B, H, Q, N)
        of the heads."""
        heads = self.combination.heads
        query_BHQC = split_heads(self.combination.query(query_BQD), heads.count)
        keys, values = self.combination.prepare(read_BQND)
        keys_BHQNC, values_BHQNC = (each.unflatten(-1, (heads.count, -1)).movedim(3, 1) for each in (keys, values))
        energy_BHQN = (keys_BHQNC @ query_BHQC[..., None]).squeeze(-1) / math.sqrt(query_BHQC.shape[-1])
        masked_BN = absent_BN & ~absent_BN.all(-1, keepdim=True)
        beta_BHQN = softmax(energy_BHQN, masked_BN[:, None, None])
        dropped_BHQN = nn.functional.dropout(beta_BHQN, heads.dropout, self.training).to(values_BHQNC.dtype)
        return (dropped_BHQN[..., None, :] @ values_BHQNC).squeeze(-2), beta_BHQN


STRATEGIES: dict[str, type[SerialAttention | ParallelAttention | FlatAttention | HierarchicalAttention]] = {
    "serial": SerialAttention,
    "parallel": ParallelAttention,
    "flat": FlatAttention,
    "hierarchical": HierarchicalAttention,
}
