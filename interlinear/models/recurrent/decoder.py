"""The decoder: stacked cells over target words that attend to the sources, step by step.

There is one loop, `unroll`; its body, `advance`, is also what search calls. The order of a step is a class
(`step_orders.py`); how the sources are read, and how contexts enter the cells, is composed when a decoder
is built (`attend.py`, and `ContextInputs` here).

Axes: B sentences, K hypotheses of each, L target positions, T source positions, E embedding, H hidden,
D annotation, C all contexts side by side, R readout.
"""

from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Protocol, cast

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from interlinear.components import ATTENTIONS
from interlinear.config import Architecture, ModelConfig
from interlinear.models.attention_weights import STATES, WORDS, AttentionWeights
from interlinear.models.layers.dropout import draw_state_mask
from interlinear.models.layers.step_linear import (
    StepInputs,
    StepLinear,
    UnrolledInputs,
    at_least_fp32,
    product_dtype,
    terms_at_every_step,
)
from interlinear.models.memory import SUMMARY, Memory, View, view_name
from interlinear.models.protocol import Decoder, EncoderOutput, Step, Unrolled
from interlinear.models.recurrent.attend import (
    Attend,
    AttentionResult,
    FixedAnnotations,
    NoCoverage,
    OptionalCoverage,
    OptionalMemoryUpdate,
    SeveralSources,
    SingleSource,
    SourceCoverage,
    UpdatedAnnotations,
    WithWords,
)
from interlinear.models.recurrent.attention import Attention
from interlinear.models.recurrent.cells import Cell, build_cell
from interlinear.models.recurrent.coverage import Coverage, LinguisticCoverage, NeuralCoverage
from interlinear.models.recurrent.gates import ContextualGate
from interlinear.models.recurrent.memory_update import MemoryUpdate
from interlinear.models.recurrent.multi_source import build_combination
from interlinear.models.state import State


@dataclass(frozen=True)
class StepOutput:
    """One step's inputs of the output layer, which is computed for all steps at once, and its attention weights."""

    hidden: Tensor
    contexts: Tensor
    attention_weights: AttentionWeights


@dataclass(frozen=True)
class CellInput:
    """The inputs (B, K, I) of a layer's cell, and what gated contexts add to the cell's gates."""

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
        """By map, the term that is known before the recurrence: of words (..., E), or a bias."""
        ...


class ContextsBesideInputs:
    """Contexts enter every layer beside its own input (Wu et al. 2018, equations 1-4)."""

    def first(self, step: StepInputs, hidden: Tensor, attended: AttentionResult) -> CellInput:
        """The first layer's input, whose words are known before the recurrence."""
        return CellInput(attended.context)

    def above(self, layer: int, step: StepInputs, own: Tensor, hidden: Tensor, attended: AttentionResult) -> CellInput:
        """A higher layer's input: the layer below and the contexts."""
        return CellInput(torch.cat([own, attended.context], -1))


class GatedContexts:
    """Contexts enter the gates of every layer's cell through a contextual gate (Wu et al. 2018, equations 11, 12)."""

    def __init__(self, gates: nn.ModuleList) -> None:
        self.gates = cast(list[ContextualGate], list(gates))

    def first(self, step: StepInputs, hidden: Tensor, attended: AttentionResult) -> CellInput:
        return self.above(0, step, hidden[..., :0], hidden, attended)

    def above(self, layer: int, step: StepInputs, own: Tensor, hidden: Tensor, attended: AttentionResult) -> CellInput:
        added, gate = self.gates[layer](step, own, hidden, attended.contexts[STATES], attended.contexts[WORDS])
        return CellInput(own, (added,), (gate,))


