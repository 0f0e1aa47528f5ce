"""The decoder's one loop, with three orders of a step.

    bahdanau      look with the state before, then the cells take what was seen
    conditional   a cell takes the word, look with its state, then the cells take what was seen
    luong         the cells take the word and the mixture before, look with their state, mix

Axes: B sentences, K hypotheses of each, L target positions, T source positions, E embedding, H hidden,
D annotation, C all contexts side by side, R readout.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import cast

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from seq2seq.config import Architecture, ModelConfig
from seq2seq.explain import AttentionWeights
from seq2seq.layers.attention import (
    AdditiveAttention,
    Attention,
    BilinearAttention,
    context,
    masked_softmax,
    masked_softmax_where_present,
)
from seq2seq.layers.cells import Cell, build_cell
from seq2seq.layers.coverage import Coverage, LinguisticCoverage, NeuralCoverage
from seq2seq.layers.encoders import EncoderOutput
from seq2seq.layers.gates import ContextualGate
from seq2seq.layers.memory_update import MemoryUpdate
from seq2seq.layers.multi_source import build_combination
from seq2seq.layers.state import Memory, State, View
from seq2seq.layers.step_linear import StepInputs, StepLinear, UnrolledInputs, at_least_fp32, product_dtype

STATES, WORDS = "attention", "word_attention"  # kinds of views, by what a look at them is called


@dataclass(frozen=True)
class StepOutput:
    """What one step hands to the output layer, which is computed for all steps at once; and what it looked at."""

    hidden: Tensor
    contexts: Tensor
    attention_weights: AttentionWeights


@dataclass(frozen=True)
class AttentionResult:
    """One look at all views: the contexts by kind, and side by side (B, K, C), the weights, what each source weighs in
    all, and the leaves that looking changes."""

    contexts: dict[str, Tensor]
    context: Tensor
    weights: dict[tuple[str, str], Tensor]
    source_weights: dict[str, Tensor]
    leaves: dict[str, Tensor]


@dataclass(frozen=True)
class CellOutput:
    """What the cells made of a step: the top layer's state, all leaves, and each layer's contextual gate."""

    hidden: Tensor
    leaves: dict[str, Tensor]
    gates: tuple[Tensor, ...]


class Decoder(nn.Module):
    """Stacked cells over target words, attention, and whatever the config adds to looking.

    Contexts enter every layer (Wu et al. 2018, equations 1-4), weighed in each by its own contextual gate (11, 12).
    Readout: t_i = W_y y_{i-1} + W s_i + W^a c_i + W^b c_i^b, equation 10; in the order of Luong et al. the mixture
    z_i = tanh(W [c_i; s_i]) (Kiyono et al. 2018, equation 9).
    """

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.config = config
        self.source, *_ = config.sources
        hidden, embedding, annotation = config.hidden, config.embedding, config.annotation
        self.order = config.decoder
        coverages = {source: coverage(config) for source in config.sources} if config.coverage != "none" else {}
        self.coverages = nn.ModuleDict(coverages)
        covered = next(iter(coverages.values())).size if coverages else 0
        self.combination = build_combination(config, covered)
        size = config.energy_size
        self.attention = attention(config, annotation, size, covered) if self.combination is None else None
        self.word_attention = attention(config, embedding, config.word_energy_size) if config.word_attention else None
        self.writing = MemoryUpdate(hidden, annotation) if config.writing != "none" else None
        self.writing_attention = attention(config, annotation, size) if config.writing == "separate" else None

        read = annotation if self.combination is None else self.combination.size
        contexts = read + (embedding if config.word_attention else 0)
        if self.order == "luong":
            entering = 0
        else:
            entering = 0 if config.contextual_gates else contexts  # gated contexts enter by the gate
        self.opening = (
            build_cell(config.cell, config.gru, embedding, 0, hidden) if self.order == "conditional" else None
        )
        words = [0 if i or self.order == "conditional" else embedding for i in range(config.decoder_depth)]
        own = [hidden if i or self.order == "luong" else 0 for i in range(config.decoder_depth)]
        self.cells = nn.ModuleList(
            build_cell(config.cell, config.gru, words=w, inputs=x + entering, hidden=hidden)
            for w, x in zip(words, own, strict=True)
        )
        self.gates = (
            nn.ModuleList(
                ContextualGate(w, x, hidden, read, embedding, layer.gates_count)
                for w, x, layer in zip(words, own, self.layers, strict=True)
            )
            if config.contextual_gates
            else None
        )
        self.first = (
            nn.ModuleList(nn.Linear(config.summaries_size, hidden) for _ in range(config.decoder_depth))
            if config.first_state not in ("zero", "sum")
            else None
        )
        self.mixing = StepLinear(contexts + hidden, hidden) if self.order == "luong" else None
        doubled = config.readout_size * (2 if config.readout == "maxout" else 1)
        self.readout = nn.Linear(embedding + hidden + contexts, doubled) if self.order != "luong" else None

    def views(self, source: str, read: EncoderOutput) -> dict[str, View]:
        """What this decoder attends to in a source, with all that can be computed once a sentence."""
        states_BTD = read.states_BTD
        nothing = states_BTD[..., :0]
        covered = self.coverage_of(source).annotations(states_BTD) if self.coverages else nothing
        if self.combination is not None:
            keys, values = self.combination.prepare(source, states_BTD)
        else:
            assert self.attention is not None
            keys, values = nothing if self.writing else self.attention.keys(states_BTD), states_BTD
        if self.writing is None:  # else they are the first state of what is written to
            values = values.to(self.product_dtype)
        views = {f"{source}.{STATES}": View(source, keys, values, covered, read.padding_BT)}
        if self.word_attention is not None and read.words_BTE is not None:
            keys, values = self.word_attention.keys(read.words_BTE), read.words_BTE.to(self.product_dtype)
            views[f"{source}.{WORDS}"] = View(source, keys, values, nothing, read.padding_BT)
        return views

    @property
    def product_dtype(self) -> torch.dtype:
        """The precision of the products in the loop: what enters them again and again is cast to it once."""
        return product_dtype(self.layers[0].gates.weight)

    def coverage_of(self, source: str) -> Coverage:
        return cast(Coverage, self.coverages[source])

    def start(self, memory: Memory) -> State:
        """The state before the first word, one hypothesis a sentence."""
        leaves: dict[str, Tensor] = {}
        positions: dict[str, str] = {}
        for i, layer in enumerate(self.layers):
            for leaf, value in zip(layer.leaves, self.first_leaves(memory, i), strict=False):
                leaves[f"{leaf}.{i}"] = value
        if self.order == "luong":  # z_0 = 0
            shape = (memory.rows, 1, self.config.hidden)  # made anew by every step, of a product: nothing is summed up
            leaves["mixture"] = memory.summary_BS.new_zeros(shape, dtype=self.product_dtype)
        if self.writing is not None:
            written = memory.views[f"{self.source}.{STATES}"].values_BTD
            leaves["written"], positions["written"] = at_least_fp32(written)[:, None], self.source
        for source in self.coverages:
            padding_BT = memory.views[f"{source}.{STATES}"].padding_BT
            size = self.coverage_of(source).size
            leaves[f"coverage.{source}"] = at_least_fp32(
                memory.summary_BS.new_zeros(memory.rows, 1, padding_BT.shape[1], size)
            )
            positions[f"coverage.{source}"] = source
        return State(leaves, positions)

    def first_leaves(self, memory: Memory, layer: int) -> tuple[Tensor, Tensor]:
        """A layer's first state and memory, each (B, 1, H): tanh(W . summary) and zero, by `first_state`; of several
        sources W . summaries (Libovicky and Helcl 2017)."""
        summary_B1S = memory.summary_BS[:, None]
        if self.config.first_state == "sum":  # states and memories of all layers, in turn
            parts = summary_B1S.split(self.config.hidden, -1)
            leaves = len(self.layers[0].leaves)
            return at_least_fp32(parts[layer * leaves]), at_least_fp32(parts[layer * leaves + leaves - 1])
        if self.first is None:
            hidden = summary_B1S.new_zeros(memory.rows, 1, self.config.hidden)
        else:
            hidden = self.first[layer](summary_B1S)
            hidden = torch.tanh(hidden) if len(self.config.sources) == 1 else hidden
        return at_least_fp32(hidden), at_least_fp32(torch.zeros_like(hidden))

    @property
    def layers(self) -> list[Cell]:
        return cast(list[Cell], list(self.cells))

    def precompute(self, words: Tensor) -> dict[StepLinear, Tensor]:
        """Every share of the recurrence's maps that can be known before it starts, from words (..., E)."""
        shares: dict[StepLinear, Tensor] = {} if self.opening is None else self.opening.precompute(words)
        taking = [*self.layers, *(cast(list[ContextualGate], list(self.gates)) if self.gates is not None else [])]
        for part in taking:
            shares |= part.precompute(None if part.words is None else words)
        if self.combination is not None:
            shares |= self.combination.precompute(words)
        return shares

    def advance(self, memory: Memory, state: State, step: StepInputs) -> tuple[State, StepOutput]:
        """One step of the recurrence, and only it: the same in training and in search."""
        before = state.leaves[f"hidden.{len(self.cells) - 1}"]
        if self.order == "luong":
            cells = self.run_cells(step, state, state.leaves["mixture"], None)
            attended = self.attend(step, memory, state, cells.hidden, before)
            mixture = torch.tanh(self.mix(step, attended.context, cells.hidden))
            output = StepOutput(
                mixture, attended.context, AttentionWeights(attended.weights, source_weights=attended.source_weights)
            )
            leaves = cells.leaves | attended.leaves | {"mixture": mixture}
        else:
            query = before
            if self.opening is not None:
                state, query = self.open(step, state)
            attended = self.attend(step, memory, state, query, before)
            cells = self.run_cells(step, state, None, attended)
            output = StepOutput(
                cells.hidden,
                attended.context,
                AttentionWeights(attended.weights, cells.gates, source_weights=attended.source_weights),
            )
            leaves = cells.leaves | attended.leaves
        if self.writing is not None:
            leaves["written"] = self.write(step, memory, state, cells.hidden, attended)
        return State(leaves, state.positions), output

    def open(self, step: StepInputs, state: State) -> tuple[State, Tensor]:
        """The first cell of `conditional` takes the word: s~ = f(s, y) (Meng et al. 2016, equation 7)."""
        assert self.opening is not None
        names = [f"{leaf}.0" for leaf in self.opening.leaves]
        hidden = state.leaves[names[0]]
        after = self.opening(step, hidden[..., :0], tuple(state.leaves[name] for name in names))
        return replace(state, leaves=state.leaves | dict(zip(names, after, strict=True))), after[0]

    def attend(self, step: StepInputs, memory: Memory, state: State, query: Tensor, before: Tensor) -> AttentionResult:
        """Read every view with a query (B, K, H); `before` is the top layer's state before this step."""
        if self.combination is None:
            attended = self.attend_to_one(step, memory, state, query, before)
        else:
            attended = self.attend_to_all(step, memory, state, query, before)
        if self.word_attention is None:
            return attended
        (words,) = (view for name, view in memory.views.items() if name.endswith(f".{WORDS}"))
        energy_BKT = self.word_attention.energies(step, query, words.keys_BTA)
        if self.combination is None:
            weights_BKT = masked_softmax(energy_BKT, words.padding_BT)
        else:
            weights_BKT = masked_softmax_where_present(energy_BKT, words.masked_BT, words.absent_B1)
        of_words = context(weights_BKT, words.values_BTD)
        return replace(
            attended,
            contexts=attended.contexts | {WORDS: of_words},
            context=torch.cat([attended.context, of_words], -1),
            weights=attended.weights | {(words.source, WORDS): weights_BKT},
        )

    def attend_to_one(
        self, step: StepInputs, memory: Memory, state: State, query: Tensor, before: Tensor
    ) -> AttentionResult:
        """Plain attention over the only source, which hypotheses may have written to."""
        assert self.attention is not None
        states = memory.views[f"{self.source}.{STATES}"]
        values, keys, share = states.values_BTD, states.keys_BTA, states.covered_BTC[:, None]
        if self.writing is not None:  # the annotations are each hypothesis's own
            values = state.leaves["written"].to(self.product_dtype)
            keys = self.attention.keys(values)
            if self.coverages:
                share = self.coverage_of(self.source).annotations(values)
        coverage_BKTC = state.leaves.get(f"coverage.{self.source}")
        energy_BKT = self.attention.energies(step, query, keys, coverage_BKTC)
        weights_BKT = masked_softmax(energy_BKT, states.padding_BT)
        of_states = context(weights_BKT, values)
        leaves = self.update_coverage(self.source, coverage_BKTC, weights_BKT, share, before)
        return AttentionResult({STATES: of_states}, of_states, {(self.source, STATES): weights_BKT}, {}, leaves)

    def attend_to_all(
        self, step: StepInputs, memory: Memory, state: State, query: Tensor, before: Tensor
    ) -> AttentionResult:
        """Every source, as the combination has them read together."""
        assert self.combination is not None
        views = {source: memory.views[f"{source}.{STATES}"] for source in self.config.sources}
        covered = {source: state.leaves[f"coverage.{source}"] for source in self.coverages}
        found = self.combination(step, query, before, views, covered)
        leaves: dict[str, Tensor] = {}
        for source, coverage_BKTC in covered.items():
            share = views[source].covered_BTC[:, None]
            leaves |= self.update_coverage(source, coverage_BKTC, found.weights[source], share, before)
        weights = {(source, STATES): weights_BKT for source, weights_BKT in found.weights.items()}
        return AttentionResult({STATES: found.context}, found.context, weights, found.source_weights, leaves)

    def update_coverage(
        self, source: str, coverage_BKTC: Tensor | None, weights_BKT: Tensor, share: Tensor, before: Tensor
    ) -> dict[str, Tensor]:
        """A source's coverage after a look at it; nothing without coverage."""
        if coverage_BKTC is None:
            return {}
        return {f"coverage.{source}": self.coverage_of(source)(coverage_BKTC, weights_BKT, share, before)}

    def run_cells(
        self, step: StepInputs, state: State, fed: Tensor | None, attended: AttentionResult | None
    ) -> CellOutput:
        """All layers' cells in turn. `fed` enters the first one; of a look the contexts enter all."""
        leaves: dict[str, Tensor] = {}
        gates: list[Tensor] = []
        own = fed
        for i, layer in enumerate(self.layers):
            before = tuple(state.leaves[f"{leaf}.{i}"] for leaf in layer.leaves)
            mixed = None
            if attended is None:
                assert own is not None
                inputs = own
            elif self.gates is not None:
                inputs = before[0][..., :0] if own is None else own
                mixed, gate = self.gates[i](
                    step, inputs, before[0], attended.contexts[STATES], attended.contexts[WORDS]
                )
                gates.append(gate)
            else:
                inputs = attended.context if own is None else torch.cat([own, attended.context], -1)
            after = layer(step, inputs, before, mixed)
            leaves |= {f"{leaf}.{i}": value for leaf, value in zip(layer.leaves, after, strict=True)}
            hidden = after[0].to(inputs.dtype)
            if i + 1 < len(self.layers):
                own = self.dropout_between_layers(hidden)
        return CellOutput(hidden, leaves, tuple(gates))

    def mix(self, step: StepInputs, contexts: Tensor, hidden: Tensor) -> Tensor:
        """W_s [c; z~] (Kiyono et al. 2018, equation 9)."""
        assert self.mixing is not None
        return step(self.mixing, torch.cat([contexts, hidden.to(contexts.dtype)], -1))

    def write(
        self, step: StepInputs, memory: Memory, state: State, hidden: Tensor, attended: AttentionResult
    ) -> Tensor:
        """The annotations after this step, written by its new state."""
        assert self.writing is not None
        written = state.leaves["written"]
        weights_BKT = attended.weights[self.source, STATES]
        if self.writing_attention is not None:
            keys = self.writing_attention.keys(written)
            energy_BKT = self.writing_attention.energies(step, hidden, keys)
            weights_BKT = masked_softmax(energy_BKT, memory.views[f"{self.source}.{STATES}"].padding_BT)
        after: Tensor = self.writing(step, hidden, weights_BKT, written)
        return after

    def dropout_between_layers(self, hidden: Tensor) -> Tensor:
        """Dropout between layers."""
        return F.dropout(hidden, self.config.dropout, self.training)

    def unroll(self, memory: Memory, words_BKLE: Tensor) -> tuple[Tensor, list[AttentionWeights]]:
        """Readouts (B, K, L, R) of every step over known words, and the looks of each."""
        hypotheses, steps = words_BKLE.shape[1], words_BKLE.shape[2]
        state = repeat(self.start(memory), hypotheses)
        words_LBKE = words_BKLE.movedim(2, 0).contiguous()  # else torch may copy the weights for every word of it
        unrolled = UnrolledInputs(self.at_every_step(self.precompute(words_LBKE), words_LBKE.shape[:-1]))
        output = []
        for t in range(steps):
            state, output_t = self.advance(memory, state, unrolled[t])
            output.append(output_t)
        hidden_BKLH = torch.stack([output_t.hidden for output_t in output], 2)
        contexts_BKLC = None if self.readout is None else torch.stack([output_t.contexts for output_t in output], 2)
        return self.read(words_BKLE, hidden_BKLH, contexts_BKLC), [output_t.attention_weights for output_t in output]

    def at_every_step(self, precomputed: Mapping[StepLinear, Tensor], axes: torch.Size) -> dict[StepLinear, Tensor]:
        """For every recurrent map what is given at every step: biases repeated, zeros where nothing is."""
        parts = [part for part in self.modules() if isinstance(part, StepLinear)]
        nothing = {part: part.weight.new_zeros(part.weight.shape[0]) for part in parts if part not in precomputed}
        return {
            part: share.to(self.product_dtype).expand(*axes, share.shape[-1])
            for part, share in {**precomputed, **nothing}.items()
        }

    def read(self, words: Tensor, hidden: Tensor, contexts: Tensor | None) -> Tensor:
        """The readout (..., R) of words (..., E), states (..., H) and contexts (..., C), which a mixture has in it."""
        if self.readout is None or contexts is None:
            return hidden
        readout: Tensor = self.readout(torch.cat([words, hidden.to(words.dtype), contexts.to(words.dtype)], -1))
        if self.config.readout == "maxout":
            return torch.amax(readout.unflatten(-1, (-1, 2)), -1)
        return readout if self.config.readout == "linear" else torch.tanh(readout)


def attention(config: Architecture, value: int, size: int, coverage_size: int = 0) -> Attention:
    """An attention of the recipe's kind over values of some size; `size` is that of an additive energy."""
    if config.attention == "bilinear":
        return BilinearAttention(config.hidden, value)
    return AdditiveAttention(config.hidden, value, size, coverage_size)


def coverage(config: Architecture) -> Coverage:
    """The recipe's coverage."""
    if config.coverage == "linguistic":
        return LinguisticCoverage(config.annotation, config.fertility or 2.0)
    return NeuralCoverage(config.annotation, config.hidden, config.coverage_size or 10, config.gru or "cudnn")


def repeat(state: State, hypotheses: int) -> State:
    """The same state for several hypotheses of each sentence."""
    return state.map(lambda leaf: leaf.expand(-1, hypotheses, *leaf.shape[2:]))
