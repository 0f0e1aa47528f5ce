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

from seq2seq.attention import AdditiveAttention, Attention, BilinearAttention, context
from seq2seq.cells import Cell, cell
from seq2seq.config import Architecture
from seq2seq.coverage import Coverage, LinguisticCoverage, NeuralCoverage
from seq2seq.gates import ContextualGate
from seq2seq.looks import Looks
from seq2seq.memory import Memory, State, View
from seq2seq.recurrence import Moment, Recurrent, Unrolled
from seq2seq.writing import Writing

STATES, WORDS = "states", "words"  # the views: annotations, and embeddings
KINDS = {STATES: "attention", WORDS: "word_attention"}  # what a look at each is called


@dataclass(frozen=True)
class Seen:
    """What one step hands to the output layer, which is computed for all steps at once; and what it looked at."""

    hidden: Tensor
    contexts: Tensor
    looks: Looks


@dataclass(frozen=True)
class Look:
    """One look at all views: their contexts, alone and side by side (B, K, C), the weights, and the leaves that looking
    changes."""

    contexts: dict[str, Tensor]
    together: Tensor
    weights: dict[tuple[str, str], Tensor]
    leaves: dict[str, Tensor]


@dataclass(frozen=True)
class Climb:
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

    def __init__(self, config: Architecture) -> None:
        super().__init__()
        self.config = config
        hidden, embedding, annotation = config.hidden, config.embedding, config.annotation
        self.order = config.decoder
        self.coverage = coverage(config)
        self.attention = attention(config, annotation, self.coverage.size if self.coverage else 0)
        self.word_attention = attention(config, embedding) if config.word_attention else None
        self.writing = Writing(hidden, annotation) if config.writing != "none" else None
        self.writing_attention = attention(config, annotation) if config.writing == "separate" else None

        contexts = annotation + (embedding if config.word_attention else 0)
        if self.order == "luong":
            entering = 0
        else:
            entering = 0 if config.contextual_gates else contexts  # gated contexts enter by the gate
        self.opening = cell(config.cell, config.gru, embedding, 0, hidden) if self.order == "conditional" else None
        words = [0 if i or self.order == "conditional" else embedding for i in range(config.layers_down)]
        own = [hidden if i or self.order == "luong" else 0 for i in range(config.layers_down)]
        self.cells = nn.ModuleList(
            cell(config.cell, config.gru, words=w, inputs=x + entering, hidden=hidden)
            for w, x in zip(words, own, strict=True)
        )
        self.gates = (
            nn.ModuleList(
                ContextualGate(w, x, hidden, annotation, embedding, layer.gates_count)
                for w, x, layer in zip(words, own, self.layers, strict=True)
            )
            if config.contextual_gates
            else None
        )
        self.first = (
            nn.ModuleList(nn.Linear(config.summary_size, hidden) for _ in range(config.layers_down))
            if config.first_state not in ("zero", "sum")
            else None
        )
        self.mixing = Recurrent(contexts + hidden, hidden) if self.order == "luong" else None
        doubled = config.readout_size * (2 if config.readout == "maxout" else 1)
        self.readout = nn.Linear(embedding + hidden + contexts, doubled) if self.order != "luong" else None

    def views(self, source: str, words_BTE: Tensor, states_BTD: Tensor, padding_BT: Tensor) -> dict[str, View]:
        """What this decoder attends to, with all that can be computed once a sentence."""
        nothing = states_BTD[..., :0]
        covered = self.coverage.annotations(states_BTD) if self.coverage else nothing
        keys = nothing if self.writing else self.attention.keys(states_BTD)
        views = {STATES: View(source, keys, states_BTD, covered, padding_BT)}
        if self.word_attention is not None:
            views[WORDS] = View(source, self.word_attention.keys(words_BTE), words_BTE, nothing, padding_BT)
        return views

    def start(self, memory: Memory) -> State:
        """The state before the first word, one hypothesis a sentence."""
        leaves: dict[str, Tensor] = {}
        positions: dict[str, str] = {}
        for i, layer in enumerate(self.layers):
            for leaf, value in zip(layer.leaves, self.first_leaves(memory, i), strict=False):
                leaves[f"{leaf}.{i}"] = value
        states = memory.views[STATES]
        rows, width = states.padding_BT.shape
        if self.order == "luong":  # z_0 = 0
            leaves["mixture"] = states.values_BTD.new_zeros(rows, 1, self.config.hidden)
        if self.writing is not None:
            leaves["written"], positions["written"] = full(states.values_BTD)[:, None], states.source
        if self.coverage is not None:
            leaves["coverage"] = full(states.values_BTD.new_zeros(rows, 1, width, self.coverage.size))
            positions["coverage"] = states.source
        return State(leaves, positions)

    def first_leaves(self, memory: Memory, layer: int) -> tuple[Tensor, Tensor]:
        """A layer's first state and memory, each (B, 1, H): tanh(W . summary) and zero, by `first_state`."""
        summary_B1S = memory.summary_BS[:, None]
        if self.config.first_state == "sum":  # states and memories of all layers, in turn
            parts = summary_B1S.split(self.config.hidden, -1)
            leaves = len(self.layers[0].leaves)
            return parts[layer * leaves], full(parts[layer * leaves + leaves - 1])
        if self.first is None:
            hidden = summary_B1S.new_zeros(memory.rows, 1, self.config.hidden)
        else:
            hidden = torch.tanh(self.first[layer](summary_B1S))
        return hidden, full(torch.zeros_like(hidden))

    @property
    def layers(self) -> list[Cell]:
        return cast(list[Cell], list(self.cells))

    def given(self, words: Tensor) -> dict[Recurrent, Tensor]:
        """Every share of the recurrence's maps that can be known before it starts, from words (..., E)."""
        shares: dict[Recurrent, Tensor] = {} if self.opening is None else self.opening.given(words)
        taking = [*self.layers, *(cast(list[ContextualGate], list(self.gates)) if self.gates is not None else [])]
        for part in taking:
            shares |= part.given(None if part.words is None else words)
        return shares

    def advance(self, memory: Memory, state: State, at: Moment) -> tuple[State, Seen]:
        """One step of the recurrence, and only it: the same in training and in search."""
        before = state.leaves[f"hidden.{len(self.cells) - 1}"]
        if self.order == "luong":
            climb = self.climb(at, state, state.leaves["mixture"], None)
            look = self.look(at, memory, state, climb.hidden, before)
            mixture = torch.tanh(self.mix(at, look.together, climb.hidden))
            seen = Seen(mixture, look.together, Looks(look.weights))
            leaves = climb.leaves | look.leaves | {"mixture": mixture}
        else:
            query = before
            if self.opening is not None:
                state, query = self.open(at, state)
            look = self.look(at, memory, state, query, before)
            climb = self.climb(at, state, None, look)
            seen = Seen(climb.hidden, look.together, Looks(look.weights, climb.gates))
            leaves = climb.leaves | look.leaves
        if self.writing is not None:
            leaves["written"] = self.write(at, memory, state, climb.hidden, look)
        return State(leaves, state.positions), seen

    def open(self, at: Moment, state: State) -> tuple[State, Tensor]:
        """The first cell of `conditional` takes the word: s~ = f(s, y) (Meng et al. 2016, equation 7)."""
        assert self.opening is not None
        names = [f"{leaf}.0" for leaf in self.opening.leaves]
        hidden = state.leaves[names[0]]
        after = self.opening(at, hidden[..., :0], tuple(state.leaves[name] for name in names))
        return replace(state, leaves=state.leaves | dict(zip(names, after, strict=True))), after[0]

    def look(self, at: Moment, memory: Memory, state: State, query: Tensor, before: Tensor) -> Look:
        """Read every view with a query (B, K, H); `before` is the top layer's state before this step."""
        states = memory.views[STATES]
        values, keys = states.values_BTD, states.keys_BTA
        if self.writing is not None:  # the annotations are each hypothesis's own
            values = state.leaves["written"]
            keys = self.attention.keys(values)
        coverage_BKTC = state.leaves.get("coverage")
        weights_BKT = self.attention.weights(at, query, keys, states.padding_BT, coverage_BKTC)
        contexts = {STATES: context(weights_BKT, values)}
        weights = {(states.source, KINDS[STATES]): weights_BKT}
        leaves = {}
        if self.coverage is not None and coverage_BKTC is not None:
            share = (
                self.coverage.annotations(values.to(states.values_BTD.dtype))
                if self.writing
                else states.covered_BTC[:, None]
            )
            leaves["coverage"] = self.coverage(coverage_BKTC, weights_BKT, share, before)
        if self.word_attention is not None:
            words = memory.views[WORDS]
            weights_BKT = self.word_attention.weights(at, query, words.keys_BTA, words.padding_BT)
            contexts[WORDS] = context(weights_BKT, words.values_BTD)
            weights[words.source, KINDS[WORDS]] = weights_BKT
        both = list(contexts.values())
        return Look(contexts, both[0] if len(both) == 1 else torch.cat(both, -1), weights, leaves)

    def climb(self, at: Moment, state: State, fed: Tensor | None, look: Look | None) -> Climb:
        """All layers' cells in turn. `fed` enters the first one; of a look the contexts enter all."""
        leaves: dict[str, Tensor] = {}
        gates: list[Tensor] = []
        own = fed
        for i, layer in enumerate(self.layers):
            before = tuple(state.leaves[f"{leaf}.{i}"] for leaf in layer.leaves)
            mixed = None
            if look is None:
                assert own is not None
                inputs = own
            elif self.gates is not None:
                inputs = before[0][..., :0] if own is None else own
                mixed, gate = self.gates[i](at, inputs, before[0], look.contexts[STATES], look.contexts[WORDS])
                gates.append(gate)
            else:
                inputs = look.together if own is None else torch.cat([own, look.together], -1)
            after = layer(at, inputs, before, mixed)
            leaves |= {f"{leaf}.{i}": value for leaf, value in zip(layer.leaves, after, strict=True)}
            hidden = after[0].to(inputs.dtype)
            own = self.between(hidden)
        return Climb(hidden, leaves, tuple(gates))

    def mix(self, at: Moment, contexts: Tensor, hidden: Tensor) -> Tensor:
        """W_s [c; z~] (Kiyono et al. 2018, equation 9)."""
        assert self.mixing is not None
        return at(self.mixing, torch.cat([contexts, hidden.to(contexts.dtype)], -1))

    def write(self, at: Moment, memory: Memory, state: State, hidden: Tensor, look: Look) -> Tensor:
        """The annotations after this step, written by its new state."""
        assert self.writing is not None
        written, states = state.leaves["written"], memory.views[STATES]
        weights_BKT = look.weights[states.source, KINDS[STATES]]
        if self.writing_attention is not None:
            keys = self.writing_attention.keys(written)
            weights_BKT = self.writing_attention.weights(at, hidden, keys, states.padding_BT)
        after: Tensor = self.writing(at, hidden, weights_BKT, written)
        return after

    def between(self, hidden: Tensor) -> Tensor:
        """Dropout between layers."""
        return F.dropout(hidden, self.config.dropout, self.training)

    def unroll(self, memory: Memory, words_BKLE: Tensor) -> tuple[Tensor, list[Looks]]:
        """Readouts (B, K, L, R) of every step over known words, and the looks of each."""
        hypotheses, steps = words_BKLE.shape[1], words_BKLE.shape[2]
        state = repeat(self.start(memory), hypotheses)
        words_LBKE = words_BKLE.movedim(2, 0)
        unrolled = Unrolled(self.spread(self.given(words_LBKE), words_LBKE.shape[:-1]))
        seen = []
        for t in range(steps):
            state, now = self.advance(memory, state, unrolled.at(t))
            seen.append(now)
        hidden_BKLH = torch.stack([now.hidden for now in seen], 2)
        contexts_BKLC = torch.stack([now.contexts for now in seen], 2)
        return self.read(words_BKLE, hidden_BKLH, contexts_BKLC), [now.looks for now in seen]

    def spread(self, given: Mapping[Recurrent, Tensor], axes: torch.Size) -> dict[Recurrent, Tensor]:
        """For every recurrent map what is given at every step: biases repeated, zeros where nothing is."""
        dtype = given[self.layers[0].gates].dtype
        parts = [part for part in self.modules() if isinstance(part, Recurrent)]
        nothing = {part: part.weight.new_zeros(part.weight.shape[0]) for part in parts if part not in given}
        return {part: share.to(dtype).expand(*axes, share.shape[-1]) for part, share in {**given, **nothing}.items()}

    def read(self, words: Tensor, hidden: Tensor, contexts: Tensor) -> Tensor:
        """The readout (..., R) of words (..., E), states (..., H) and contexts (..., C)."""
        if self.readout is None:
            return hidden
        readout: Tensor = self.readout(torch.cat([words, hidden.to(words.dtype), contexts.to(words.dtype)], -1))
        if self.config.readout == "maxout":
            return torch.amax(readout.unflatten(-1, (-1, 2)), -1)
        return readout if self.config.readout == "linear" else torch.tanh(readout)


def attention(config: Architecture, value: int, coverage_size: int = 0) -> Attention:
    """An attention of the recipe's kind over values of some size."""
    if config.attention == "bilinear":
        return BilinearAttention(config.hidden, value)
    return AdditiveAttention(config.hidden, value, config.attention_size or config.hidden, coverage_size)


def coverage(config: Architecture) -> Coverage | None:
    """The recipe's coverage, if it has one."""
    if config.coverage == "neural":
        return NeuralCoverage(config.annotation, config.hidden, config.coverage_size or 10, config.gru or "cudnn")
    if config.coverage == "linguistic":
        return LinguisticCoverage(config.annotation, config.fertility or 2.0)
    return None


def full(leaf: Tensor) -> Tensor:
    """A leaf that every step adds to: never below fp32."""
    return leaf.to(torch.promote_types(leaf.dtype, torch.float32))


def repeat(state: State, hypotheses: int) -> State:
    """The same state for several hypotheses of each sentence."""
    return state.map(lambda leaf: leaf.expand(-1, hypotheses, *leaf.shape[2:]))
