"""Attention over several sources (Libovicky and Helcl 2017): concatenated contexts, one softmax over all positions
(flat), or a second attention over the contexts (hierarchical).

A source that is absent from a sentence is masked in every softmax and has a context of zeros. Axes: B sentences,
K hypotheses of each, T_k positions of source k, N sources, A attention size, C common space, D annotation, H state.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

import torch
from torch import Tensor, nn

from seq2seq.config import ModelConfig
from seq2seq.layers.attention import AdditiveAttention, additive_energy, context, masked_softmax_where_present
from seq2seq.layers.state import View
from seq2seq.layers.step_linear import BiasedStepLinear, StepInputs, StepLinear

SENTINEL = "sentinel"


@dataclass(frozen=True)
class CombinedAttention:
    """Attention over all sources at one step: the context (B, K, C), the weights of each source (B, K, T_k), and the
    total weight of each source and of the sentinel (B, K), which is empty where contexts are only concatenated."""

    context: Tensor
    weights: dict[str, Tensor]
    source_weights: dict[str, Tensor] = field(default_factory=dict)


class Sentinel(nn.Module):
    """Visual sentinel: a vector that the decoder can attend to instead of any source (Lu et al. 2016, equations 9, 10).

    psi = sigma(W_x x + W_h s_before) o s

    x is the previous word, s the state that is the query, s_before the top layer's state before this step.
    """

    def __init__(self, embedding: int, hidden: int) -> None:
        super().__init__()
        self.words = nn.Linear(embedding, hidden)
        self.gate = StepLinear(hidden, hidden)

    def precompute(self, words: Tensor) -> dict[StepLinear, Tensor]:
        """The word's summand of the gate, with the bias."""
        return {self.gate: self.words(words)}

    def forward(self, step: StepInputs, query_BKH: Tensor, before_BKH: Tensor) -> Tensor:
        """psi, (B, K, H)."""
        opened = torch.sigmoid(step(self.gate, before_BKH))
        return opened * query_BKH.to(opened.dtype)


class Concatenation(nn.Module):
    """Separate attention for each source; the contexts are concatenated."""

    def __init__(self, config: ModelConfig, coverage_size: int = 0) -> None:
        super().__init__()
        self.attentions = build_attentions(config, coverage_size)
        self.size = len(config.sources) * config.annotation

    def prepare(self, source: str, states_BTD: Tensor) -> tuple[Tensor, Tensor]:
        """Keys and values of a source, computed once per sentence."""
        return self.attentions[source].keys(states_BTD), states_BTD  # type: ignore[operator]

    def precompute(self, words: Tensor) -> dict[StepLinear, Tensor]:
        """Empty: no map of this combination takes a word or has a bias inside the recurrence."""
        return {}

    def forward(
        self, step: StepInputs, query: Tensor, before: Tensor, views: Mapping[str, View], covered: Mapping[str, Tensor]
    ) -> CombinedAttention:
        weights = attention_per_source(self.attentions, step, query, views, covered)
        contexts = [context(weights[source], view.values_BTD) for source, view in views.items()]
        return CombinedAttention(torch.cat(contexts, -1), weights)


