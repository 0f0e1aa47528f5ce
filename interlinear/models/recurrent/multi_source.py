"""Attention over several sources (Libovicky and Helcl 2017): concatenated contexts, one softmax over all positions
(flat), or a second attention over the contexts (hierarchical).

A source that is absent from a sentence is masked in every softmax and has a context of zeros. Axes: B sentences,
K hypotheses of each, T_k positions of source k, N sources, A attention size, C common space, D annotation, H state.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor, nn

from interlinear.components import COMBINATIONS
from interlinear.config import RecurrentConfig
from interlinear.models.layers.step_linear import BiasedStepLinear, StepInputs, StepLinear
from interlinear.models.memory import View
from interlinear.models.recurrent.attention import (
    AdditiveAttention,
    additive_energy,
    context,
    masked_softmax_where_present,
)

SENTINEL = "sentinel"
Covered = Mapping[str, Sequence[Tensor]]  # by source: the coverage before a step (B, K, T_k, C), or nothing


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


class Combination(nn.Module, ABC):
    """Attention over several sources; `COMBINATIONS` has the subclasses by their names in a config.

    A subclass takes the config and the size of coverage (0 without); `size` is the size of its context.
    """

    has_common_space = False  # whether contexts of all sources are projected to one space, with `combination_size`
    has_one_softmax = False  # whether one softmax covers the positions of all sources
    size: int

    @abstractmethod
    def prepare(self, source: str, states_BTD: Tensor) -> tuple[Tensor, Tensor]:
        """Keys and values of a source, computed once per sentence."""

    def precompute(self, words: Tensor) -> dict[StepLinear, Tensor]:
        """The summands of the maps inside the recurrence that are known before it starts: from words, or a bias."""
        return {}

    @abstractmethod
    def forward(
        self, step: StepInputs, query: Tensor, before: Tensor, views: Mapping[str, View], covered: Covered
    ) -> CombinedAttention:
        """The attention of one step; `query` and `before` (B, K, H): its query, and the top state before it."""


@COMBINATIONS.register("concat")
class Concatenation(Combination):
    """Separate attention for each source; the contexts are concatenated."""

    def __init__(self, config: RecurrentConfig, coverage_size: int = 0) -> None:
        super().__init__()
        self.attentions = build_attentions(config, coverage_size)
        self.size = len(config.sources) * config.annotation

    def prepare(self, source: str, states_BTD: Tensor) -> tuple[Tensor, Tensor]:
        return self.attentions[source].keys(states_BTD), states_BTD  # type: ignore[operator]

    def forward(
        self, step: StepInputs, query: Tensor, before: Tensor, views: Mapping[str, View], covered: Covered
    ) -> CombinedAttention:
        weights = attention_per_source(self.attentions, step, query, views, covered)
        contexts = [context(weights[source], view.values_BTD) for source, view in views.items()]
        return CombinedAttention(torch.cat(contexts, -1), weights)


class KeyAsValue(nn.Module):
    """The value of a source or sentinel with `share_projections`: its key, U_c = U_b."""

    def precompute(self) -> dict[StepLinear, Tensor]:
        """Empty: the key's map has the bias."""
        return {}

    def forward(self, step: StepInputs, x_BKD: Tensor, key_BKA: Tensor) -> Tensor:
        """The value (B, K, C)."""
        return key_BKA


class SeparateValue(BiasedStepLinear):
    """The value of a source or sentinel without `share_projections`: a separate map, U_c."""

    def forward(self, step: StepInputs, x_BKD: Tensor, key_BKA: Tensor) -> Tensor:  # type: ignore[override]
        """The value (B, K, C)."""
        return super().forward(step, x_BKD)


class SentinelCandidate:
    """The sentinel as one more candidate beside the sources, with a key and a value."""

    def __init__(self, sentinel: Sentinel, key: BiasedStepLinear, value: KeyAsValue | SeparateValue) -> None:
        self.sentinel, self.key, self.value = sentinel, key, value

    def precompute(self, words: Tensor) -> dict[StepLinear, Tensor]:
        """The summands of its maps that are known before the recurrence."""
        return self.sentinel.precompute(words) | self.key.precompute() | self.value.precompute()

    def __call__(self, step: StepInputs, query_BKH: Tensor, before_BKH: Tensor) -> tuple[Tensor, Tensor]:
        """Its key (B, K, A) and value (B, K, C) at a step."""
        psi_BKH = self.sentinel(step, query_BKH, before_BKH)
        key_BKA = self.key(step, psi_BKH)
        return key_BKA, self.value(step, psi_BKH, key_BKA)


