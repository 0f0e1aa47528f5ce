"""Losses over a large vocabulary that never hold all its logits.

Axes: N target positions (of all sentences), R readout, V vocabulary.
"""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

CHUNK = 2**23  # logits that exist at once: 32 MiB in fp32


@dataclass(frozen=True)
class Loss:
    """Sums over target positions: what is minimised, and the plain negative log-likelihood, in nats."""

    objective: Tensor
    nats: Tensor


def cross_entropy(
    readouts_NR: Tensor, weight_VR: Tensor, bias_V: Tensor, targets_N: Tensor, smoothing: float = 0.0
) -> Loss:
    """Cross-entropy of softmax(W r + b) with label smoothing, summed.

    The smoothed target has 1 - smoothing on the right word and smoothing / V on every word (Szegedy et al. 2016).
    Logits are made in chunks of rows, each used at once for the loss and the gradients and then dropped, so that
    backward has nothing to compute again.
    """
    dtype = torch.get_autocast_dtype(device) if torch.is_autocast_enabled(device := readouts_NR.device.type) else None
    gradients = torch.is_grad_enabled()
    objective, nats = _ChunkedCrossEntropy.apply(
        readouts_NR, weight_VR, bias_V, targets_N, smoothing, dtype or weight_VR.dtype, gradients
    )
    return Loss(objective, nats)


class _ChunkedCrossEntropy(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, readouts: Tensor, weight: Tensor, bias: Tensor, targets: Tensor, smoothing: float,
        dtype: torch.dtype, gradients: bool,
    ) -> tuple[Tensor, Tensor]:  # fmt: skip
        weight_cast, size = weight.to(dtype), weight.shape[0]
        objective = readouts.new_zeros((), dtype=torch.promote_types(dtype, torch.float32))
        nats = torch.zeros_like(objective)
        d_readouts, d_weight, d_bias = torch.empty_like(readouts), torch.zeros_like(weight), torch.zeros_like(bias)
        rows = max(1, CHUNK // size)
        for start in range(0, readouts.shape[0], rows):
            chunk, target = readouts[start : start + rows].to(dtype), targets[start : start + rows, None]
            logits = torch.addmm(bias.to(dtype), chunk, weight_cast.t()).to(objective.dtype)
            normalizer = logits.logsumexp(1, keepdim=True)
            chosen = normalizer - logits.gather(1, target)
            nats += chosen.sum()
            objective += (1 - smoothing) * chosen.sum()
            if smoothing:
                objective += smoothing * (normalizer - logits.mean(1, keepdim=True)).sum()
            if gradients:  # softmax minus the smoothed target
                slope = logits.sub_(normalizer).exp_()
                if smoothing:
                    slope -= smoothing / size
                slope.scatter_add_(1, target, torch.full_like(target, smoothing - 1, dtype=slope.dtype))
                d_bias += slope.sum(0)
                slope = slope.to(dtype)
                d_readouts[start : start + rows] = slope @ weight_cast
                d_weight += slope.t() @ chunk
        ctx.save_for_backward(d_readouts, d_weight, d_bias)
        ctx.mark_non_differentiable(nats)
        return objective, nats

    @staticmethod
    def backward(ctx: Any, *upstream: Tensor) -> tuple[Tensor | None, ...]:
        return *(gradient * upstream[0] for gradient in ctx.saved_tensors), None, None, None, None
