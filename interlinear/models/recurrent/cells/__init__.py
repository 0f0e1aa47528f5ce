"""Recurrent cells that compute one step, and stacks of them over a whole sequence."""

from interlinear.models.recurrent.cells.layer_norm import LayerNormGRUCell, LayerNormLSTMCell
from interlinear.models.recurrent.cells.lstm_gru import GRUCell, LSTMCell
from interlinear.models.recurrent.cells.stacked import Cell, StackedCells, build_cell

__all__ = [
    "Cell",
    "GRUCell",
    "LSTMCell",
    "LayerNormGRUCell",
    "LayerNormLSTMCell",
    "StackedCells",
    "build_cell",
]
