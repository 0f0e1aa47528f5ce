"""The decoder's first state: the state from which each layer's cell starts, by `first_state` of the config.

Axes: B sentences, S summary, H hidden.
"""

from typing import Protocol

import torch
from torch import Tensor, nn

from interlinear.models.layers.step_linear import at_least_fp32
from interlinear.models.memory import SUMMARY, Memory


class FirstState(Protocol):
    """A layer's first state, and the first memory of an LSTM, each (B, 1, H), in at least fp32."""

    def __call__(self, memory: Memory, layer: int) -> tuple[Tensor, Tensor]: ...


class ZeroState:
    """Zeros."""

    def __init__(self, hidden: int) -> None:
        self.hidden = hidden

    def __call__(self, memory: Memory, layer: int) -> tuple[Tensor, Tensor]:
        zero_B1H = at_least_fp32(memory.summaries[SUMMARY].new_zeros(memory.rows, 1, self.hidden))
        return zero_B1H, zero_B1H


class SummedStates:
    """States and memories of the encoder's layers, directions summed (Kiyono et al. 2018, section 2.1), in turn.

    leaves: their number a layer.
    """

    def __init__(self, hidden: int, leaves: int) -> None:
        self.hidden, self.leaves = hidden, leaves

    def __call__(self, memory: Memory, layer: int) -> tuple[Tensor, Tensor]:
        parts = memory.summaries[SUMMARY][:, None].split(self.hidden, -1)[layer * self.leaves :]
        return at_least_fp32(parts[0]), at_least_fp32(parts[self.leaves - 1])


class ProjectedSummary:
    """tanh(W . summary), of several sources W . summaries (Libovicky and Helcl 2017); a memory of zeros."""

    def __init__(self, maps: nn.ModuleList, sources: int) -> None:
        self.maps, self.sources = maps, sources

    def __call__(self, memory: Memory, layer: int) -> tuple[Tensor, Tensor]:
        hidden_B1H: Tensor = self.maps[layer](memory.summaries[SUMMARY][:, None])
        hidden_B1H = torch.tanh(hidden_B1H) if self.sources == 1 else hidden_B1H
        return at_least_fp32(hidden_B1H), at_least_fp32(torch.zeros_like(hidden_B1H))
