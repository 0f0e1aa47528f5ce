"""Images that belong to lines of text: where they are stored, and how they are loaded for a model."""

import random
from collections.abc import Callable, Iterator, Sequence
from itertools import count
from pathlib import Path

import numpy as np

from interlinear.config import ImageGrid
from interlinear.errors import RequestError, UsageError
from interlinear.images.decode import SUFFIXES, decode_image
from training.data.dataset import Dataset
from training.data.images.images import SplitImages

ImageLoader = Callable[[ImageGrid], np.ndarray]  # loads an image as the model's input; raises RequestError


def file_image(path: Path) -> ImageLoader:
    """Loader of an image in its own file."""

    def read(grid: ImageGrid) -> np.ndarray:
        if grid.network is None:
            raise RequestError(
                str(path),
                "the model reads features of regions, and not pixels",
                f"make them as its data were made ({grid.made_by or 'not stated'}), and name a data set that has them",
            )
        try:
            data = path.read_bytes()
        except OSError as error:
            raise RequestError(str(path), f"cannot be read: {error.strerror}") from None
        return decode_image(data, grid.network.size, str(path))

    return read


def numbered_images(folder: Path) -> Iterator[ImageLoader | None]:
    """The image loader of each line, 1, 2, ... without end; None for a line without an image."""
    files = {path.name.lower(): path for path in folder.iterdir() if path.is_file()}
    for number in count(1):
        paths = (files.get(f"{number}{suffix}") for suffix in SUFFIXES)
        yield next((file_image(path) for path in paths if path), None)


def dataset_images(dataset: Dataset, split: str, field: str, lines: Sequence[int]) -> list[ImageLoader | None]:
    """The images of a split's lines, counted from 0. Raises DataError for a missing field or an invalid index."""
    pictures = SplitImages(dataset.image(split, field))

    def loader(line: int) -> ImageLoader:
        def load(grid: ImageGrid) -> np.ndarray:
            pixels = pictures.reader_for(grid)(line)
            assert pixels is not None  # the index contains the line
            return pixels

        return load

    return [loader(line) if line in pictures.entries else None for line in lines]


def shuffle_images(pictures: Sequence[ImageLoader | None], seed: int) -> list[ImageLoader | None]:
    """A random cyclic permutation of the images among the lines that have one, so that none keeps its own (Sattolo
    1986).

    Raises UsageError if fewer than two lines have an image.
    """
    positions = [position for position, picture in enumerate(pictures) if picture]
    if len(positions) < 2:
        raise UsageError("--shuffle-images", f"{len(positions)} lines have a picture", "two at least are needed")
    rng, permuted = random.Random(seed), list(positions)
    for last in range(len(permuted) - 1, 0, -1):
        other = rng.randrange(last)
        permuted[last], permuted[other] = permuted[other], permuted[last]
    result = list(pictures)
    for position, other in zip(positions, permuted, strict=True):
        result[position] = pictures[other]
    return result
