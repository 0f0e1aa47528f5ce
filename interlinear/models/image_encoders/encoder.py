"""Annotations of images: a projection of the features of their regions.

Axes: B sentences, N images that are present, T regions, F features of a region, D annotation size.
"""

import torch
from torch import Tensor, nn

from interlinear.batch import ImageInput, positions
from interlinear.config import ImageGrid, ModelConfig
from interlinear.models.image_encoders.networks import build_network
from interlinear.models.protocol import EncoderOutput, masked_mean


class ImageEncoder(nn.Module):
    """A linear projection of each image region's features, regions in row order; the summary is their mean.

    The features are inputs, or a convolutional network computes them from pixels, for the images that are present.
    """

    def __init__(self, config: ModelConfig, grid: ImageGrid) -> None:
        super().__init__()
        self.grid = grid
        self.network = None if grid.network is None else build_network(grid.network)
        self.frozen = grid.network is not None and grid.network.frozen
        self.projection = nn.Linear(grid.features, config.annotation)

    def forward(self, image: ImageInput) -> EncoderOutput:
        states_BTD: Tensor = self.projection(self.features(image))
        position_T = torch.arange(self.grid.regions, device=states_BTD.device)
        padding_BT = position_T >= image.lengths_B[:, None]
        return EncoderOutput(states_BTD, masked_mean(states_BTD, padding_BT), padding_BT)

    def features(self, image: ImageInput) -> Tensor:
        """Region features, (B, T, F); zeros for an absent image."""
        if self.network is None:
            return image.values.to(self.projection.weight.dtype)
        gradients = torch.is_grad_enabled() and not self.frozen
        if image.lengths is None:
            with torch.set_grad_enabled(gradients):
                features_BTF: Tensor = self.network(image.values)
            return features_BTF.masked_fill((image.lengths_B == 0)[:, None, None], 0.0)
        nothing = self.projection.weight.new_zeros(len(image.lengths), self.grid.regions, self.grid.features)
        present_N = positions([0] * len(image.lengths), image.lengths, 1, nothing.device)
        if not len(present_N):
            return nothing
        with torch.set_grad_enabled(gradients):
            features_NTF = self.network(image.values.index_select(0, present_N))
        return nothing.to(features_NTF.dtype).index_copy(0, present_N, features_NTF)
