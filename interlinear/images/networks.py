"""Convolutional networks that compute region features from an image's pixels.

Axes: B images, S pixels a side, C channels, H x W regions, T = H W regions in row-major order, F features of each.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from itertools import pairwise
from pathlib import Path

import torch
import torch.nn.functional as F
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor, nn

from interlinear.config import ImageNetwork
from interlinear.errors import DataError

# Mean and standard deviation of ImageNet's red, green and blue, which the published ResNet weights expect.
MEAN, DEVIATION = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
STRIDE = {"small": 16, "resnet50": 32}
FEATURES = {"small": 128, "resnet50": 2048}
IGNORED = ("fc.", "num_batches_tracked")  # the classifier, and batch normalization's counter, used only in training


def grid_shape(config: ImageNetwork) -> tuple[int, int, int]:
    """Rows, columns and features of a network's output.

    A side that is no multiple of the stride is rounded up; the last regions then extend over the edge into padding.
    """
    side = -(-config.size // STRIDE[config.kind])
    return side, side, FEATURES[config.kind]


def build_network(config: ImageNetwork) -> "ImageNetworkBase":
    """Build a network with initial weights; a frozen one has no trainable parameters."""
    network = {"small": Small, "resnet50": ResNet50}[config.kind](config)
    if config.frozen:
        network.requires_grad_(False)
    return network


class ImageNetworkBase(nn.Module, ABC):
    """Maps pixels (B, S, S, 3) of 0 to 255 to regions (B, T, F), independent of the other images in the batch."""

    mean: Tensor
    deviation: Tensor

    def __init__(self, config: ImageNetwork) -> None:
        super().__init__()
        self.rows, self.columns, self.features = grid_shape(config)
        self.register_buffer("mean", torch.tensor(MEAN), persistent=False)
        self.register_buffer("deviation", torch.tensor(DEVIATION), persistent=False)

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


class Small(ImageNetworkBase):
    """A small network to train on some thousand images: four convolutions of stride 2 and one residual block.

    Uses group normalization (Wu and He 2018), which is computed per image.
    """

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


class ResNet50(ImageNetworkBase):
    """ResNet-50 (He et al. 2016) up to its last feature map, with torchvision's parameter names, to load its weights.

    The stride is in a block's 3 x 3 convolution ("v1.5"). The scale of a block's last normalization is initialized to
    0, so that the residual branch starts as zero.
    """

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
    """Batch normalization with the fixed statistics of the loaded weights, never those of a batch.

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


def load_weights(network: ImageNetworkBase, path: Path | str) -> None:
    """Load a network's weights from a safetensors file or a state dict saved by torch; a classifier is ignored.

    Raises DataError with the file and the first tensor that is missing, unexpected, or has another shape.
    """
    path = Path(path)
    loaded = {name: tensor for name, tensor in read_weights(path).items() if not is_ignored(name)}
    parameters = dict(network.named_parameters())
    remedy = f"give the weights of a {type(network).__name__.lower()} network"
    for name, parameter in parameters.items():
        if name not in loaded:
            raise DataError(str(path), f"has no tensor '{name}'", remedy)
        if loaded[name].shape != parameter.shape:
            shapes = f"{tuple(loaded[name].shape)} instead of {tuple(parameter.shape)}"
            raise DataError(str(path), f"the tensor '{name}' is {shapes}", remedy)
    if unexpected := sorted(loaded.keys() - parameters.keys()):
        raise DataError(str(path), f"has a tensor '{unexpected[0]}', which the network does not", remedy)
    with torch.no_grad():
        for name, parameter in parameters.items():
            parameter.copy_(loaded[name])


def is_ignored(name: str) -> bool:
    return name.startswith(IGNORED[0]) or name.endswith(IGNORED[1])


def read_weights(path: Path) -> Mapping[str, Tensor]:
    """Read a file's tensors by name without executing code from it. Raises DataError."""
    if not path.is_file():
        raise DataError(str(path), "there is no such file", "give the file of the network's weights")
    load: Callable[[Path], object] = load_file if path.suffix.lower() == ".safetensors" else load_state
    try:
        weights = load(path)
    except (SafetensorError, OSError) as error:
        raise DataError(str(path), f"the weights cannot be read ({error})", "copy the file again") from None
    except Exception:  # damaged or malicious pickles raise many kinds of errors
        remedy = "give a safetensors file, or a state dict that torch has saved"
        raise DataError(str(path), "is not a file of weights alone", remedy) from None
    if not isinstance(weights, Mapping) or not all(isinstance(tensor, Tensor) for tensor in weights.values()):
        raise DataError(str(path), "holds something else than tensors by name", "save the network's state_dict()")
    return weights


def load_state(path: Path) -> object:
    return torch.load(path, map_location="cpu", weights_only=True)