class AttentionWithSentinel(Combination):
    """Base of the combinations with a softmax over the sources: adds the sentinel, if the recipe has one."""

    has_common_space = True

    def __init__(self) -> None:
        super().__init__()
        self.sentinels: list[SentinelCandidate] = []  # one or none

    def add_sentinel(self, config: RecurrentConfig) -> None:
        """Adds the sentinel's modules, if the recipe has one."""
        if config.sentinel:
            self.sentinel = Sentinel(config.embedding, config.hidden)
            self.sentinel_key = BiasedStepLinear(config.hidden, config.energy_size)
            self.sentinel_value = build_value(config, config.hidden)
            self.sentinels = [SentinelCandidate(self.sentinel, self.sentinel_key, self.sentinel_value)]

    def precompute(self, words: Tensor) -> dict[StepLinear, Tensor]:
        """The summands of the maps inside the recurrence that are known before it starts."""
        return {part: term for one in self.sentinels for part, term in one.precompute(words).items()}


@COMBINATIONS.register("flat")
class FlatCombination(AttentionWithSentinel):
    """One softmax over the positions of all sources and the sentinel.

        e_ij^k = v_a . tanh(W_a s_i + U_a^k h_j^k)      c_i = sum_k sum_j alpha_ij^k U_c^k h_j^k

    Keys and values are projected once per sentence; with `share_projections` they are the same.
    """

    has_one_softmax = True

    def __init__(self, config: RecurrentConfig, coverage_size: int = 0) -> None:
        super().__init__()
        annotation, size = config.annotation, config.energy_size
        self.size = config.combined_size
        self.query = StepLinear(config.hidden, size)
        self.energy = nn.Linear(size, 1, bias=False)
        self.keys = nn.ModuleDict({source: nn.Linear(annotation, size) for source in config.sources})
        own = [] if config.share_projections else config.sources
        self.values = nn.ModuleDict({source: nn.Linear(annotation, self.size) for source in own})
        covered = config.sources if coverage_size else []
        self.covered = nn.ModuleDict({source: nn.Linear(coverage_size, size, bias=False) for source in covered})
        self.add_sentinel(config)

    def prepare(self, source: str, states_BTD: Tensor) -> tuple[Tensor, Tensor]:
        """Keys (B, T, A) and values (B, T, C) of a source, computed once per sentence."""
        keys: Tensor = self.keys[source](states_BTD)
        return keys, self.values[source](states_BTD) if source in self.values else keys

    def forward(
        self, step: StepInputs, query: Tensor, before: Tensor, views: Mapping[str, View], covered: Covered
    ) -> CombinedAttention:
        query_BK1A = step(self.query, query)[:, :, None]
        energies, paddings = [], []
        for source, view in views.items():
            keys_B1TA = view.keys_BTA[:, None]
            terms = [self.covered[source](coverage.to(keys_B1TA.dtype)) for coverage in covered[source]]
            energies.append(additive_energy(self.energy, query_BK1A, keys_B1TA, *terms))
            paddings.append(view.padding_BT)
        sentinels = [one(step, query, before) for one in self.sentinels]
        for key_BKA, _ in sentinels:
            energies.append(additive_energy(self.energy, query_BK1A, key_BKA[:, :, None]))
            paddings.append(paddings[0].new_zeros(len(paddings[0]), 1))
        padding_BT = torch.cat(paddings, -1)
        nothing_B1 = padding_BT.all(-1, keepdim=True)
        alpha_BKT = masked_softmax_where_present(torch.cat(energies, -1), padding_BT & ~nothing_B1, nothing_B1)
        parts = alpha_BKT.split([padding.shape[1] for padding in paddings], -1)
        weights = dict(zip(views, parts[: len(views)], strict=True))
        source_weights = {source: weights_BKT.sum(-1) for source, weights_BKT in weights.items()}
        contexts = [context(weights[source], view.values_BTD) for source, view in views.items()]
        for weight_BK1, (_, value_BKC) in zip(parts[len(views) :], sentinels, strict=True):
            source_weights[SENTINEL] = weight_BK1.squeeze(-1)
            contexts.append(weight_BK1.to(value_BKC.dtype) * value_BKC)
        return CombinedAttention(sum(contexts[1:], contexts[0]), weights, source_weights)


