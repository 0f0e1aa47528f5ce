"""ResNet-50, whose published weights can be loaded.

Axes: B images, S pixels a side, C channels, H x W regions.
"""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from interlinear.components import IMAGE_NETWORKS
from interlinear.config import ImageNetwork
from interlinear.models.image_encoders.networks import ImageNetworkBase


@IMAGE_NETWORKS.register("resnet50")
class ResNet50(ImageNetworkBase):
    """ResNet-50 (He et al. 2016) up to its last feature map, with torchvision's parameter names, to load its weights.

    The stride is in a block's 3 x 3 convolution ("v1.5"). The scale of a block's last normalization is initialized to
    0, so that the residual branch starts as zero.
    """

    stride, features = 32, 2048

    def __init__(self, config: ImageNetwork) -> None:
        super().__init__(config)
        self.conv1 = nn.Conv2d(3, 64, 7, stride=2, padding=3, bias=False)
        self.bn1 = FrozenBatchNorm(64)
        self.layer1 = stage(64, 64, 3, stride=1)
        self.layer2 = stage(256, 128, 4, stride=2)
        self.layer3 = stage(512, 256, 6, stride=2)
        self.layer4 = stage(1024, 512, 3, stride=2)

    def maps(self, colours_BCSS: Tensor) -> Tensor:
        maps = F.relu(self.bn1(self.conv1(colours_BCSS)))
        maps = F.max_pool2d(maps, 3, stride=2, padding=1)
        return self.layer4(self.layer3(self.layer2(self.layer1(maps))))  # type: ignore[no-any-return]


def stage(above: int, width: int, blocks: int, stride: int) -> nn.Sequential:
    """Blocks at one resolution; the first block applies the stride and the change of width."""
    first = Bottleneck(above, width, stride, widened=True)
    return nn.Sequential(first, *(Bottleneck(4 * width, width, 1, widened=False) for _ in range(blocks - 1)))


class Bottleneck(nn.Module):
    """y = relu(x + f(x)), f three convolutions: 1 x 1 down to `width`, 3 x 3, and 1 x 1 up to 4 `width`."""

    def __init__(self, above: int, width: int, stride: int, widened: bool) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(above, width, 1, bias=False)
        self.bn1 = FrozenBatchNorm(width)
        self.conv2 = nn.Conv2d(width, width, 3, stride=stride, padding=1, bias=False)
        self.bn2 = FrozenBatchNorm(width)
        self.conv3 = nn.Conv2d(width, 4 * width, 1, bias=False)
        self.bn3 = FrozenBatchNorm(4 * width, scale=0.0)
        if widened:
            self.downsample = nn.Sequential(
                nn.Conv2d(above, 4 * width, 1, stride=stride, bias=False), FrozenBatchNorm(4 * width)
            )
        self.widened = widened

    def forward(self, x: Tensor) -> Tensor:
        y = F.relu(self.bn1(self.conv1(x)))
        y = F.relu(self.bn2(self.conv2(y)))
        return F.relu(self.bn3(self.conv3(y)) + (self.downsample(x) if self.widened else x))


class FrozenBatchNorm(nn.Module):
    """Batch normalization with the fixed statistics of the loaded weights, never with a batch's statistics.

    The statistics are parameters without gradient, so they are copied and stored wherever the parameters are.
    """

    def __init__(self, channels: int, scale: float = 1.0) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.full((channels,), scale))
        self.bias = nn.Parameter(torch.zeros(channels))
        self.running_mean = nn.Parameter(torch.zeros(channels), requires_grad=False)
        self.running_var = nn.Parameter(torch.ones(channels), requires_grad=False)

    def forward(self, maps_BCHW: Tensor) -> Tensor:
        return F.batch_norm(maps_BCHW, self.running_mean, self.running_var, self.weight, self.bias, eps=1e-5)
