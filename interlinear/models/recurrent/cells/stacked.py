"""A stack of cells over a known sequence, step by step: for equations that no fused kernel computes.

Axes: B sentences, T positions, I inputs, H hidden.
"""

from typing import cast

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from interlinear.config import RecurrentArchitecture
from interlinear.models.layers.dropout import draw_state_mask
from interlinear.models.layers.step_linear import UnrolledInputs, at_least_fp32, terms_at_every_step
from interlinear.models.recurrent.cells.layer_norm import LayerNormGRUCell, LayerNormLSTMCell
from interlinear.models.recurrent.cells.lstm_gru import GRUCell, LSTMCell

Cell = LSTMCell | GRUCell | LayerNormLSTMCell | LayerNormGRUCell


def build_cell(config: RecurrentArchitecture, words: int, inputs: int) -> Cell:
    """The config's cell.

    `words`: size of the inputs that are known before the recurrence (0: none); `inputs`: size of the inputs of each
    step.
    """
    hidden, form = config.hidden, config.gru or "cudnn"
    if config.cell == "lstm":
        return LayerNormLSTMCell(words, inputs, hidden) if config.layer_norm else LSTMCell(words, inputs, hidden)
    if config.layer_norm:
        return LayerNormGRUCell(words, inputs, hidden, form)
    return GRUCell(words, inputs, hidden, form)


class StackedCells(nn.Module):
    """Layers of cells that read a sequence from its first position on: the GRU in the form of Wu et al. 2018 (equation
    10), layer normalisation, and dropout of states.

    `state_dropout` draws one mask of the states for each sentence and layer, and uses it at all positions.
    """

    def __init__(self, config: RecurrentArchitecture, inputs: int, layers: int) -> None:
        super().__init__()
        self.layers = nn.ModuleList(build_cell(config, config.hidden if i else inputs, 0) for i in range(layers))
        self.hidden = config.hidden
        self.dropout, self.state_dropout = config.dropout, config.state_dropout or 0.0

    def forward(self, inputs_BTI: Tensor) -> tuple[Tensor, list[Tensor]]:
        """States of the top layer, and a list of the states (and memories) of all layers, each (B, T, H)."""
        # Positions first and contiguous: else torch may copy the weights for every position.
        inputs_TBI, leaves_BTH = inputs_BTI.movedim(1, 0).contiguous(), []
        for i, layer in enumerate(cast(list[Cell], list(self.layers))):
            leaves_TBH = self.run_layer(layer, F.dropout(inputs_TBI, self.dropout, self.training and i > 0))
            inputs_TBI = leaves_TBH[0].to(inputs_BTI.dtype)
            leaves_BTH += [leaf.to(inputs_BTI.dtype).movedim(0, 1) for leaf in leaves_TBH]
        return inputs_TBI.movedim(0, 1), leaves_BTH

    def run_layer(self, layer: Cell, inputs_TBI: Tensor) -> list[Tensor]:
        """The states (and memories) of one layer at all positions, each (T, B, H)."""
        steps, rows, _ = inputs_TBI.shape
        unrolled = UnrolledInputs(terms_at_every_step(layer, layer.precompute(inputs_TBI), inputs_TBI.shape[:-1]))
        nothing_B0 = inputs_TBI.new_zeros(rows, 0)
        start_BH = at_least_fp32(inputs_TBI.new_zeros(rows, self.hidden))
        state, states = (start_BH,) * len(layer.leaves), []
        drops = self.training and self.state_dropout > 0
        mask_BH = draw_state_mask(start_BH, self.state_dropout) if drops else None
        for t in range(steps):
            dropped_BH = state[0] if mask_BH is None else state[0] * mask_BH
            state = layer(unrolled[t], nothing_B0, state, dropped=dropped_BH)
            states.append(state)
        return [torch.stack(leaf_T) for leaf_T in zip(*states, strict=True)]
