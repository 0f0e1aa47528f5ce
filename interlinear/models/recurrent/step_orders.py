"""The three orders of a step.

    bahdanau      attend with the state before, then the cells take the contexts
    conditional   a cell takes the word, attend with its state, then the cells take the contexts
    luong         the cells take the word and the mixture before, attend with their state, mix

Axes: B sentences, K hypotheses of each, H hidden, C all contexts side by side.
"""

from dataclasses import replace

import torch
from torch import Tensor, nn

from interlinear.config import RecurrentConfig
from interlinear.models.attention_weights import AttentionWeights
from interlinear.models.layers.step_linear import StepInputs, StepLinear
from interlinear.models.memory import SUMMARY, Memory
from interlinear.models.recurrent.cells import build_cell
from interlinear.models.recurrent.decoder import CellInput, DecoderParts, HasPrecomputed, RecurrentDecoder, StepOutput
from interlinear.models.state import State


class DecoderWithReadout(RecurrentDecoder):
    """A decoder whose readout is a map of word, state and contexts."""

    def __init__(self, config: RecurrentConfig, parts: DecoderParts) -> None:
        super().__init__(config, parts)
        doubled = config.readout_size * (2 if config.readout == "maxout" else 1)
        self.readout = nn.Linear(config.embedding + config.hidden + parts.contexts, doubled)

    def read_steps(self, words_BKLE: Tensor, outputs: list[StepOutput]) -> Tensor:
        """The readouts (B, K, L, R) of all steps, in one product."""
        hidden_BKLH = torch.stack([output.hidden for output in outputs], 2)
        contexts_BKLC = torch.stack([output.contexts for output in outputs], 2)
        return self.read(words_BKLE, hidden_BKLH, contexts_BKLC)

    def read(self, words: Tensor, hidden: Tensor, contexts: Tensor) -> Tensor:
        """t_i = W_y y_{i-1} + W s_i + W^a c_i + W^b c_i^b (Wu et al. 2018, equation 10), then the activation."""
        readout: Tensor = self.readout(torch.cat([words, hidden.to(words.dtype), contexts.to(words.dtype)], -1))
        if self.config.readout == "maxout":
            return torch.amax(readout.unflatten(-1, (-1, 2)), -1)
        return readout if self.config.readout == "linear" else torch.tanh(readout)


class BahdanauDecoder(DecoderWithReadout):
    """Attend with the state before, then the cells take the contexts (Bahdanau et al. 2015)."""

    def advance(self, memory: Memory, state: State, step: StepInputs) -> tuple[State, StepOutput]:
        before_BKH = self.top_hidden(state)
        return self.attend_then_run(memory, state, step, before_BKH, before_BKH)


class ConditionalDecoder(DecoderWithReadout):
    """An opening cell takes the word, s~ = f(s, y) (Meng et al. 2016, equation 7); attend with s~, then the cells take
    the contexts. The opening cell continues with the lowest layer's state."""

    words_enter_cells = False

    def __init__(self, config: RecurrentConfig, parts: DecoderParts) -> None:
        super().__init__(config, parts)
        self.opening = build_cell(config, config.embedding, 0)

    def recurrent_parts(self) -> list[HasPrecomputed]:
        return [self.opening, *super().recurrent_parts()]

    def advance(self, memory: Memory, state: State, step: StepInputs) -> tuple[State, StepOutput]:
        before_BKH = self.top_hidden(state)
        names = [f"{leaf}.0" for leaf in self.opening.leaves]
        no_inputs = state.leaves[names[0]][..., :0]
        before = tuple(state.leaves[name] for name in names)
        after = self.opening(step, no_inputs, before, dropped=self.dropped_hidden(state, 0))
        opened = replace(state, leaves=state.leaves | dict(zip(names, after, strict=True)))
        return self.attend_then_run(memory, opened, step, after[0], before_BKH)


class LuongDecoder(RecurrentDecoder):
    """The cells take the word and the mixture before, attend with their state, mix (Luong et al. 2015).

    z_i = tanh(W [c_i; s_i]) (Kiyono et al. 2018, equation 9); the mixture z_i is the readout too.
    """

    contexts_enter_cells = False

    mixture_enters_cells = True

    def __init__(self, config: RecurrentConfig, parts: DecoderParts) -> None:
        super().__init__(config, parts)
        self.mixing = StepLinear(parts.contexts + config.hidden, config.hidden)

    def start(self, memory: Memory) -> State:
        state = super().start(memory)
        shape = (memory.rows, 1, self.config.hidden)  # z_0 = 0; every step computes z by a product
        mixture = memory.summaries[SUMMARY].new_zeros(shape, dtype=self.product_dtype)
        return replace(state, leaves=state.leaves | {"mixture": mixture})

    def advance(self, memory: Memory, state: State, step: StepInputs) -> tuple[State, StepOutput]:
        before_BKH = self.top_hidden(state)
        cells = self.run_cells(step, state, CellInput(state.leaves["mixture"]), lambda _, below, own: CellInput(below))
        attended = self.attend(step, memory, state, cells.hidden, before_BKH)
        inputs = torch.cat([attended.context, cells.hidden.to(attended.context.dtype)], -1)
        mixture = torch.tanh(step(self.mixing, inputs))
        leaves = state.leaves | cells.leaves | attended.leaves | {"mixture": mixture}
        leaves |= self.attend.update(step, memory, state, cells.hidden, attended)
        weights = AttentionWeights(attended.weights, source_weights=attended.source_weights)
        return State(leaves, state.axes), StepOutput(mixture, attended.context, weights)

    def read_steps(self, words_BKLE: Tensor, outputs: list[StepOutput]) -> Tensor:
        return torch.stack([output.hidden for output in outputs], 2)

    def read(self, words: Tensor, hidden: Tensor, contexts: Tensor) -> Tensor:
        """The mixture, which has the contexts in it."""
        return hidden


ORDERS: dict[str, type[RecurrentDecoder]] = {
    "bahdanau": BahdanauDecoder,
    "conditional": ConditionalDecoder,
    "luong": LuongDecoder,
}