@COMBINATIONS.register("hierarchical")
class HierarchicalCombination(AttentionWithSentinel):
    """Separate attention for each source; a second attention combines their contexts and the sentinel.

    e_i^k = v_b . tanh(W_b s_i + U_b^k c_i^k)      c_i = sum_k beta_i^k U_c^k c_i^k
    """

    def __init__(self, config: RecurrentConfig, coverage_size: int = 0) -> None:
        super().__init__()
        annotation, size = config.annotation, config.energy_size
        self.size = config.combined_size
        self.attentions = build_attentions(config, coverage_size)
        self.query = StepLinear(config.hidden, size)
        self.energy = nn.Linear(size, 1, bias=False)
        self.keys = nn.ModuleDict({source: BiasedStepLinear(annotation, size) for source in config.sources})
        self.values = nn.ModuleDict({source: build_value(config, annotation) for source in config.sources})
        self.add_sentinel(config)

    def prepare(self, source: str, states_BTD: Tensor) -> tuple[Tensor, Tensor]:
        """Keys and values of a source for its own attention, computed once per sentence."""
        return self.attentions[source].keys(states_BTD), states_BTD  # type: ignore[operator]

    def precompute(self, words: Tensor) -> dict[StepLinear, Tensor]:
        """The summands of the second attention's maps that are known before the recurrence."""
        terms = super().precompute(words)
        for one in (*self.keys.values(), *self.values.values()):
            terms |= one.precompute()  # type: ignore[operator]
        return terms

    def forward(
        self, step: StepInputs, query: Tensor, before: Tensor, views: Mapping[str, View], covered: Covered
    ) -> CombinedAttention:
        weights = attention_per_source(self.attentions, step, query, views, covered)
        keys, values, absent = [], [], []
        for source, view in views.items():
            context_BKD = context(weights[source], view.values_BTD)
            keys.append(self.keys[source](step, context_BKD))
            values.append(self.values[source](step, context_BKD, keys[-1]))
            absent.append(view.absent_B1)
        for one in self.sentinels:
            key_BKA, value_BKC = one(step, query, before)
            keys.append(key_BKA)
            values.append(value_BKC)
            absent.append(torch.zeros_like(absent[0]))
        energy_BKN = additive_energy(self.energy, step(self.query, query)[:, :, None], torch.stack(keys, 2))
        absent_BN = torch.cat(absent, -1)
        nothing_B1 = absent_BN.all(-1, keepdim=True)
        beta_BKN = masked_softmax_where_present(energy_BKN, absent_BN & ~nothing_B1, nothing_B1)
        values_BKNC = torch.stack(values, 2)
        context_BKC = (beta_BKN[:, :, None].to(values_BKNC.dtype) @ values_BKNC).squeeze(2)
        names = [*views, *(SENTINEL for _ in self.sentinels)]
        return CombinedAttention(context_BKC, weights, dict(zip(names, beta_BKN.unbind(-1), strict=True)))


def build_combination(config: RecurrentConfig, coverage_size: int) -> Combination:
    """The recipe's attention over several sources."""
    combination: Combination = COMBINATIONS[config.combination](config, coverage_size)
    return combination


def build_attentions(config: RecurrentConfig, coverage_size: int) -> nn.ModuleDict:
    """Additive attentions by source."""
    size = config.energy_size
    return nn.ModuleDict(
        {source: AdditiveAttention(config.hidden, config.annotation, size, coverage_size) for source in config.sources}
    )


def build_value(config: RecurrentConfig, inputs: int) -> KeyAsValue | SeparateValue:
    """The map of a source or sentinel to its value in the recurrence."""
    return KeyAsValue() if config.share_projections else SeparateValue(inputs, config.combined_size)


def attention_per_source(
    attentions: nn.ModuleDict, step: StepInputs, query: Tensor, views: Mapping[str, View], covered: Covered
) -> dict[str, Tensor]:
    """Separate attention weights of each source, (B, K, T_k); zeros for an absent source."""
    weights = {}
    for source, view in views.items():
        one = attentions[source]
        assert isinstance(one, AdditiveAttention)
        energy_BKT = one.energies(step, query, view.keys_BTA, *covered[source])
        weights[source] = masked_softmax_where_present(energy_BKT, view.masked_BT, view.absent_B1)
    return weights
