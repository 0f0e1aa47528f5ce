"""The loss of a batch, and the sums that training reports."""

from dataclasses import dataclass

import torch
from torch import Tensor

SUMS = 4  # the maximum length of `Loss.sums`


@dataclass(frozen=True)
class GuideLoss:
    """The cross-entropy of attention and a guide in nats, summed over the target positions with links: `words`."""

    nats: Tensor
    words: Tensor


@dataclass(frozen=True)
class Loss:
    """Sums over target positions: the objective to minimise, and the plain negative log-likelihood in nats.

    guide: the loss of guided attention, unweighted, where attention is guided; the objective has it weighted.
    gate: the contextual gates' values, averaged over their dimensions and layers; in evaluation only.
    """

    objective: Tensor
    nats: Tensor
    guide: GuideLoss | None = None
    gate: Tensor | None = None

    def sums(self) -> Tensor:  # at most SUMS
        """The sums that are reported, without gradients: objective and nats, and with a guide its nats and words."""
        guide = [] if self.guide is None else [self.guide.nats.detach(), self.guide.words.to(self.nats.dtype)]
        return torch.stack([self.objective.detach(), self.nats, *guide])
