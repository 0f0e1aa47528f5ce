"""Guided attention: supervision of attention weights by given word alignments.

Axes: B sentences, L target positions, T source positions.
"""

import torch
from torch import Tensor

from interlinear.losses.forward_pass import ForwardPass
from interlinear.losses.loss import GuideLoss
from interlinear.models.attention_weights import STATES

GUIDED_KINDS = (STATES, "gated")  # kinds of attention weights that a guide supervises


def guide_loss(passed: ForwardPass) -> GuideLoss:
    """The loss of guided attention: on the attention over the first text's annotations at the step that outputs
    each word; with contextual gates the mean of it and of the same on the gated weights, o alpha + (1 - o) beta."""
    batch, config = passed.batch, passed.model.config
    assert batch.guide_BLT is not None
    present_B = batch.text(config.first_text).lengths_B > 0  # source dropout may drop it
    guide_BLT = batch.guide_BLT * present_B[:, None, None]
    matrices = passed.attention_weights.matrices(config.first_text)
    kinds = [matrices[kind][:, : passed.width] for kind in GUIDED_KINDS if kind in matrices]
    if config.has_one_softmax:
        kinds = [normalize(weights_BLT) for weights_BLT in kinds]
    losses = [guided_attention_loss(weights_BLT, guide_BLT) for weights_BLT in kinds]
    return GuideLoss(torch.stack([loss.nats for loss in losses]).mean(), losses[0].words)


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
