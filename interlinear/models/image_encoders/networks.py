"""Networks that compute the features of an image's regions from its pixels.

Axes: B images, S pixels a side, C channels, H x W regions, T = H W regions in row-major order, F features of each.
"""

from abc import ABC, abstractmethod
from itertools import pairwise
from typing import ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from interlinear.components import IMAGE_NETWORKS
from interlinear.config import ImageNetwork


def grid_shape(config: ImageNetwork) -> tuple[int, int, int]:
    """Rows, columns and features of a network's output.

    A side that is no multiple of the stride is rounded up; the last regions then extend over the edge into padding.
    """
    network = IMAGE_NETWORKS[config.kind]
    side = -(-config.size // network.stride)
    return side, side, network.features


def build_network(config: ImageNetwork) -> "ImageNetworkBase":
    """Build a network with initial weights; a frozen one has no trainable parameters."""
    network: ImageNetworkBase = IMAGE_NETWORKS[config.kind](config)
    if config.frozen:
        network.requires_grad_(False)
    return network


class ImageNetworkBase(nn.Module, ABC):
    """Maps pixels (B, S, S, 3) of 0 to 255 to regions (B, T, F), independent of the other images in the batch.

    `IMAGE_NETWORKS` has the subclasses by their names in a config.

    stride: pixels a side of a region. features: of a region. colour_mean, colour_deviation: mean and deviation of red,
    green and blue (0 to 1) in the pictures that its weights were trained on; by default ImageNet's, as for the
    published weights.
    """

    stride: ClassVar[int]
    features: ClassVar[int]
    colour_mean: ClassVar[tuple[float, float, float]] = (0.485, 0.456, 0.406)
    colour_deviation: ClassVar[tuple[float, float, float]] = (0.229, 0.224, 0.225)
    mean: Tensor
    deviation: Tensor

    def __init__(self, config: ImageNetwork) -> None:
        super().__init__()
        self.rows, self.columns, _ = grid_shape(config)
        self.register_buffer("mean", torch.tensor(self.colour_mean), persistent=False)
        self.register_buffer("deviation", torch.tensor(self.colour_deviation), persistent=False)

    def forward(self, pixels_BSS3: Tensor) -> Tensor:
        """Regions in row-major order, (B, T, F), in the dtype of the weights."""
        colours_BSS3 = ((pixels_BSS3.float() / 255 - self.mean) / self.deviation).to(self.weight_dtype)
        maps_BFHW = self.maps(colours_BSS3.permute(0, 3, 1, 2))  # channels last in memory: faster convolutions
        return maps_BFHW.permute(0, 2, 3, 1).flatten(1, 2)

    @abstractmethod
    def maps(self, colours_BCSS: Tensor) -> Tensor:
        """The last feature map, (B, F, H, W)."""

    @property
    def weight_dtype(self) -> torch.dtype:
        return next(self.parameters()).dtype


@IMAGE_NETWORKS.register("small")
class Small(ImageNetworkBase):
    """A small network to train on some thousand images: four convolutions of stride 2 and one residual block.

    Uses group normalization (Wu and He 2018), which is computed per image.
    """

    stride, features = 16, 128

    def __init__(self, config: ImageNetwork) -> None:
        super().__init__(config)
        channels = (16, 32, 64, self.features)
        self.downwards = nn.ModuleList([nn.Conv2d(3, channels[0], 5, stride=2, padding=2, bias=False)])
        for above, below in pairwise(channels):
            self.downwards.append(nn.Conv2d(above, below, 3, stride=2, padding=1, bias=False))
        self.norms = nn.ModuleList(nn.GroupNorm(8, below) for below in channels)
        self.block = nn.Conv2d(self.features, self.features, 3, padding=1, bias=False)
        self.block_norm = nn.GroupNorm(8, self.features)

    def maps(self, colours_BCSS: Tensor) -> Tensor:
        maps = colours_BCSS
        for downwards, norm in zip(self.downwards, self.norms, strict=True):
            maps = F.relu(norm(downwards(maps)))
        return F.relu(maps + self.block_norm(self.block(maps)))
