"""Losses over a large vocabulary that compute logits in chunks, so that only one chunk is in memory at a time.

Axes: N target positions (of all sentences), R readout, V vocabulary.
"""

from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from interlinear.devices import autocast_dtype
from interlinear.losses.loss import Loss

CHUNK = 2**23  # logits in memory at a time: 32 MiB in fp32
BLOCK = 2**18  # logits of a block that fits a core's cache: 1 MiB in fp32
ROWS = 64  # products in half precision on a CPU have a multiple of this number of rows


def chunk_rows(size: int, device: torch.device) -> tuple[int, int]:
    """The number of rows of a chunk and of a block, with `size` logits a row; at least one.

    Pointwise operations on a chunk's logits are done in blocks. On a CPU a block stays in the core's cache; elsewhere
    each block would be another few kernels to launch, so a chunk is one block.
    """
    rows = max(1, CHUNK // size)
    return rows, max(1, BLOCK // size) if device.type == "cpu" else rows


def with_zero_rows(rows_NR: Tensor) -> Tensor:
    """The rows, padded with zeros to a multiple of ROWS in half precision on a CPU.

    oneDNN compiles a kernel for each new shape of a product, which takes longer than the product, and nearly every
    batch has a different number of target tokens. A zero row adds nothing to the gradient of the weights.
    """
    missing = -len(rows_NR) % ROWS
    if not missing or rows_NR.device.type != "cpu" or rows_NR.dtype != torch.bfloat16:
        return rows_NR
    return F.pad(rows_NR, (0, 0, 0, missing))


def chunked_cross_entropy(
    readouts_NR: Tensor,
    weight_VR: Tensor,
    bias_V: Tensor,
    targets_N: Tensor,
    smoothing: float = 0.0,
    counted_N: Tensor | None = None,
) -> Loss:
    """Cross-entropy of softmax(W r + b) with label smoothing, summed over all rows, or over the rows that `counted_N`
    selects.

    The smoothed target has 1 - smoothing on the correct word, plus smoothing / V on every word (Szegedy et al. 2016).
    Logits are computed in chunks of rows; each chunk's loss and gradients are computed in the forward pass, so that
    backward recomputes nothing.
    """
    dtype = autocast_dtype(readouts_NR.device) or weight_VR.dtype
    gradients = torch.is_grad_enabled()
    objective, nats = _ChunkedCrossEntropy.apply(
        readouts_NR, weight_VR, bias_V, targets_N, smoothing, counted_N, dtype, gradients
    )
    return Loss(objective, nats)


class _ChunkedCrossEntropy(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, readouts: Tensor, weight: Tensor, bias: Tensor, targets: Tensor, smoothing: float,
        counted: Tensor | None, dtype: torch.dtype, gradients: bool,
    ) -> tuple[Tensor, Tensor]:  # fmt: skip
        weight_cast, bias_cast, size = weight.to(dtype), bias.to(dtype), weight.shape[0]
        nats = readouts.new_zeros((), dtype=torch.promote_types(dtype, torch.float32))
        uniform = torch.zeros_like(nats)
        d_readouts, d_weight, d_bias = torch.empty_like(readouts), torch.zeros_like(weight), torch.zeros_like(bias)
        rows, few = chunk_rows(size, readouts.device)
        for start in range(0, readouts.shape[0], rows):
            part = slice(start, start + rows)
            chunk, target = with_zero_rows(readouts[part].to(dtype)), targets[part, None]
            logits = F.linear(chunk, weight_cast, bias_cast)
            own = logits[: len(target)]
            excluded = None if counted is None else ~counted[part, None]
            for number, (block, words) in enumerate(zip(own.split(few), target.split(few), strict=True)):
                slope = torch.log_softmax(block.to(nats.dtype), 1)
                out = None if excluded is None else excluded[number * few : (number + 1) * few]
                if out is not None:  # log-probabilities of 0 add nothing to the sums
                    slope.masked_fill_(out, 0.0)
                chosen = slope.gather(1, words)
                nats -= chosen.sum()
                if smoothing:
                    uniform -= slope.sum() / size
                if gradients:  # softmax minus the smoothed target, overwrites the logits
                    slope = slope.exp_()
                    if smoothing:
                        slope -= smoothing / size
                    slope.scatter_add_(1, words, torch.full_like(chosen, smoothing - 1))
                    if out is not None:
                        slope.masked_fill_(out, 0.0)
                    d_bias += slope.sum(0)
                    block.copy_(slope)
            if gradients:
                d_readouts[part] = (logits @ weight_cast)[: len(target)]
                d_weight += logits.t() @ chunk
        objective = (1 - smoothing) * nats + smoothing * uniform
        ctx.save_for_backward(d_readouts, d_weight, d_bias)
        ctx.mark_non_differentiable(nats)
        return objective, nats

    @staticmethod
    def backward(ctx: Any, *upstream: Tensor) -> tuple[Tensor | None, ...]:
        return *(gradient * upstream[0] for gradient in ctx.saved_tensors), None, None, None, None, None


def log_likelihoods(readouts_NR: Tensor, weight_VR: Tensor, bias_V: Tensor, targets_N: Tensor) -> Tensor:
    """log softmax(W r + b) of each row's target, (N), for losses that weight rows by their likelihoods.

    The gradient of a row depends on the weights of all rows, so it cannot be computed in the forward pass as in
    `chunked_cross_entropy`: chunks of logits are dropped and recomputed in backward.
    """
    dtype = autocast_dtype(readouts_NR.device) or weight_VR.dtype
    chosen: Tensor = _ChunkedLogLikelihood.apply(readouts_NR, weight_VR, bias_V, targets_N, dtype)
    return chosen


class _ChunkedLogLikelihood(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, readouts: Tensor, weight: Tensor, bias: Tensor, targets: Tensor, dtype: torch.dtype
    ) -> Tensor:
        weight_cast, bias_cast, size = weight.to(dtype), bias.to(dtype), weight.shape[0]
        total = readouts.new_empty(readouts.shape[0], dtype=torch.promote_types(dtype, torch.float32))  # log sum exp
        chosen = torch.empty_like(total)
        rows, few = chunk_rows(size, readouts.device)
        for start in range(0, readouts.shape[0], rows):
            part = slice(start, start + rows)
            own = readouts[part].to(dtype)
            logits = F.linear(with_zero_rows(own), weight_cast, bias_cast)[: len(own)]
            columns = (column[part].split(few) for column in (targets[:, None], total, chosen))
            for block, words, normalizer, picked in zip(logits.split(few), *columns, strict=True):
                block = block.to(total.dtype)
                normalizer.copy_(torch.logsumexp(block, 1))
                picked.copy_(block.gather(1, words).squeeze(1) - normalizer)
        ctx.save_for_backward(readouts, weight, bias, targets, total)
        ctx.dtype = dtype
        return chosen

    @staticmethod
    def backward(ctx: Any, *upstream: Tensor) -> tuple[Tensor | None, ...]:
        readouts, weight, bias, targets, total = ctx.saved_tensors
        weight_cast, bias_cast, size = weight.to(ctx.dtype), bias.to(ctx.dtype), weight.shape[0]
        d_readouts, d_weight, d_bias = torch.empty_like(readouts), torch.zeros_like(weight), torch.zeros_like(bias)
        rows, few = chunk_rows(size, readouts.device)
        for start in range(0, readouts.shape[0], rows):
            part = slice(start, start + rows)
            words_N = targets[part]
            chunk = with_zero_rows(readouts[part].to(ctx.dtype))
            logits = F.linear(chunk, weight_cast, bias_cast)
            own = logits[: len(words_N)]
            columns = (column[part, None].split(few) for column in (targets, total, upstream[0]))
            for block, words, normalizer, slope in zip(own.split(few), *columns, strict=True):
                gradient = torch.exp(block.to(total.dtype) - normalizer).mul_(-slope)  # (target - softmax) x slope
                gradient.scatter_add_(1, words, slope)
                d_bias += gradient.sum(0)
                block.copy_(gradient)
            d_readouts[part] = (logits @ weight_cast)[: len(words_N)]
            d_weight += logits.t() @ chunk
        return d_readouts, d_weight, d_bias, None, None
