"""Images as a model's input: read from files, blank where a sentence has none, and checked."""

import numpy as np

from seq2seq.config import ImageGrid
from seq2seq.errors import RequestError
from seq2seq.images.decode import decode_image


def read_image(grid: ImageGrid, data: bytes, where: str = "image") -> np.ndarray:
    """Decode an image file's bytes to the pixels that a model reads.

    Raises ImageError for an invalid image, RequestError for a model without network, which reads only features.
    """
    if grid.network is None:
        raise RequestError(
            where, f"the model has no network for pixels: it reads {grid}", "give it features made by the same network"
        )
    return decode_image(data, grid.network.size, where)


def blank_image(grid: ImageGrid) -> np.ndarray:
    """An image of zeros with the shape and dtype that a model reads."""
    if grid.network is None:
        return np.zeros((grid.regions, grid.features), np.float32)
    return np.zeros((grid.network.size, grid.network.size, 3), np.uint8)


def check_image_shape(name: str, image: np.ndarray, grid: ImageGrid) -> None:
    """Raise RequestError for an image whose shape or dtype is not what the model reads."""
    expected = blank_image(grid)
    if (image.shape, image.dtype) != (expected.shape, expected.dtype):
        shape = " x ".join(map(str, image.shape))
        raise RequestError(name, f"the image is {shape} of {image.dtype}, and the model reads {grid}")
