"""The cell that a recipe names."""

from seq2seq.config import Architecture
from seq2seq.layers.cells.layer_norm import LayerNormGRUCell, LayerNormLSTMCell
from seq2seq.layers.cells.lstm_gru import GRUCell, LSTMCell

Cell = LSTMCell | GRUCell | LayerNormLSTMCell | LayerNormGRUCell


def build_cell(config: Architecture, words: int, inputs: int) -> Cell:
    """The config's cell.

    `words`: size of the inputs that are known before the recurrence (0: none); `inputs`: of those of each step.
    """
    hidden, form = config.hidden, config.gru or "cudnn"
    if config.cell == "lstm":
        return LayerNormLSTMCell(words, inputs, hidden) if config.layer_norm else LSTMCell(words, inputs, hidden)
    if config.layer_norm:
        return LayerNormGRUCell(words, inputs, hidden, form)
    return GRUCell(words, inputs, hidden, form)
