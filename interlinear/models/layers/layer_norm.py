"""Layer normalisation (Ba et al. 2016)."""

from torch import Tensor, nn
from torch.nn import functional as F

from interlinear.models.layers.step_linear import at_least_fp32


class LayerNorm(nn.LayerNorm):
    """LN(x) = gain * (x - mean(x)) / sqrt(variance(x) + 1e-5) + bias over the last axis, in at least fp32.

    The untrained gain is 1 and the bias 0, whatever a recipe's `initialization` is.
    """

    def forward(self, x: Tensor) -> Tensor:
        gain, bias = at_least_fp32(self.weight), at_least_fp32(self.bias)
        return F.layer_norm(at_least_fp32(x), self.normalized_shape, gain, bias, self.eps)
