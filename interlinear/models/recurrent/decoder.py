"""The decoder: stacked cells over target words that attend to the sources, step by step.

There is one loop, `each_step`; its body, `advance`, is also what search calls. The order of a step is a class
(`step_orders.py`); attention to the sources, and how contexts enter the cells, are parts that `composition.py` chooses.

Axes: B sentences, K hypotheses of each, L target positions, T source positions, E embedding, H hidden,
D annotation, C all contexts side by side, R readout.
"""

from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, Protocol

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from interlinear.config import RecurrentConfig
from interlinear.models.attention_weights import STATES, WORDS, AttentionWeights
from interlinear.models.layers.dropout import draw_state_mask
from interlinear.models.layers.step_linear import (
    StepInputs,
    StepLinear,
    UnrolledInputs,
    product_dtype,
    terms_at_every_step,
)
from interlinear.models.memory import Memory, View, view_name
from interlinear.models.protocol import Decoder, EncoderOutput, Step, Unrolled
from interlinear.models.recurrent.attend import Attend, AttentionResult
from interlinear.models.recurrent.cells import Cell
from interlinear.models.recurrent.first_state import FirstState
from interlinear.models.recurrent.gates import ContextualGate
from interlinear.models.state import State


@dataclass(frozen=True)
class StepOutput:
    """One step's inputs of the output layer, which is computed for all steps at once, and its attention weights."""

    hidden: Tensor
    contexts: Tensor
    attention_weights: AttentionWeights


@dataclass(frozen=True)
class CellInput:
    """The inputs (B, K, I) of a layer's cell, and the summand of gated contexts in the cell's gates."""

    inputs: Tensor
    added: tuple[Tensor, ...] = ()
    gates: tuple[Tensor, ...] = ()


@dataclass(frozen=True)
class CellOutput:
    """The cells' output at one step: the top layer's state, all state tensors, and each layer's contextual gate."""

    hidden: Tensor
    leaves: dict[str, Tensor]
    gates: tuple[Tensor, ...]


class HasPrecomputed(Protocol):
    """A part of the decoder with maps inside the recurrence."""

    def precompute(self, words: Tensor) -> dict[StepLinear, Tensor]:
        """By map, the term that is known before the recurrence: from words (..., E), or a bias."""
        ...


class ContextsBesideInputs:
    """Contexts enter every layer beside the layer's input (Wu et al. 2018, equations 1-4)."""

    gates: Sequence[ContextualGate] = ()

    def first(self, step: StepInputs, hidden: Tensor, attended: AttentionResult) -> CellInput:
        """The first layer's input, whose words are known before the recurrence."""
        return CellInput(attended.context)

    def above(self, layer: int, step: StepInputs, own: Tensor, hidden: Tensor, attended: AttentionResult) -> CellInput:
        """A higher layer's input: the layer below and the contexts."""
        return CellInput(torch.cat([own, attended.context], -1))


class GatedContexts:
    """Contexts enter the gates of every layer's cell through a contextual gate (Wu et al. 2018, equations 11, 12)."""

    def __init__(self, gates: Sequence[ContextualGate]) -> None:
        self.gates = gates

    def first(self, step: StepInputs, hidden: Tensor, attended: AttentionResult) -> CellInput:
        return self.above(0, step, hidden[..., :0], hidden, attended)

    def above(self, layer: int, step: StepInputs, own: Tensor, hidden: Tensor, attended: AttentionResult) -> CellInput:
        added, gate = self.gates[layer](step, own, hidden, attended.contexts[STATES], attended.contexts[WORDS])
        return CellInput(own, (added,), (gate,))


@dataclass(frozen=True)
class DecoderParts:
    """The parts of a decoder.

    contexts: the size of all contexts side by side. modules: of all parts, by their names in the decoder.
    """

    attend: Attend
    contexts: int
    cells: list[Cell]
    entering: ContextsBesideInputs | GatedContexts
    first_state: FirstState
    modules: Mapping[str, nn.Module]


