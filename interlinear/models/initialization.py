"""Initial weights of a model. Each matrix of the equations is drawn from a random stream of its own, which is seeded by
the model's seed and the matrix's name: systems that share parts begin with the same weights in those parts, so that
with one seed a difference between two systems is due to the systems.

A weight of concatenated inputs consists of one matrix for each input, U s + C^a c^a + C^b c^b; each is a block of the
weight's columns, whose name does not depend on the other blocks.

Axes: rows are outputs, columns inputs.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from hashlib import sha256
from itertools import accumulate, pairwise

import torch
from torch import Tensor, nn

from interlinear.config import ModelConfig
from interlinear.models.layers.layer_norm import LayerNorm


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


Matrices = Callable[[str], list[Block]]  # the matrices of a parameter, by its name


def whole(name: str) -> list[Block]:
    """A parameter that is one matrix or vector of the equations."""
    return [Block(name, slice(None), slice(None))]


@torch.no_grad()
def initialize(
    model: nn.Module,
    config: ModelConfig,
    seed: int,
    matrices: Matrices,
    embeddings: Sequence[nn.Embedding],
    networks: Sequence[nn.Module],
) -> None:
    """Draw all weights of a model as `initialization` says, except the weights of the image `networks`, and the gains
    and biases of layer normalisation, which are 1 and 0.

    xavier: Glorot uniform for each matrix of the equations, zero biases. uniform: one uniform distribution for all
    parameters (Wu et al. 2018). orthogonal: a normal distribution (Meng et al. 2016).
    """
    norms = [module for module in model.modules() if isinstance(module, LayerNorm)]
    initialised = {id(weight) for module in (*networks, *norms) for weight in module.parameters()}
    rows_are_words = {id(words.weight) for words in embeddings} | {id(model.get_submodule("output").weight)}
    for name, parameter in model.named_parameters():
        if id(parameter) in initialised:
            continue
        for block in matrices(name):
            values = parameter[block.rows, block.columns] if parameter.dim() > 1 else parameter
            if values.numel():
                generator = torch.Generator().manual_seed(seed_of(seed, block.name))
                draw(values, config, generator, id(parameter) in rows_are_words)
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
