"""The matrices of a recurrent model's weights, as they are drawn, and the weights that are set afterwards."""

import re

import torch
from torch import nn

from interlinear.config import RecurrentConfig
from interlinear.models.initialization import Block, Matrices, columns, rows_and_columns, seed_of
from interlinear.models.recurrent.cells import Cell, LayerNormLSTMCell, LSTMCell
from interlinear.models.recurrent.gates import SelectiveGate

STACKED_CELL = re.compile(r"(encoders\.\w+\.recurrent\.\w+\.\d+)\.layers\.(\d+)\.(words|gates|state)\.weight")
STACKED_MAPS = {"words": "ih", "gates": "hh", "state": "hh"}


def matrices(config: RecurrentConfig) -> Matrices:
    """The matrices of each parameter, with the same name for the same part of different systems."""
    blocks = blocks_of(config)
    return lambda name: blocks.get(name) or [Block(shared_name(config, name), slice(None), slice(None))]


@torch.no_grad()
def set_weights(model: nn.Module, config: RecurrentConfig, seed: int) -> None:
    """With xavier, open forget and selective gates; with orthogonal, orthogonal recurrent weights."""
    if config.initialization == "xavier":
        open_gates(model)
    elif config.initialization == "orthogonal":
        orthogonalize(model, config.hidden, seed)


def shared_name(config: RecurrentConfig, name: str) -> str:
    """The name under which a parameter is drawn: the same for the same part of different systems."""
    if config.combination == "none":  # a single source's attention is drawn as one of several sources'
        source = next(iter(config.sources))
        name = name.replace("decoder.attention.", f"decoder.combination.attentions.{source}.")
    if config.layer_norm:
        name = name.replace("decoder.opening.state.", "decoder.opening.gates.")
    if config.cell == "lstm":  # an encoder's cells, in the place of torch's layers, whose gates have the same order
        name = STACKED_CELL.sub(lambda found: f"{found[1]}.weight_{STACKED_MAPS[found[3]]}_l{found[2]}", name)
    return name.replace(".map.weight", ".weight")


def blocks_of(config: RecurrentConfig) -> dict[str, list[Block]]:
    """The blocks of the decoder's weights that have several inputs, by parameter name.

    With contextual gates the contexts' matrices are rows of the gate's weights: the cell's rows, then the gate's.
    """
    hidden = config.hidden
    contexts = context_sizes(config)
    of_annotations = [one for one in contexts if one[0] != "words"]
    luong = config.decoder == "luong"
    beside = [] if config.contextual_gates or luong else contexts
    blocks: dict[str, list[Block]] = {}
    for layer in range(config.decoder_depth):
        below = [("below", hidden)] if layer else [("mixture", hidden)] if luong else []
        cell, state = f"decoder.cells.{layer}", [("state", hidden)]
        # How many gates a map has; a GRU has one map for its gates and one for its candidate.
        maps = {"gates": LSTMCell.gates_count} if config.cell == "lstm" else {"gates": 2, "candidate_inputs": 1}
        of_cell = [(f"{cell}.{name}", count * hidden) for name, count in maps.items()]
        if config.layer_norm:  # the same matrices, with the input's gates stacked
            blocks[f"{cell}.inputs.weight"] = rows_and_columns(of_cell, [*below, *beside])
            blocks[f"{cell}.state.weight"] = columns(f"{cell}.gates", state)
        else:
            for name in maps:
                of_state = state if name == "gates" else []
                blocks[f"{cell}.{name}.weight"] = columns(f"{cell}.{name}", [*below, *beside, *of_state])
        if config.contextual_gates:
            gate = f"decoder.gates.{layer}"
            blocks[f"{gate}.state.weight"] = columns(f"{gate}.state", [*below, *state])
            entering = {"annotation_context": of_annotations, "word_context": [("words", config.embedding)]}
            for part, inputs in entering.items():
                blocks[f"{gate}.{part}.weight"] = rows_and_columns([*of_cell, (gate, hidden)], inputs)
    if luong:
        blocks["decoder.mixing.weight"] = columns("decoder.mixing", [*contexts, ("state", hidden)])
    else:
        inputs = [("previous word", config.embedding), ("state", hidden), *contexts]
        blocks["decoder.readout.weight"] = columns("decoder.readout", inputs)
    summaries = [(name, config.summary_size if name in config.texts else config.annotation) for name in config.sources]
    for layer in range(config.decoder_depth):
        blocks[f"decoder.first.{layer}.weight"] = columns(f"decoder.first.{layer}", summaries)
    return blocks


def context_sizes(config: RecurrentConfig) -> list[tuple[str, int]]:
    """The contexts that the decoder concatenates, in their order."""
    if config.has_common_space:
        sizes = [("combined context", config.combined_size)]
    else:
        sizes = [(f"context of {name}", config.annotation) for name in config.sources]
    return [*sizes, ("words", config.embedding)] if config.word_attention else sizes


def open_gates(model: nn.Module) -> None:
    """Sets the forget bias of every LSTM to 1, and the bias of selective gates so that they start open."""
    for module in model.modules():
        if isinstance(module, LSTMCell | LayerNormLSTMCell):
            module.open_forget_gate()
        elif isinstance(module, SelectiveGate):
            module.open_gate()
        elif isinstance(module, nn.LSTM):
            for layer in range(module.num_layers):
                getattr(module, f"bias_ih_l{layer}")[module.hidden_size : 2 * module.hidden_size] = 1.0


def orthogonalize(model: nn.Module, hidden: int, seed: int) -> None:
    """Draws an orthogonal matrix for every map from a cell's state to one of its gates."""
    for name, module in model.named_modules():
        if isinstance(module, nn.RNNBase):
            recurrent = [getattr(module, f"weight_hh_l{layer}") for layer in range(module.num_layers)]
        elif isinstance(module, Cell):
            recurrent = module.recurrent_weights()
        else:
            continue
        generator = torch.Generator().manual_seed(seed_of(seed, f"{name}, orthogonal"))
        for weight in recurrent:
            for gate in weight.split(hidden):
                gate.copy_(nn.init.orthogonal_(torch.empty(hidden, hidden), generator=generator))
