"""Memory update of interactive attention: the decoder changes the annotations that it attends to (Meng et al. 2016,
equations 10, 12, 13).

Axes: B sentences, K hypotheses of each, T source positions, H state, D annotation.
"""

import torch
from torch import Tensor, nn

from interlinear.models.layers.step_linear import StepInputs, StepLinear


class MemoryUpdate(nn.Module):
    """FORGET, then UPDATE, at every source position in proportion to its attention weight.

    F = sigmoid(W_F s)      h~_j = h_j * (1 - w_j F)
    U = sigmoid(W_U s)      h'_j = h~_j + w_j U
    """

    def __init__(self, state: int, annotation: int) -> None:
        super().__init__()
        self.forget = StepLinear(state, annotation)
        self.update = StepLinear(state, annotation)

    def forward(self, step: StepInputs, hidden_BKH: Tensor, weights_BKT: Tensor, annotations_BKTD: Tensor) -> Tensor:
        """The annotations after this step, (B, K, T, D)."""
        forget_BK1D = torch.sigmoid(step(self.forget, hidden_BKH))[:, :, None]
        update_BK1D = torch.sigmoid(step(self.update, hidden_BKH))[:, :, None]
        weights_BKT1 = weights_BKT.to(annotations_BKTD.dtype)[..., None]
        # h (1 - wF) + wU = h + w (U - F h): one pass less over the (B, K, T, D) tensor
        return torch.addcmul(annotations_BKTD, weights_BKT1, update_BK1D - forget_BK1D * annotations_BKTD)
