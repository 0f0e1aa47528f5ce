"""Attention over one source: energies, masked softmax and contexts.

A tensor's name ends in its axes. B sentences, K hypotheses of each, T source positions, A attention size, H query size,
D value size, C coverage size: `keys_BTA` is (B, T, A). Where the decoder updates the memory, keys and values differ by
hypothesis: (B, K, T, A) and (B, K, T, D).
"""

from abc import ABC, abstractmethod
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from interlinear.components import ATTENTIONS
from interlinear.models.layers.step_linear import StepInputs, StepLinear, at_least_fp32, product_dtype


class Attention(nn.Module, ABC):
    """Energies of a query and the positions of a source; `ATTENTIONS` has the subclasses by their names in a config.

    A subclass takes four sizes: of queries, of values, of an energy's hidden layer, and of coverage (0 without).
    """

    is_additive = False  # whether the energy is a sum, in which coverage and the terms of several sources take part

    @abstractmethod
    def keys(self, values: Tensor) -> Tensor:
        """Keys of values, (B, [K,] T, D) -> (B, [K,] T, A), once per sentence."""

    @abstractmethod
    def energies(self, step: StepInputs, query_BKH: Tensor, keys: Tensor, *coverage_BKTC: Tensor) -> Tensor:
        """e_ij, (B, K, T), with one coverage or none."""


class KeyProjection(Attention):
    """An attention that projects each value to its key with the linear map `key`."""

    key: nn.Linear

    def keys(self, values: Tensor) -> Tensor:
        keys: Tensor = self.key(values.to(product_dtype(self.key.weight)))
        return keys


@ATTENTIONS.register("additive")
class AdditiveAttention(KeyProjection):
    """Additive attention (Bahdanau et al. 2015; Wu et al. 2018, equations 1-4).

        e_ij = v . tanh(W s_i + U h_j)      alpha_i = softmax(e_i)      c_i = sum_j alpha_ij h_j

    The keys U h_j do not change while a sentence is decoded: they are computed once, and all hypotheses share them.
    With coverage, V C_ij is added inside the tanh (Tu et al. 2016, section 3.1).
    """

    is_additive = True

    def __init__(self, query_size: int, value_size: int, size: int, coverage_size: int = 0) -> None:
        super().__init__()
        self.query = StepLinear(query_size, size)
        self.key = nn.Linear(value_size, size)
        self.energy = nn.Linear(size, 1, bias=False)
        self.covered = nn.Linear(coverage_size, size, bias=False) if coverage_size else None

    def energies(self, step: StepInputs, query_BKH: Tensor, keys: Tensor, *coverage_BKTC: Tensor) -> Tensor:
        covered = [] if self.covered is None else [self.covered(coverage.to(keys.dtype)) for coverage in coverage_BKTC]
        return additive_energy(self.energy, step(self.query, query_BKH)[:, :, None], per_hypothesis(keys), *covered)


def additive_energy(energy: nn.Linear, *terms: Tensor) -> Tensor:
    """v . tanh(the sum of terms): terms (..., A) that broadcast -> (...)."""
    needs_gradient = torch.is_grad_enabled() and any(term.requires_grad for term in (*terms, energy.weight))
    if needs_gradient or terms[0].device.type != "cpu":
        product: Tensor = energy(fast_tanh(sum(terms[1:], terms[0])))
        return product.squeeze(-1)
    total = at_least_fp32(terms[0]) + at_least_fp32(sum(terms[2:], terms[1]))
    # The compiler's tanh for a CPU takes twice as long as a tanh by exponentials.
    tanh = 1 - 2 / ((2 * total).exp() + 1) if torch.compiler.is_compiling() else total.tanh_()
    return F.linear(tanh, energy.weight.to(total.dtype)).squeeze(-1)


def fast_tanh(x: Tensor) -> Tensor:
    """tanh. torch's own in bf16 takes a CPU three times as long as this one, which is computed in fp32."""
    if x.device.type != "cpu" or x.dtype != torch.bfloat16:
        return torch.tanh(x)
    y: Tensor = _TanhInFp32.apply(x)
    return y


class _TanhInFp32(torch.autograd.Function):
    """tanh of bf16 values computed in fp32; like torch's own, it keeps its rounded values for backward."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        y = x.float().tanh_().to(x.dtype)
        ctx.save_for_backward(y)
        return y

    @staticmethod
    def backward(ctx: Any, *upstream: Tensor) -> Tensor:
        gradient: Tensor = torch.ops.aten.tanh_backward(upstream[0], *ctx.saved_tensors)
        return gradient


@ATTENTIONS.register("bilinear")
class BilinearAttention(KeyProjection):
    """Bilinear attention, Luong et al.'s "general" (Kiyono et al. 2018, equations 7 and 8).

        e_ij = h_j . W s_i                  alpha_i = softmax(e_i)      c_i = sum_j alpha_ij h_j

    The keys are W' h_j, so a step only multiplies them by the query.
    """

    def __init__(self, query_size: int, value_size: int, size: int, coverage_size: int = 0) -> None:
        super().__init__()
        self.key = nn.Linear(value_size, query_size, bias=False)

    def energies(self, step: StepInputs, query_BKH: Tensor, keys: Tensor, *coverage_BKTC: Tensor) -> Tensor:
        query_BKH = query_BKH.to(keys.dtype)
        if keys.dim() == 3:
            return query_BKH @ keys.mT
        return (keys @ query_BKH[..., None]).squeeze(-1)


def context(weights_BKT: Tensor, values: Tensor) -> Tensor:
    """The context of each hypothesis, sum_j alpha_j h_j: (B, K, D)."""
    weights_BKT = weights_BKT.to(values.dtype)
    if values.dim() == 3:
        return weights_BKT @ values
    return (weights_BKT[:, :, None] @ values).squeeze(2)


def masked_softmax(energy_BKT: Tensor, padding_BT: Tensor) -> Tensor:
    """Attention weights (B, K, T): softmax over real positions, in at least fp32; padding gets exactly 0."""
    energy_BKT = energy_BKT.masked_fill(padding_BT[:, None], -torch.inf)
    return torch.softmax(energy_BKT, dim=-1, dtype=torch.promote_types(energy_BKT.dtype, torch.float32))


def masked_softmax_where_present(energy_BKT: Tensor, masked_BT: Tensor, absent_B1: Tensor) -> Tensor:
    """Softmax over real positions; zeros for an absent source, for which `masked_BT` is False everywhere."""
    return masked_softmax(energy_BKT, masked_BT) * ~absent_B1[:, None]


def per_hypothesis(values: Tensor) -> Tensor:
    """Adds a hypothesis axis that broadcasts, (B, T, D) -> (B, 1, T, D), where the values do not have one."""
    return values[:, None] if values.dim() == 3 else values