class FlatCombination(nn.Module):
    """One softmax over the positions of all sources and the sentinel.

        e_ij^k = v_a . tanh(W_a s_i + U_a^k h_j^k)      c_i = sum_k sum_j alpha_ij^k U_c^k h_j^k

    Keys and values are projected once per sentence; with `share_projections` they are the same.
    """

    def __init__(self, config: ModelConfig, coverage_size: int = 0) -> None:
        super().__init__()
        hidden, annotation, size = config.hidden, config.annotation, config.energy_size
        self.size = config.combined_size
        self.shared = bool(config.share_projections)
        self.query = StepLinear(hidden, size)
        self.energy = nn.Linear(size, 1, bias=False)
        self.keys = nn.ModuleDict({source: nn.Linear(annotation, size) for source in config.sources})
        self.values = (
            None
            if self.shared
            else nn.ModuleDict({source: nn.Linear(annotation, self.size) for source in config.sources})
        )
        self.covered = (
            nn.ModuleDict({source: nn.Linear(coverage_size, size, bias=False) for source in config.sources})
            if coverage_size
            else None
        )
        self.sentinel = Sentinel(config.embedding, hidden) if config.sentinel else None
        self.sentinel_key = BiasedStepLinear(hidden, size) if config.sentinel else None
        self.sentinel_value = BiasedStepLinear(hidden, self.size) if config.sentinel and not self.shared else None

    def prepare(self, source: str, states_BTD: Tensor) -> tuple[Tensor, Tensor]:
        """Keys (B, T, A) and values (B, T, C) of a source, computed once per sentence."""
        keys: Tensor = self.keys[source](states_BTD)
        return keys, keys if self.values is None else self.values[source](states_BTD)

    def precompute(self, words: Tensor) -> dict[StepLinear, Tensor]:
        """The summands of the sentinel's maps that are known before the recurrence."""
        return precompute_sentinel(words, self.sentinel, self.sentinel_key, self.sentinel_value)

    def forward(
        self, step: StepInputs, query: Tensor, before: Tensor, views: Mapping[str, View], covered: Mapping[str, Tensor]
    ) -> CombinedAttention:
        query_BK1A = step(self.query, query)[:, :, None]
        energies, paddings = [], []
        for source, view in views.items():
            terms = [query_BK1A, view.keys_BTA[:, None]]
            if self.covered is not None:
                terms.append(self.covered[source](covered[source].to(view.keys_BTA.dtype)))
            energies.append(additive_energy(self.energy, *terms))
            paddings.append(view.padding_BT)
        widths = [padding.shape[1] for padding in paddings]
        value_BKC = None
        if self.sentinel is not None and self.sentinel_key is not None:
            psi_BKH = self.sentinel(step, query, before)
            key_BKA = self.sentinel_key(step, psi_BKH)
            value_BKC = key_BKA if self.sentinel_value is None else self.sentinel_value(step, psi_BKH)
            energies.append(additive_energy(self.energy, query_BK1A, key_BKA[:, :, None]))
            paddings.append(paddings[0].new_zeros(len(paddings[0]), 1))
            widths.append(1)
        padding_BT = torch.cat(paddings, -1)
        nothing_B1 = padding_BT.all(-1, keepdim=True)
        alpha_BKT = masked_softmax_where_present(torch.cat(energies, -1), padding_BT & ~nothing_B1, nothing_B1)
        parts = alpha_BKT.split(widths, -1)
        weights = dict(zip(views, parts, strict=False))
        source_weights = {source: weights_BKT.sum(-1) for source, weights_BKT in weights.items()}
        context_BKC = sum(context(weights[source], view.values_BTD) for source, view in views.items())
        assert isinstance(context_BKC, Tensor)
        if value_BKC is not None:
            source_weights[SENTINEL] = parts[-1].squeeze(-1)
            context_BKC = context_BKC + parts[-1].to(value_BKC.dtype) * value_BKC
        return CombinedAttention(context_BKC, weights, source_weights)


