"""Attention of a decoder in one step: to one or several sources, with coverage, with annotations that it updates.

Each class does one part. `composition.py` composes a decoder from them, so that its loop has no branches on the
configuration. They are plain objects and not modules: the decoder has their modules, by name.

Axes: B sentences, K hypotheses of each, T source positions, E embedding, H hidden, D annotation, A attention size,
C all contexts side by side.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Protocol

import torch
from torch import Tensor

from interlinear.models.attention_weights import STATES, WORDS
from interlinear.models.layers.step_linear import StepInputs, StepLinear, at_least_fp32, product_dtype
from interlinear.models.memory import Memory, View, view_name
from interlinear.models.protocol import EncoderOutput
from interlinear.models.recurrent.attention import Attention, context, masked_softmax, masked_softmax_where_present
from interlinear.models.recurrent.coverage import Coverage
from interlinear.models.recurrent.memory_update import MemoryUpdate
from interlinear.models.recurrent.multi_source import Combination
from interlinear.models.state import State

Leaves = dict[str, Tensor]  # part of the decoder's state, by name


@dataclass(frozen=True)
class AttentionResult:
    """The result of one step's attention over all sources.

    context: all contexts side by side, (B, K, C); contexts: the same by kind.
    weights: by (source, kind), (B, K, T).
    source_weights: the weight of each source, and of the sentinel, (B, K).
    leaves: the leaves of the state that attention changed.
    """

    context: Tensor
    contexts: dict[str, Tensor]
    weights: dict[tuple[str, str], Tensor]
    source_weights: dict[str, Tensor] = field(default_factory=dict)
    leaves: Leaves = field(default_factory=dict)


class Attend(Protocol):
    """Attention over all sources."""

    def views(self, source: str, read: EncoderOutput, dtype: torch.dtype) -> dict[str, View]:
        """The views of a source, by name; values in the precision of the loop's products."""
        ...

    def start(self, memory: Memory) -> State:
        """The leaves of the decoder's state that attention changes, before the first token."""
        ...

    def precompute(self, words: Tensor) -> dict[StepLinear, Tensor]:
        """The terms of maps inside the recurrence that are known before it starts: from words (..., E), or a bias."""
        ...

    def __call__(
        self, step: StepInputs, memory: Memory, state: State, query_BKH: Tensor, before_BKH: Tensor
    ) -> AttentionResult:
        """The attention of a query (B, K, H); `before_BKH` is the top layer's state before this step."""
        ...

    def update(
        self, step: StepInputs, memory: Memory, state: State, hidden_BKH: Tensor, attended: AttentionResult
    ) -> Leaves:
        """The leaves that change after the cells, which have led to `hidden_BKH`."""
        ...


class NoCoverage:
    """Attention without coverage."""

    def __init__(self, source: str) -> None:
        self.source = source

    def start(self, memory: Memory) -> Leaves:
        """No leaves."""
        return {}

    def share(self, values: Tensor) -> Tensor:
        """The share of each annotation in the coverage: nothing, (B, [K,] T, 0)."""
        return values[..., :0]

    def current(self, state: State) -> tuple[Tensor, ...]:
        """No coverage."""
        return ()

    def update(self, state: State, weights_BKT: Tensor, share: Tensor, before_BKH: Tensor) -> Leaves:
        """No leaves."""
        return {}


class SourceCoverage:
    """The coverage of one source: the leaf `coverage.SOURCE` of the state, (B, K, T, C)."""

    def __init__(self, source: str, coverage: Coverage) -> None:
        self.source, self.coverage, self.leaf = source, coverage, f"coverage.{source}"

    def start(self, memory: Memory) -> Leaves:
        """Zero at every position."""
        padding_BT = memory.views[view_name(self.source, STATES)].padding_BT
        shape = (memory.rows, 1, padding_BT.shape[1], self.coverage.size)
        return {self.leaf: padding_BT.new_zeros(shape, dtype=memory.score_dtype)}

    def share(self, values: Tensor) -> Tensor:
        """The share of each annotation in the coverage, (B, [K,] T, C')."""
        return self.coverage.annotations(values)

    def current(self, state: State) -> tuple[Tensor, ...]:
        """The coverage before this step."""
        return (state.leaves[self.leaf],)

    def update(self, state: State, weights_BKT: Tensor, share: Tensor, before_BKH: Tensor) -> Leaves:
        """The coverage after this step."""
        return {self.leaf: self.coverage(state.leaves[self.leaf], weights_BKT, share, before_BKH)}


OptionalCoverage = NoCoverage | SourceCoverage


