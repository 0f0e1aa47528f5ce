"""Recurrent cells that compute one step, and stacks of them over a whole sequence."""

from seq2seq.layers.cells.layer_norm import LayerNorm, LayerNormGRUCell, LayerNormLSTMCell
from seq2seq.layers.cells.lstm_gru import GRUCell, LSTMCell
from seq2seq.layers.cells.stacked import Cell, StackedCells, build_cell

__all__ = [
    "Cell",
    "GRUCell",
    "LSTMCell",
    "LayerNorm",
    "LayerNormGRUCell",
    "LayerNormLSTMCell",
    "StackedCells",
    "build_cell",
]