class HierarchicalCombination(nn.Module):
    """Separate attention for each source; a second attention combines their contexts and the sentinel.

    e_i^k = v_b . tanh(W_b s_i + U_b^k c_i^k)      c_i = sum_k beta_i^k U_c^k c_i^k
    """

    def __init__(self, config: ModelConfig, coverage_size: int = 0) -> None:
        super().__init__()
        hidden, annotation, size = config.hidden, config.annotation, config.energy_size
        self.size = config.combined_size
        shared = bool(config.share_projections)
        self.attentions = build_attentions(config, coverage_size)
        self.query = StepLinear(hidden, size)
        self.energy = nn.Linear(size, 1, bias=False)
        self.keys = nn.ModuleDict({source: BiasedStepLinear(annotation, size) for source in config.sources})
        self.values = (
            None
            if shared
            else nn.ModuleDict({source: BiasedStepLinear(annotation, self.size) for source in config.sources})
        )
        self.sentinel = Sentinel(config.embedding, hidden) if config.sentinel else None
        self.sentinel_key = BiasedStepLinear(hidden, size) if config.sentinel else None
        self.sentinel_value = BiasedStepLinear(hidden, self.size) if config.sentinel and not shared else None

    def prepare(self, source: str, states_BTD: Tensor) -> tuple[Tensor, Tensor]:
        """Keys and values of a source for its own attention, computed once per sentence."""
        return self.attentions[source].keys(states_BTD), states_BTD  # type: ignore[operator]

    def precompute(self, words: Tensor) -> dict[StepLinear, Tensor]:
        """The summands of the second attention's maps that are known before the recurrence."""
        shares = precompute_sentinel(words, self.sentinel, self.sentinel_key, self.sentinel_value)
        for one in (*self.keys.values(), *(() if self.values is None else self.values.values())):
            assert isinstance(one, BiasedStepLinear)
            shares |= one.precompute()
        return shares

    def forward(
        self, step: StepInputs, query: Tensor, before: Tensor, views: Mapping[str, View], covered: Mapping[str, Tensor]
    ) -> CombinedAttention:
        weights = attention_per_source(self.attentions, step, query, views, covered)
        keys, values, absent = [], [], []
        for source, view in views.items():
            context_BKD = context(weights[source], view.values_BTD)
            keys.append(self.keys[source](step, context_BKD))
            values.append(keys[-1] if self.values is None else self.values[source](step, context_BKD))
            absent.append(view.absent_B1)
        names = list(views)
        if self.sentinel is not None and self.sentinel_key is not None:
            psi_BKH = self.sentinel(step, query, before)
            keys.append(self.sentinel_key(step, psi_BKH))
            values.append(keys[-1] if self.sentinel_value is None else self.sentinel_value(step, psi_BKH))
            absent.append(torch.zeros_like(absent[0]))
            names.append(SENTINEL)
        energy_BKN = additive_energy(self.energy, step(self.query, query)[:, :, None], torch.stack(keys, 2))
        absent_BN = torch.cat(absent, -1)
        nothing_B1 = absent_BN.all(-1, keepdim=True)
        beta_BKN = masked_softmax_where_present(energy_BKN, absent_BN & ~nothing_B1, nothing_B1)
        values_BKNC = torch.stack(values, 2)
        context_BKC = (beta_BKN[:, :, None].to(values_BKNC.dtype) @ values_BKNC).squeeze(2)
        return CombinedAttention(context_BKC, weights, dict(zip(names, beta_BKN.unbind(-1), strict=True)))


Combination = Concatenation | FlatCombination | HierarchicalCombination


def build_combination(config: ModelConfig, coverage_size: int) -> Combination:
    """The recipe's attention over several sources."""
    if config.combination == "concat":
        return Concatenation(config, coverage_size)
    return (FlatCombination if config.combination == "flat" else HierarchicalCombination)(config, coverage_size)


def build_attentions(config: ModelConfig, coverage_size: int) -> nn.ModuleDict:
    """Additive attentions by source."""
    size = config.energy_size
    return nn.ModuleDict(
        {source: AdditiveAttention(config.hidden, config.annotation, size, coverage_size) for source in config.sources}
    )


def attention_per_source(
    attentions: nn.ModuleDict, step: StepInputs, query: Tensor, views: Mapping[str, View], covered: Mapping[str, Tensor]
) -> dict[str, Tensor]:
    """Separate attention weights of each source, (B, K, T_k); zeros for an absent source."""
    weights = {}
    for source, view in views.items():
        one = attentions[source]
        assert isinstance(one, AdditiveAttention)
        energy_BKT = one.energies(step, query, view.keys_BTA, covered.get(source))
        weights[source] = masked_softmax_where_present(energy_BKT, view.masked_BT, view.absent_B1)
    return weights


def precompute_sentinel(
    words: Tensor, sentinel: Sentinel | None, key: BiasedStepLinear | None, value: BiasedStepLinear | None
) -> dict[StepLinear, Tensor]:
    """The summands of the sentinel's maps that are known before the recurrence; empty without a sentinel."""
    shares = {} if sentinel is None else sentinel.precompute(words)
    for one in (key, value):
        shares |= {} if one is None else one.precompute()
    return shares