class RecurrentDecoder(Decoder):
    """Stacked cells, attention, and what the config adds to reading; a subclass is an order of a step.

    A subclass says what enters the cells beside words of the recurrence (`first_inputs`, `contexts_enter_cells`,
    `words_enter_cells`), adds its own maps, and writes `advance`.
    """

    best_readings = ("uam", "posterior", "gated", "attention")
    words_enter_cells = True  # whether the first layer takes the word; it is known before the recurrence
    contexts_enter_cells = True

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.config = config
        hidden, embedding, annotation = config.hidden, config.embedding, config.annotation
        source, *_ = config.sources

        modules = {name: build_coverage(config) for name in config.sources} if config.coverage != "none" else {}
        self.coverages = nn.ModuleDict(modules)
        coverage_size = next(iter(modules.values())).size if modules else 0
        coverages: dict[str, OptionalCoverage] = {
            name: SourceCoverage(name, modules[name]) if modules else NoCoverage(name) for name in config.sources
        }

        size = config.energy_size
        self.reader: SingleSource | SeveralSources
        if config.combination != "none":
            self.combination = build_combination(config, coverage_size)
            self.reader = SeveralSources(self.combination, coverages)
            read = self.combination.size
        else:
            self.attention = build_attention(config, annotation, size, coverage_size)
            read = annotation
        if config.word_attention:
            self.word_attention = build_attention(config, embedding, config.word_energy_size)
        self.annotations: OptionalMemoryUpdate = FixedAnnotations(source)
        if config.writing != "none":
            self.writing = MemoryUpdate(hidden, annotation)
            if config.writing == "separate":
                self.writing_attention = build_attention(config, annotation, size)
            addressing = self.writing_attention if config.writing == "separate" else None
            self.annotations = UpdatedAnnotations(source, self.writing, addressing)
        if config.combination == "none":
            self.reader = SingleSource(source, self.attention, self.annotations, coverages[source])
        self.attend: Attend = self.reader
        if config.word_attention:
            self.attend = WithWords(
                self.attend, config.first_text, self.word_attention, may_be_absent=config.combination != "none"
            )

        contexts = read + (embedding if config.word_attention else 0)
        self.add_opening()
        words = [embedding if self.words_enter_cells and not i else 0 for i in range(config.decoder_depth)]
        own = [hidden if i else self.first_inputs for i in range(config.decoder_depth)]
        beside = contexts if self.contexts_enter_cells and not config.contextual_gates else 0
        self.cells = nn.ModuleList(
            build_cell(config, words=w, inputs=x + beside) for w, x in zip(words, own, strict=True)
        )
        self.context_inputs: ContextsBesideInputs | GatedContexts = ContextsBesideInputs()
        if config.contextual_gates:
            self.gates = nn.ModuleList(
                ContextualGate(w, x, hidden, read, embedding, layer.gates_count)
                for w, x, layer in zip(words, own, self.layers, strict=True)
            )
            self.context_inputs = GatedContexts(self.gates)
        if config.first_state not in ("zero", "sum"):
            self.first = nn.ModuleList(nn.Linear(config.summaries_size, hidden) for _ in range(config.decoder_depth))
        self.add_readout(contexts)

    @property
    def first_inputs(self) -> int:
        """The size of what enters the first layer at every step, beside contexts."""
        return 0

    def add_opening(self) -> None:
        """Add a cell before attention; by default there is none."""

    def add_readout(self, contexts: int) -> None:
        """Add the readout's map of words, states and contexts of a size."""
        config = self.config
        doubled = config.readout_size * (2 if config.readout == "maxout" else 1)
        self.readout = nn.Linear(config.embedding + config.hidden + contexts, doubled)

    @property
    def layers(self) -> list[Cell]:
        return cast(list[Cell], list(self.cells))

    @property
    def product_dtype(self) -> torch.dtype:
        """The precision of the products in the loop: what enters them again and again is cast to it once."""
        return product_dtype(self.layers[0].recurrent_weights()[0])

    def views(self, source: str, read: EncoderOutput) -> dict[str, View]:
        """What this decoder attends to in a source, with all that can be computed once a sentence."""
        states_BTD = read.states_BTD
        keys, values = self.reader.prepare(source, states_BTD)
        values = self.annotations.values(values, self.product_dtype)
        covered = self.reader.coverages[source].share(states_BTD)
        views = {view_name(source, STATES): View(source, keys, values, covered, read.padding_BT)}
        if self.config.word_attention and read.words_BTE is not None:
            keys, values = self.word_attention.keys(read.words_BTE), read.words_BTE.to(self.product_dtype)
            views[view_name(source, WORDS)] = View(source, keys, values, states_BTD[..., :0], read.padding_BT)
        return views

    def start(self, memory: Memory) -> State:
        """The state before the first word, one hypothesis a sentence."""
        leaves: dict[str, Tensor] = {}
        for i, layer in enumerate(self.layers):
            for leaf, value in zip(layer.leaves, self.first_leaves(memory, i), strict=False):
                leaves[f"{leaf}.{i}"] = value
            if self.training and self.config.state_dropout:  # one mask for all steps, and for all hypotheses
                leaves[f"state_mask.{i}"] = draw_state_mask(leaves[f"hidden.{i}"], self.config.state_dropout)
        axes: dict[str, str] = {}
        for part in (self.annotations, *self.reader.coverages.values()):
            if of_positions := part.start(memory):
                leaves |= of_positions
                axes |= dict.fromkeys(of_positions, part.source)
        return State(leaves, axes)

    def first_leaves(self, memory: Memory, layer: int) -> tuple[Tensor, Tensor]:
        """A layer's first state and memory, each (B, 1, H): tanh(W . summary) and zero, by `first_state`; of several
        sources W . summaries (Libovicky and Helcl 2017)."""
        summary_B1S = memory.summaries[SUMMARY][:, None]
        if self.config.first_state == "sum":  # states and memories of all layers, in turn
            parts = summary_B1S.split(self.config.hidden, -1)
            leaves = len(self.layers[0].leaves)
            return at_least_fp32(parts[layer * leaves]), at_least_fp32(parts[layer * leaves + leaves - 1])
        if self.config.first_state == "zero":
            hidden = summary_B1S.new_zeros(memory.rows, 1, self.config.hidden)
        else:
            hidden = self.first[layer](summary_B1S)
            hidden = torch.tanh(hidden) if len(self.config.sources) == 1 else hidden
        return at_least_fp32(hidden), at_least_fp32(torch.zeros_like(hidden))

    def precompute(self, words: Tensor) -> dict[StepLinear, Tensor]:
        """Every term of the recurrence's maps that is known before it starts, from words (..., E)."""
        terms: dict[StepLinear, Tensor] = {}
        for part in self.recurrent_parts():
            terms |= part.precompute(words)
        return terms

    def recurrent_parts(self) -> list[HasPrecomputed]:
        """The parts whose recurrent maps have a term that is known before the recurrence: of words, or a bias."""
        parts: list[HasPrecomputed] = [*self.layers]
        if self.config.contextual_gates:
            parts += cast(list[ContextualGate], list(self.gates))
        if self.config.combination != "none":
            parts.append(self.combination)
        return parts

    @abstractmethod
    def advance(self, memory: Memory, state: State, step: StepInputs) -> tuple[State, StepOutput]:
        """One step of the recurrence, and only it: the same in training and in search."""

    def top_hidden(self, state: State) -> Tensor:
        """The top layer's hidden state, (B, K, H)."""
        return state.leaves[f"hidden.{len(self.cells) - 1}"]

    def dropped_hidden(self, state: State, layer: int) -> Tensor:
        """A layer's hidden state after state dropout, (B, K, H): what enters the products of its cell."""
        hidden_BKH, mask = state.leaves[f"hidden.{layer}"], f"state_mask.{layer}"
        return hidden_BKH * state.leaves[mask] if mask in state.leaves else hidden_BKH

    def run_cells(
        self, step: StepInputs, state: State, first: CellInput, above: Callable[[int, Tensor, Tensor], CellInput]
    ) -> CellOutput:
        """All layers' cells in turn: `first` enters the lowest, `above(layer, output of the layer below, hidden)` what
        is above it; hidden is the state after dropout."""
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
        contexts = self.context_inputs
        first = contexts.first(step, self.dropped_hidden(state, 0), attended)
        cells = self.run_cells(step, state, first, lambda i, below, own: contexts.above(i, step, below, own, attended))
        leaves = state.leaves | cells.leaves | attended.leaves
        leaves |= self.annotations.update(step, memory, state, cells.hidden, attended)
        weights = AttentionWeights(attended.weights, cells.gates, source_weights=attended.source_weights)
        return State(leaves, state.axes), StepOutput(cells.hidden, attended.context, weights)

    def step(self, memory: Memory, state: State, words_BKE: Tensor) -> Step:
        """One more word of each hypothesis, after words with these embeddings."""
        state, output = self.advance(memory, state, StepInputs(self.precompute(words_BKE)))
        return Step(state, self.read(words_BKE, output.hidden, output.contexts), output.attention_weights)

    def unroll(self, memory: Memory, words_BKLE: Tensor, attention: bool) -> Unrolled:
        """All steps over known words: a loop."""
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

    def read_steps(self, words_BKLE: Tensor, outputs: list[StepOutput]) -> Tensor:
        """The readouts (B, K, L, R) of all steps, in one product."""
        hidden_BKLH = torch.stack([output.hidden for output in outputs], 2)
        contexts_BKLC = torch.stack([output.contexts for output in outputs], 2)
        return self.read(words_BKLE, hidden_BKLH, contexts_BKLC)

    def read(self, words: Tensor, hidden: Tensor, contexts: Tensor) -> Tensor:
        """The readout (..., R) of words (..., E), states (..., H) and contexts (..., C):
        t_i = W_y y_{i-1} + W s_i + W^a c_i + W^b c_i^b (Wu et al. 2018, equation 10), with `readout`'s activation."""
        readout: Tensor = self.readout(torch.cat([words, hidden.to(words.dtype), contexts.to(words.dtype)], -1))
        if self.config.readout == "maxout":
            return torch.amax(readout.unflatten(-1, (-1, 2)), -1)
        return readout if self.config.readout == "linear" else torch.tanh(readout)


def build_attention(config: Architecture, value: int, size: int, coverage_size: int = 0) -> Attention:
    """An attention of the recipe's kind over values of some size; `size` is that of an additive energy."""
    attention: Attention = ATTENTIONS[config.attention](config.hidden, value, size, coverage_size)
    return attention


def build_coverage(config: Architecture) -> Coverage:
    """The recipe's coverage."""
    if config.coverage == "linguistic":
        return LinguisticCoverage(config.annotation, config.fertility or 2.0)
    return NeuralCoverage(config.annotation, config.hidden, config.coverage_size or 10, config.gru or "cudnn")
