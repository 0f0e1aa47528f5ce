"""Guided attention: supervision of attention weights by given word alignments.

Axes: B sentences, L target positions, T source positions.
"""

import torch
from torch import Tensor

from interlinear.losses.cross_entropy import GuideLoss


def guided_attention_loss(weights_BLT: Tensor, guide_BLT: Tensor) -> GuideLoss:
    """Cross-entropy of attention weights a and a guide g: - sum_j g_lj log a_lj, summed over all target positions.

    (Liu et al. 2016, supervised attention; Mi et al. 2016; Garg et al. 2019, equation 6.) A position's guide sums to 1,
    or to 0 where it has no links: it has no loss then, and no gradient.
    """
    log_BLT = torch.log(weights_BLT.clamp_min(torch.finfo(weights_BLT.dtype).tiny))  # of padding, and by underflow, 0
    guide_BLT = guide_BLT.to(log_BLT.dtype)
    return GuideLoss(-(guide_BLT * log_BLT).sum(), (guide_BLT > 0).any(-1).sum())


def normalize(weights_BLT: Tensor) -> Tensor:
    """The weights of one source among several in a softmax, divided by their sum."""
    return weights_BLT / weights_BLT.sum(-1, keepdim=True).clamp_min(torch.finfo(weights_BLT.dtype).tiny)
