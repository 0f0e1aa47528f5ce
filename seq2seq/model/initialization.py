"""Initial weights of a model. Each matrix of the equations is drawn from a random stream of its own, which is seeded by
the model's seed and the matrix's name: systems that share parts begin with the same weights in those parts, so that
with one seed a difference between two systems is due to the systems.

A weight that several inputs enter side by side consists of one matrix for each input, U s + C^a c^a + C^b c^b; each
is a block of its columns with a name of its own, whatever stands beside it.

Axes: rows are outputs, columns inputs.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import sha256
from itertools import accumulate, pairwise

import torch
from torch import Tensor, nn

from seq2seq.config import ModelConfig
from seq2seq.layers.cells import Cell, LSTMCell
from seq2seq.layers.gates import SelectiveGate


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
    """Draw all weights of a model as `initialization` says, except those of the image `networks`.

    xavier: Glorot uniform for each matrix of the equations, zero biases, open forget and selective gates. uniform: one
    uniform distribution for all parameters (Wu et al. 2018). orthogonal: orthogonal recurrent weights, zero biases, a
    normal distribution for the rest (Meng et al. 2016).
    """
    initialised = {id(weight) for network in networks for weight in network.parameters()}
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
        cell = f"decoder.cells.{layer}"
        # How many gates a map has; those of a GRU and its candidate are separate maps.
        maps = {"gates": LSTMCell.gates_count} if config.cell == "lstm" else {"gates": 2, "candidate_inputs": 1}
        for name in maps:
            state = [("state", hidden)] if name == "gates" else []
            blocks[f"{cell}.{name}.weight"] = columns(f"{cell}.{name}", [*below, *beside, *state])
        if config.contextual_gates:
            gate = f"decoder.gates.{layer}"
            blocks[f"{gate}.state.weight"] = columns(f"{gate}.state", [*below, ("state", hidden)])
            entering = {"annotation_context": of_annotations, "word_context": [("words", config.embedding)]}
            for part, inputs in entering.items():
                rows = [*((f"{cell}.{name}", count * hidden) for name, count in maps.items()), (gate, hidden)]
                bounds = pairwise(accumulate((count for _, count in rows), initial=0))
                blocks[f"{gate}.{part}.weight"] = [
                    Block(block.name, slice(first, last), block.columns)
                    for (owner, _), (first, last) in zip(rows, bounds, strict=True)
                    for block in columns(owner, inputs)
                ]
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


def context_sizes(config: ModelConfig) -> list[tuple[str, int]]:
    """The contexts that the decoder concatenates, in their order."""
    if config.combination in ("none", "concat"):
        sizes = [(f"context of {name}", config.annotation) for name in config.sources]
    else:
        sizes = [("combined context", config.combined_size)]
    return [*sizes, ("words", config.embedding)] if config.word_attention else sizes


def open_gates(model: nn.Module) -> None:
    """Sets the forget bias of every LSTM to 1, and the bias of selective gates so that they start open."""
    for module in model.modules():
        if isinstance(module, LSTMCell):
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
