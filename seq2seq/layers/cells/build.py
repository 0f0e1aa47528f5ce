"""The cell that a recipe names."""

from seq2seq.config import Architecture
from seq2seq.layers.cells.layer_norm import LayerNormGRUCell, LayerNormLSTMCell
from seq2seq.layers.cells.lstm_gru import GRUCell, LSTMCell

Cell = LSTMCell | GRUCell | LayerNormLSTMCell | LayerNormGRUCell


def build_cell(config: Architecture, words: int, inputs: int) -> Cell:
    """The config's cell.

    `words`: size of the inputs that are known before the recurrence (0: none); `inputs`: of those of each step.
    """
    if config.cell == "lstm":
        return (LayerNormLSTMCell if config.layer_norm else LSTMCell)(words, inputs, config.hidden)
    return (LayerNormGRUCell if config.layer_norm else GRUCell)(words, inputs, config.hidden, config.gru or "cudnn")