class FixedAnnotations:
    """Annotations that all hypotheses of a sentence share: keys and values are the memory's."""

    def __init__(self, source: str) -> None:
        self.source = source

    def start(self, memory: Memory) -> Leaves:
        """No leaves."""
        return {}

    def keys(self, attention: Attention, states_BTD: Tensor) -> Tensor:
        """The keys that the memory holds, (B, T, A)."""
        return attention.keys(states_BTD)

    def values(self, values_BTD: Tensor, dtype: torch.dtype) -> Tensor:
        """The values that the memory holds, in the precision of the loop's products."""
        return values_BTD.to(dtype)

    def read(
        self, attention: Attention, coverage: OptionalCoverage, view: View, state: State
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Keys, values, and the coverage's share of each, for one step."""
        return view.keys_BTA, view.values_BTD, view.covered_BTC[:, None]

    def update(
        self, step: StepInputs, memory: Memory, state: State, hidden_BKH: Tensor, attended: AttentionResult
    ) -> Leaves:
        """No leaves."""
        return {}


class UpdatedAnnotations:
    """Annotations of each hypothesis, which every step updates (Meng et al. 2016, section 3.2).

    They are the leaf `written` of the state, (B, K, T, D), and start as the encoder's; keys are computed from them at
    every step. `addressing`: an attention that gives the weights of the update; by default the attention weights of the
    step.
    """

    leaf = "written"

    def __init__(self, source: str, memory_update: MemoryUpdate, addressing: Attention | None) -> None:
        self.source, self.memory_update = source, memory_update
        self.addressing: Addressing = ReadingWeights() if addressing is None else OwnWeights(addressing)

    def start(self, memory: Memory) -> Leaves:
        """The encoder's annotations."""
        return {self.leaf: at_least_fp32(memory.views[view_name(self.source, STATES)].values_BTD)[:, None]}

    def keys(self, attention: Attention, states_BTD: Tensor) -> Tensor:
        """None, (B, T, 0): they change at every step."""
        return states_BTD[..., :0]

    def values(self, values_BTD: Tensor, dtype: torch.dtype) -> Tensor:
        """The annotations before the first update, in their own precision."""
        return values_BTD

    def read(
        self, attention: Attention, coverage: OptionalCoverage, view: View, state: State
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Keys, values, and the coverage's share of each, for one step."""
        values_BKTD = state.leaves[self.leaf].to(product_dtype(self.memory_update.forget.weight))
        return attention.keys(values_BKTD), values_BKTD, coverage.share(values_BKTD)

    def update(
        self, step: StepInputs, memory: Memory, state: State, hidden_BKH: Tensor, attended: AttentionResult
    ) -> Leaves:
        """The annotations after this step, updated by its new state."""
        written_BKTD = state.leaves[self.leaf]
        view = memory.views[view_name(self.source, STATES)]
        weights_BKT = self.addressing(step, view, hidden_BKH, written_BKTD, attended)
        updated: Tensor = self.memory_update(step, hidden_BKH, weights_BKT, written_BKTD)
        return {self.leaf: updated}


class Addressing(Protocol):
    """The weights (B, K, T) with which a step updates annotations (B, K, T, D)."""

    def __call__(
        self, step: StepInputs, view: View, hidden_BKH: Tensor, written_BKTD: Tensor, attended: AttentionResult
    ) -> Tensor: ...


class ReadingWeights:
    """The step's attention weights."""

    def __call__(
        self, step: StepInputs, view: View, hidden_BKH: Tensor, written_BKTD: Tensor, attended: AttentionResult
    ) -> Tensor:
        return attended.weights[view.source, STATES]


class OwnWeights:
    """The weights of a second attention, with the step's new state as query."""

    def __init__(self, attention: Attention) -> None:
        self.attention = attention

    def __call__(
        self, step: StepInputs, view: View, hidden_BKH: Tensor, written_BKTD: Tensor, attended: AttentionResult
    ) -> Tensor:
        energy_BKT = self.attention.energies(step, hidden_BKH, self.attention.keys(written_BKTD))
        return masked_softmax(energy_BKT, view.padding_BT)


OptionalMemoryUpdate = FixedAnnotations | UpdatedAnnotations


class SingleSource:
    """Attention over the only source."""

    def __init__(
        self, source: str, attention: Attention, annotations: OptionalMemoryUpdate, coverage: OptionalCoverage
    ) -> None:
        self.source, self.attention, self.annotations, self.coverage = source, attention, annotations, coverage

    def views(self, source: str, read: EncoderOutput, dtype: torch.dtype) -> dict[str, View]:
        keys = self.annotations.keys(self.attention, read.states_BTD)
        values, covered = self.annotations.values(read.states_BTD, dtype), self.coverage.share(read.states_BTD)
        return {view_name(source, STATES): View(source, keys, values, covered, read.padding_BT)}

    def start(self, memory: Memory) -> State:
        leaves = self.annotations.start(memory) | self.coverage.start(memory)
        return State(leaves, dict.fromkeys(leaves, self.source))

    def precompute(self, words: Tensor) -> dict[StepLinear, Tensor]:
        return {}

    def __call__(
        self, step: StepInputs, memory: Memory, state: State, query_BKH: Tensor, before_BKH: Tensor
    ) -> AttentionResult:
        view = memory.views[view_name(self.source, STATES)]
        keys, values, share = self.annotations.read(self.attention, self.coverage, view, state)
        energy_BKT = self.attention.energies(step, query_BKH, keys, *self.coverage.current(state))
        weights_BKT = masked_softmax(energy_BKT, view.padding_BT)
        context_BKD = context(weights_BKT, values)
        leaves = self.coverage.update(state, weights_BKT, share, before_BKH)
        return AttentionResult(context_BKD, {STATES: context_BKD}, {(self.source, STATES): weights_BKT}, leaves=leaves)

    def update(
        self, step: StepInputs, memory: Memory, state: State, hidden_BKH: Tensor, attended: AttentionResult
    ) -> Leaves:
        return self.annotations.update(step, memory, state, hidden_BKH, attended)


class SeveralSources:
    """Attention over several sources through a combination (Libovicky and Helcl 2017)."""

    def __init__(self, combination: Combination, coverages: Mapping[str, OptionalCoverage]) -> None:
        self.combination, self.coverages = combination, coverages

    def views(self, source: str, read: EncoderOutput, dtype: torch.dtype) -> dict[str, View]:
        keys, values = self.combination.prepare(source, read.states_BTD)
        covered = self.coverages[source].share(read.states_BTD)
        return {view_name(source, STATES): View(source, keys, values.to(dtype), covered, read.padding_BT)}

    def start(self, memory: Memory) -> State:
        parts = {source: coverage.start(memory) for source, coverage in self.coverages.items()}
        leaves = {name: leaf for part in parts.values() for name, leaf in part.items()}
        return State(leaves, {name: source for source, part in parts.items() for name in part})

    def precompute(self, words: Tensor) -> dict[StepLinear, Tensor]:
        return self.combination.precompute(words)

    def __call__(
        self, step: StepInputs, memory: Memory, state: State, query_BKH: Tensor, before_BKH: Tensor
    ) -> AttentionResult:
        views = {source: memory.views[view_name(source, STATES)] for source in self.coverages}
        covered = {source: coverage.current(state) for source, coverage in self.coverages.items()}
        read = self.combination(step, query_BKH, before_BKH, views, covered)
        leaves: Leaves = {}
        for source, coverage in self.coverages.items():
            leaves |= coverage.update(state, read.weights[source], views[source].covered_BTC[:, None], before_BKH)
        weights = {(source, STATES): weights_BKT for source, weights_BKT in read.weights.items()}
        return AttentionResult(read.context, {STATES: read.context}, weights, read.source_weights, leaves)

    def update(
        self, step: StepInputs, memory: Memory, state: State, hidden_BKH: Tensor, attended: AttentionResult
    ) -> Leaves:
        return {}


class WithWords:
    """Attention over a source's words beside that over its states (Wu et al. 2018, equations 5 to 8).

    may_be_absent: whether sentences can lack the source, as one of several.
    """

    def __init__(self, attend: Attend, source: str, attention: Attention, may_be_absent: bool) -> None:
        self.attend, self.source, self.attention = attend, source, attention
        self.normalize = softmax_where_present if may_be_absent else softmax_over_view
        self.start, self.precompute, self.update = attend.start, attend.precompute, attend.update

    def views(self, source: str, read: EncoderOutput, dtype: torch.dtype) -> dict[str, View]:
        views = self.attend.views(source, read, dtype)
        if read.words_BTE is None:
            return views
        keys, values, covered = self.attention.keys(read.words_BTE), read.words_BTE.to(dtype), read.states_BTD[..., :0]
        return views | {view_name(source, WORDS): View(source, keys, values, covered, read.padding_BT)}

    def __call__(
        self, step: StepInputs, memory: Memory, state: State, query_BKH: Tensor, before_BKH: Tensor
    ) -> AttentionResult:
        attended = self.attend(step, memory, state, query_BKH, before_BKH)
        view = memory.views[view_name(self.source, WORDS)]
        weights_BKT = self.normalize(self.attention.energies(step, query_BKH, view.keys_BTA), view)
        context_BKE = context(weights_BKT, view.values_BTD)
        return replace(
            attended,
            context=torch.cat([attended.context, context_BKE], -1),
            contexts=attended.contexts | {WORDS: context_BKE},
            weights=attended.weights | {(self.source, WORDS): weights_BKT},
        )


def softmax_over_view(energy_BKT: Tensor, view: View) -> Tensor:
    """Attention weights over the view's positions, (B, K, T)."""
    return masked_softmax(energy_BKT, view.padding_BT)


def softmax_where_present(energy_BKT: Tensor, view: View) -> Tensor:
    """The same; zeros in rows where the source is absent."""
    return masked_softmax_where_present(energy_BKT, view.masked_BT, view.absent_B1)
