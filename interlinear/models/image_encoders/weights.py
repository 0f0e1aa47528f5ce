"""Weights of an image network from a file."""

from collections.abc import Callable, Mapping
from pathlib import Path

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor

from interlinear.errors import DataError
from interlinear.models.image_encoders.networks import ImageNetworkBase

IGNORED = ("fc.", "num_batches_tracked")  # the classifier, and batch normalization's counter, used only in training


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