class RecurrentDecoder(Decoder):
    """Stacked cells and attention; a subclass is an order of a step.

    A subclass defines the inputs of the cells beside each other's states, adds its maps, and implements `advance`.
    """

    best_readings = ("uam", "posterior", "gated", "attention")
    words_enter_cells: ClassVar = True  # the first layer's; they are known before the recurrence
    contexts_enter_cells: ClassVar = True
    mixture_enters_cells: ClassVar = False  # the first layer's

    def __init__(self, config: RecurrentConfig, parts: DecoderParts) -> None:
        super().__init__()
        self.config, self.attend, self.layers = config, parts.attend, parts.cells
        self.entering, self.first_state = parts.entering, parts.first_state
        for name, module in parts.modules.items():
            self.add_module(name, module)

    @property
    def product_dtype(self) -> torch.dtype:
        """The precision of the products in the loop: their constant inputs are cast to it once."""
        return product_dtype(self.layers[0].recurrent_weights()[0])

    def views(self, source: str, read: EncoderOutput) -> dict[str, View]:
        """The views of a source that this decoder attends to, with all terms that are computed once a sentence."""
        return self.attend.views(source, read, self.product_dtype)

    def start(self, memory: Memory) -> State:
        """The state before the first token, one hypothesis a sentence."""
        attended = self.attend.start(memory)
        leaves = dict(attended.leaves)
        for i, layer in enumerate(self.layers):
            values = self.first_state(memory, i)[: len(layer.leaves)]
            leaves |= {f"{leaf}.{i}": value for leaf, value in zip(layer.leaves, values, strict=True)}
            if self.training and self.config.state_dropout:  # one mask for all steps, and for all hypotheses
                leaves[f"state_mask.{i}"] = draw_state_mask(leaves[f"hidden.{i}"], self.config.state_dropout)
        return State(leaves, attended.axes)

    def precompute(self, words: Tensor) -> dict[StepLinear, Tensor]:
        """Every term of the recurrence's maps that is known before it starts, from words (..., E)."""
        terms: dict[StepLinear, Tensor] = {}
        for part in self.recurrent_parts():
            terms |= part.precompute(words)
        return terms

    def recurrent_parts(self) -> list[HasPrecomputed]:
        """The parts whose recurrent maps have a term that is known before the recurrence: from words, or a bias."""
        return [*self.layers, *self.entering.gates, self.attend]

    @abstractmethod
    def advance(self, memory: Memory, state: State, step: StepInputs) -> tuple[State, StepOutput]:
        """One step of the recurrence, and only it: the same in training and in search."""

    def top_hidden(self, state: State) -> Tensor:
        """The top layer's hidden state, (B, K, H)."""
        return state.leaves[f"hidden.{len(self.layers) - 1}"]

    def dropped_hidden(self, state: State, layer: int) -> Tensor:
        """A layer's hidden state after state dropout, (B, K, H): an input of its cell's products."""
        hidden_BKH, mask = state.leaves[f"hidden.{layer}"], f"state_mask.{layer}"
        return hidden_BKH * state.leaves[mask] if mask in state.leaves else hidden_BKH

    def run_cells(
        self, step: StepInputs, state: State, first: CellInput, above: Callable[[int, Tensor, Tensor], CellInput]
    ) -> CellOutput:
        """All layers' cells in turn: `first` is the input of the lowest layer, `above(layer, output of the layer below,
        hidden)` the input of each layer above it; hidden is the state after dropout."""
        leaves: dict[str, Tensor] = {}
        gates: list[Tensor] = []
        entering, hidden = first, first.inputs
        for i, layer in enumerate(self.layers):
            dropped = self.dropped_hidden(state, i)
            if i:
                below = F.dropout(hidden, self.config.dropout, self.training)
                entering = above(i, below, dropped)
            gates += entering.gates
            before = tuple(state.leaves[f"{leaf}.{i}"] for leaf in layer.leaves)
            after = layer(step, entering.inputs, before, *entering.added, dropped=dropped)
            leaves |= {f"{leaf}.{i}": value for leaf, value in zip(layer.leaves, after, strict=True)}
            hidden = after[0].to(entering.inputs.dtype)
        return CellOutput(hidden, leaves, tuple(gates))

    def attend_then_run(
        self, memory: Memory, state: State, step: StepInputs, query_BKH: Tensor, before_BKH: Tensor
    ) -> tuple[State, StepOutput]:
        """Attention with a query, then all cells over the contexts; then annotations are updated."""
        attended = self.attend(step, memory, state, query_BKH, before_BKH)
        entering = self.entering
        first = entering.first(step, self.dropped_hidden(state, 0), attended)
        cells = self.run_cells(step, state, first, lambda i, below, own: entering.above(i, step, below, own, attended))
        leaves = state.leaves | cells.leaves | attended.leaves
        leaves |= self.attend.update(step, memory, state, cells.hidden, attended)
        weights = AttentionWeights(attended.weights, cells.gates, source_weights=attended.source_weights)
        return State(leaves, state.axes), StepOutput(cells.hidden, attended.context, weights)

    def step(self, memory: Memory, state: State, words_BKE: Tensor) -> Step:
        """One more token of each hypothesis, after words with these embeddings."""
        state, output = self.advance(memory, state, StepInputs(self.precompute(words_BKE)))
        return Step(state, self.read(words_BKE, output.hidden, output.contexts), output.attention_weights)

    def unroll(self, memory: Memory, words_BKLE: Tensor, attention: bool) -> Unrolled:
        """All steps over known words: a loop."""
        words_BKLE = F.dropout(words_BKLE, self.config.dropout, self.training)
        outputs = list(self.each_step(memory, words_BKLE))
        weights = [output.attention_weights for output in outputs] if attention else [AttentionWeights({})]
        return Unrolled(self.read_steps(words_BKLE, outputs), AttentionWeights.stack(weights))

    def each_step(self, memory: Memory, words_BKLE: Tensor) -> Iterator[StepOutput]:
        """The output of every step over known words."""
        hypotheses, steps = words_BKLE.shape[1], words_BKLE.shape[2]
        state = self.start(memory).repeat(hypotheses)
        words_LBKE = words_BKLE.movedim(2, 0).contiguous()  # else torch may copy the weights for every word of it
        unrolled = UnrolledInputs(self.at_every_step(self.precompute(words_LBKE), words_LBKE.shape[:-1]))
        for t in range(steps):
            state, output = self.advance(memory, state, unrolled[t])
            yield output

    def with_explanation_weights(self, memory: Memory, attention_weights: AttentionWeights) -> AttentionWeights:
        """Adds the fertility of every source position if coverage is linguistic."""
        if self.config.coverage != "linguistic":
            return attention_weights
        views = {view.source: view for name, view in memory.views.items() if name == view_name(view.source, STATES)}
        return replace(attention_weights, fertility={name: view.covered_BTC[..., 0] for name, view in views.items()})

    def at_every_step(self, terms: Mapping[StepLinear, Tensor], axes: torch.Size) -> dict[StepLinear, Tensor]:
        """The precomputed term of every recurrent map at every step: biases repeated, zeros where there is none."""
        return terms_at_every_step(self, terms, axes)

    @abstractmethod
    def read_steps(self, words_BKLE: Tensor, outputs: list[StepOutput]) -> Tensor:
        """The readouts (B, K, L, R) of all steps."""

    @abstractmethod
    def read(self, words: Tensor, hidden: Tensor, contexts: Tensor) -> Tensor:
        """The readout (..., R) of words (..., E), states (..., H) and contexts (..., C)."""
