"""The decoder's one loop: look, then let the cells take what was seen (Bahdanau et al. 2015).

Axes: B sentences, K hypotheses of each, L target positions, T source positions, E embedding, H hidden,
C all contexts side by side, R readout.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import cast

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from seq2seq.attention import AdditiveAttention
from seq2seq.cells import Cell, cell
from seq2seq.config import Architecture
from seq2seq.looks import Looks
from seq2seq.memory import Memory, State, View
from seq2seq.recurrence import Moment, Recurrent, Unrolled


@dataclass(frozen=True)
class Seen:
    """What one step hands to the output layer, which is computed for all steps at once."""

    hidden: Tensor
    contexts: Tensor
    looks: Looks


class Decoder(nn.Module):
    """Stacked cells over target words; attention reads the top layer's previous state (Wu et al. 2018, equations 1-4).

    s_i = f(s_{i-1}, y_{i-1}, c_i)                      contexts enter every layer
    t_i = W_y y_{i-1} + W s_i + W^a c_i                 readout, equation 10 without the bold terms
    """

    def __init__(self, config: Architecture, summary: int) -> None:
        super().__init__()
        self.config = config
        value = 2 * config.hidden
        self.attention = AdditiveAttention(config.hidden, value, config.attention_size or config.hidden)
        self.cells = nn.ModuleList(
            cell(
                config.cell,
                config.gru,
                words=0 if i else config.embedding,
                inputs=value + (config.hidden if i else 0),
                hidden=config.hidden,
            )
            for i in range(config.layers_down)
        )
        self.first = (
            None
            if config.first_state == "zero"
            else nn.ModuleList(nn.Linear(summary, config.hidden) for _ in range(config.layers_down))
        )
        readout = config.embedding * (2 if config.readout == "maxout" else 1)
        self.readout = nn.Linear(config.embedding + config.hidden + value, readout)

    def view(self, source: str, states_BTD: Tensor, padding_BT: Tensor) -> View:
        """What this decoder attends to: a source's states with their keys."""
        return View(source, self.attention.keys(states_BTD), states_BTD, padding_BT)

    def start(self, memory: Memory) -> State:
        """The state before the first word, one hypothesis a sentence: s_0 = tanh(W . summary), memories zero."""
        summary_B1S = memory.summary_BS[:, None]
        leaves = {}
        for i, layer in enumerate(self.layers):
            if self.first is None:
                hidden = summary_B1S.new_zeros(memory.rows, 1, self.config.hidden)
            else:
                hidden = torch.tanh(self.first[i](summary_B1S))
            leaves[f"hidden.{i}"] = hidden
            if "memory" in layer.leaves:  # the dtype in which the memory is summed: never below fp32
                dtype = torch.promote_types(hidden.dtype, torch.float32)
                leaves[f"memory.{i}"] = torch.zeros_like(hidden, dtype=dtype)
        return State(leaves, positions={})

    @property
    def layers(self) -> list[Cell]:
        return cast(list[Cell], list(self.cells))

    def given(self, words: Tensor) -> dict[Recurrent, Tensor]:
        """Every share of the recurrence's maps that can be known before it starts, from words (..., E)."""
        shares: dict[Recurrent, Tensor] = {}
        for i, layer in enumerate(self.layers):
            shares |= layer.given(None if i else words)
        return shares

    def advance(self, memory: Memory, state: State, at: Moment) -> tuple[State, Seen]:
        """One step of the recurrence, and only it: the same in training and in search."""
        top = state.leaves[f"hidden.{len(self.cells) - 1}"]
        weights: dict[tuple[str, str], Tensor] = {}
        below = []
        for name, view in memory.views.items():
            context_BKD, weights[view.source, KINDS[name]] = self.attention(at, top, view)
            below.append(context_BKD)
        contexts_BKC = below[0] if len(below) == 1 else torch.cat(below, -1)
        leaves: dict[str, Tensor] = {}
        inputs = contexts_BKC
        for i, layer in enumerate(self.layers):
            before = tuple(state.leaves[f"{leaf}.{i}"] for leaf in layer.leaves)
            after = layer(at, inputs, before)
            leaves |= {f"{leaf}.{i}": value for leaf, value in zip(layer.leaves, after, strict=True)}
            hidden = after[0].to(contexts_BKC.dtype)
            inputs = torch.cat([self.between(hidden), contexts_BKC], -1)
        return State(leaves, state.positions), Seen(hidden, contexts_BKC, Looks(weights))

    def between(self, hidden: Tensor) -> Tensor:
        """Dropout between layers."""
        return F.dropout(hidden, self.config.dropout, self.training)

    def unroll(self, memory: Memory, words_BKLE: Tensor) -> tuple[Tensor, Looks]:
        """Readouts (B, K, L, R) and looks of every step over known words."""
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
        return self.read(words_BKLE, hidden_BKLH, contexts_BKLC), Looks.stack([now.looks for now in seen])

    def spread(self, given: Mapping[Recurrent, Tensor], axes: torch.Size) -> dict[Recurrent, Tensor]:
        """For every recurrent map what is given at every step: biases repeated, zeros where nothing is."""
        dtype = given[self.layers[0].gates].dtype
        parts = [part for part in self.modules() if isinstance(part, Recurrent)]
        nothing = {part: part.weight.new_zeros(part.weight.shape[0]) for part in parts if part not in given}
        return {part: share.to(dtype).expand(*axes, share.shape[-1]) for part, share in {**given, **nothing}.items()}

    def read(self, words: Tensor, hidden: Tensor, contexts: Tensor) -> Tensor:
        """The readout (..., R) of words (..., E), states (..., H) and contexts (..., C): equation 10's sum."""
        readout = self.readout(torch.cat([words, hidden.to(words.dtype), contexts.to(words.dtype)], -1))
        if self.config.readout == "maxout":
            return torch.amax(readout.unflatten(-1, (-1, 2)), -1)
        return torch.tanh(readout) if self.config.readout == "tanh" else readout


KINDS = {"states": "attention"}  # what a look at a view is called


def repeat(state: State, hypotheses: int) -> State:
    """The same state for several hypotheses of each sentence."""
    return state.map(lambda leaf: leaf.expand(-1, hypotheses, *leaf.shape[2:]))
