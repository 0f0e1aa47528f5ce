"""GNMT's coverage penalty (Wu et al. 2016, equation 14): a penalty on source words with little attention.

Axes: N sentences in the table (rows), K hypotheses of each, T source positions.
"""

from dataclasses import dataclass, replace
from typing import ClassVar, Self

import torch
from torch import Tensor

from interlinear.search.options import SearchRequest
from interlinear.search.processors.processor import POSITIONS, NewRows, Processor, Step, Written


@dataclass(frozen=True)
class CoveragePenalty(Processor):
    """beta * sum_j log(min(coverage_j, 1)) is added to the score of an output, where coverage_j is the sum of attention
    weights on source position j."""

    axes: ClassVar = {"coverage_NKT": (2, POSITIONS, 0.0)}
    compiled = False  # it is rare

    coverage_NKT: Tensor
    beta_N: Tensor

    @classmethod
    def wanted(cls, request: SearchRequest) -> bool:
        return bool(request.options.coverage_penalty)

    @classmethod
    def start(cls, new: NewRows) -> Self:
        beta_N = torch.tensor([request.options.coverage_penalty for request in new.requests], dtype=new.dtype)
        return cls(new.zeros(new.hypotheses, 0, dtype=new.dtype), beta_N)

    def observe(self, step: Step) -> Self:
        return replace(self, coverage_NKT=self.coverage_NKT + step.attention_weights.attention)

    def end_scores(self, final_NK: Tensor, step: Step) -> Tensor:
        real_N1T = ~step.memory.first.padding_BT[:, None]
        logs_NKT = self.coverage_NKT.clamp(1e-6, 1.0).log() * real_N1T
        return final_NK + self.beta_N[:, None] * logs_NKT.sum(-1)

    def advance(self, written: Written) -> Self:
        return replace(self, coverage_NKT=written.of_parents(self.coverage_NKT))
