"""Initial weights of a model. Each matrix of the equations is drawn from a random stream of its own, which is seeded by
the model's seed and the matrix's name: systems that share parts begin with the same weights in those parts, so that
with one seed a difference between two systems is due to the systems.

A weight that several inputs enter side by side consists of one matrix for each input, U s + C^a c^a + C^b c^b; each
is a block of its columns with a name of its own, whatever stands beside it.

Axes: rows are outputs, columns inputs.
"""

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import sha256
from itertools import accumulate, pairwise

import torch
from torch import Tensor, nn

from interlinear.config import ModelConfig
from interlinear.models.recurrent.cells import Cell, LayerNorm, LayerNormLSTMCell, LSTMCell
from interlinear.models.recurrent.gates import SelectiveGate

STACKED_CELL = re.compile(r"(encoders\.\w+\.recurrent\.\w+\.\d+)\.layers\.(\d+)\.(words|gates|state)\.weight")
STACKED_MAPS = {"words": "ih", "gates": "hh", "state": "hh"}


@dataclass(frozen=True)
class Block:
    """A part of a weight, by rows and columns, that is one matrix of the equations; `name` seeds its values."""

    name: str
    rows: slice
    columns: slice


def draw_seed() -> int:
    """The seed of a model's initial weights: one number of torch's default generator."""
    return int(torch.randint(2**62, (), device="cpu"))


def seed_of(seed: int, name: str) -> int:
    """The seed of one part's values, of 63 bits."""
    return int.from_bytes(sha256(f"{seed} {name}".encode()).digest()[:8], "big") >> 1


@torch.no_grad()
def initialize(
    model: nn.Module, config: ModelConfig, seed: int, embeddings: Sequence[nn.Embedding], networks: Sequence[nn.Module]
) -> None:
    """Draw all weights of a model as `initialization` says, except those of the image `networks`, and the gains and
    biases of layer normalisation, which are 1 and 0.

    xavier: Glorot uniform for each matrix of the equations, zero biases, open forget and selective gates. uniform: one
    uniform distribution for all parameters (Wu et al. 2018). orthogonal: orthogonal recurrent weights, zero biases, a
    normal distribution for the rest (Meng et al. 2016).
    """
    norms = [module for module in model.modules() if isinstance(module, LayerNorm)]
    initialised = {id(weight) for module in (*networks, *norms) for weight in module.parameters()}
    rows_are_words = {id(words.weight) for words in embeddings} | {id(model.get_submodule("output").weight)}
    blocks = blocks_of(config)
    for name, parameter in model.named_parameters():
        if id(parameter) in initialised:
            continue
        for block in blocks.get(name) or [Block(shared_name(config, name), slice(None), slice(None))]:
            values = parameter[block.rows, block.columns] if parameter.dim() > 1 else parameter
            if values.numel():
                generator = torch.Generator().manual_seed(seed_of(seed, block.name))
                draw(values, config, generator, id(parameter) in rows_are_words)
    if config.initialization == "xavier":
        open_gates(model)
    elif config.initialization == "orthogonal":
        orthogonalize(model, config.hidden, seed)
    for words in embeddings:
        if words.padding_idx is not None:
            words.weight[words.padding_idx] = 0


def draw(values: Tensor, config: ModelConfig, generator: torch.Generator, rows_are_words: bool) -> None:
    """Draw the values of one matrix or bias in place."""
    kind, scale = config.initialization, config.initialization_scale
    if kind == "uniform":
        nn.init.uniform_(values, -(scale or 0.05), scale or 0.05, generator=generator)
    elif values.dim() == 1:
        nn.init.zeros_(values)
    elif kind == "orthogonal":
        nn.init.normal_(values, std=scale or 0.01, generator=generator)
    elif rows_are_words:  # Glorot's fan is the vocabulary size, which gives too small values
        nn.init.normal_(values, std=1 / math.sqrt(values.shape[1]), generator=generator)
    else:
        nn.init.xavier_uniform_(values, generator=generator)


def shared_name(config: ModelConfig, name: str) -> str:
    """The name under which a parameter is drawn: the same for the same part of different systems."""
    if config.combination == "none":  # the attention over a single source is that over this one of several
        source = next(iter(config.sources))
        name = name.replace("decoder.attention.", f"decoder.combination.attentions.{source}.")
    if config.layer_norm:
        name = name.replace("decoder.opening.state.", "decoder.opening.gates.")
    if config.cell == "lstm":  # an encoder's cells, in the place of torch's layers, whose gates have the same order
        name = STACKED_CELL.sub(lambda found: f"{found[1]}.weight_{STACKED_MAPS[found[3]]}_l{found[2]}", name)
    return name.replace(".map.weight", ".weight")


def blocks_of(config: ModelConfig) -> dict[str, list[Block]]:
    """The blocks of the decoder's weights that several inputs enter, by parameter name.

    With contextual gates the contexts' matrices are rows of the gate's weights: those of the cell, then its own.
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
        # How many gates a map has; those of a GRU and its candidate are separate maps.
        maps = {"gates": LSTMCell.gates_count} if config.cell == "lstm" else {"gates": 2, "candidate_inputs": 1}
        of_cell = [(f"{cell}.{name}", count * hidden) for name, count in maps.items()]
        if config.layer_norm:  # the same matrices, those of what enters above each other
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


def columns(owner: str, inputs: Sequence[tuple[str, int]]) -> list[Block]:
    """Blocks of columns, one for each input of a name and a size."""
    bounds = pairwise(accumulate((size for _, size in inputs), initial=0))
    return [
        Block(f"{owner}.weight, {name}", slice(None), slice(first, last))
        for (name, _), (first, last) in zip(inputs, bounds, strict=True)
    ]


def rows_and_columns(outputs: Sequence[tuple[str, int]], inputs: Sequence[tuple[str, int]]) -> list[Block]:
    """Blocks of a weight with the rows of several maps, one for each map and input, each with a name and a size."""
    bounds = pairwise(accumulate((size for _, size in outputs), initial=0))
    return [
        Block(block.name, slice(first, last), block.columns)
        for (owner, _), (first, last) in zip(outputs, bounds, strict=True)
        for block in columns(owner, inputs)
    ]


def context_sizes(config: ModelConfig) -> list[tuple[str, int]]:
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
