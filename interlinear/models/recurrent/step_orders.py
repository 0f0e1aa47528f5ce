"""The three orders of a step.

    bahdanau      attend with the state before, then the cells take the contexts
    conditional   a cell takes the word, attend with its state, then the cells take the contexts
    luong         the cells take the word and the mixture before, attend with their state, mix

Axes: B sentences, K hypotheses of each, H hidden, C all contexts side by side.
"""

from collections.abc import Callable
from dataclasses import replace

import torch
from torch import Tensor

from interlinear.config import ModelConfig
from interlinear.models.attention_weights import AttentionWeights
from interlinear.models.layers.step_linear import StepInputs, StepLinear
from interlinear.models.memory import SUMMARY, Memory
from interlinear.models.recurrent.cells import build_cell
from interlinear.models.recurrent.decoder import CellInput, HasPrecomputed, RecurrentDecoder, StepOutput
from interlinear.models.state import State


class BahdanauDecoder(RecurrentDecoder):
    """Attend with the state before, then the cells take the contexts (Bahdanau et al. 2015)."""

    def advance(self, memory: Memory, state: State, step: StepInputs) -> tuple[State, StepOutput]:
        before_BKH = self.top_hidden(state)
        return self.attend_then_run(memory, state, step, before_BKH, before_BKH)


class ConditionalDecoder(RecurrentDecoder):
    """An opening cell takes the word, s~ = f(s, y) (Meng et al. 2016, equation 7); attend with s~, then the cells take
    the contexts. The opening cell goes on with the lowest layer's state."""

    words_enter_cells = False

    def add_opening(self) -> None:
        config = self.config
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

    @property
    def first_inputs(self) -> int:
        return self.config.hidden

    def add_readout(self, contexts: int) -> None:
        self.mixing = StepLinear(contexts + self.config.hidden, self.config.hidden)

    def start(self, memory: Memory) -> State:
        state = super().start(memory)
        shape = (memory.rows, 1, self.config.hidden)  # z_0 = 0; every step makes it anew, of a product
        mixture = memory.summaries[SUMMARY].new_zeros(shape, dtype=self.product_dtype)
        return replace(state, leaves=state.leaves | {"mixture": mixture})

    def advance(self, memory: Memory, state: State, step: StepInputs) -> tuple[State, StepOutput]:
        before_BKH = self.top_hidden(state)
        cells = self.run_cells(step, state, CellInput(state.leaves["mixture"]), lambda _, below, own: CellInput(below))
        attended = self.attend(step, memory, state, cells.hidden, before_BKH)
        inputs = torch.cat([attended.context, cells.hidden.to(attended.context.dtype)], -1)
        mixture = torch.tanh(step(self.mixing, inputs))
        leaves = state.leaves | cells.leaves | attended.leaves | {"mixture": mixture}
        leaves |= self.annotations.update(step, memory, state, cells.hidden, attended)
        weights = AttentionWeights(attended.weights, source_weights=attended.source_weights)
        return State(leaves, state.axes), StepOutput(mixture, attended.context, weights)

    def read_steps(self, words_BKLE: Tensor, outputs: list[StepOutput]) -> Tensor:
        return torch.stack([output.hidden for output in outputs], 2)

    def read(self, words: Tensor, hidden: Tensor, contexts: Tensor) -> Tensor:
        """The mixture, which has the contexts in it."""
        return hidden


ORDERS: dict[str, Callable[[ModelConfig], RecurrentDecoder]] = {
    "bahdanau": BahdanauDecoder,
    "conditional": ConditionalDecoder,
    "luong": LuongDecoder,
}


def build_decoder(config: ModelConfig) -> RecurrentDecoder:
    """The decoder of the recipe's order of a step."""
    return ORDERS[config.decoder](config)
