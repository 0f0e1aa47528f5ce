"""Images in prepared data: decoded pixels or copied features, stored beside the ids of the prepared rows.

SPLIT.FIELD.values.npy      each image once: pixels (S, S, 3) uint8, or regions (T, F) in units of the scale
SPLIT.FIELD.places.npy      for each row, the index of its image in the values; -1: no image
"""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from pydantic import BaseModel, ConfigDict

from interlinear.batch import ImageInput
from interlinear.config import ImageGrid
from training.data.arrays import GrowingArray, memory_map
from training.data.images.images import SplitImages
from training.data.thread_pool import map_in_order

ImageForm = int | ImageGrid
"""How images are stored: as pixels, with this side length; or as precomputed features, a grid of regions."""


class StoredImagesRecord(BaseModel):
    """The number of distinct images of a split, the number of rows that have one, and the unit of the values."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    pictures: int
    rows: int
    scale: float = 1.0


class StoredImages:
    """The stored images of a split, memory-mapped."""

    def __init__(self, folder: Path, split: str, field: str, record: StoredImagesRecord) -> None:
        self.record = record
        self._values = memory_map(folder / image_values_file(split, field))
        self._image_indexes = memory_map(folder / image_indexes_file(split, field))

    def image_index(self, row: int) -> int:
        """The index of a row's image; -1: no image."""
        return int(self._image_indexes[row])

    def image(self, image_index: int) -> np.ndarray:
        """One image: pixels, or features in units of the scale."""
        return self._values[image_index]  # type: ignore[no-any-return]

    def model_input(self, row: int, grid: ImageGrid) -> np.ndarray | None:
        """A row's image as a model with this grid reads it: pixels, or features in float32; None if the row has no
        image."""
        image_index = self.image_index(row)
        if image_index < 0:
            return None
        image = self.image(image_index)
        return image if grid.network else image.astype(np.float32) * np.float32(self.record.scale)

    def batch(self, rows: np.ndarray, grid: ImageGrid) -> ImageInput:
        """The images of several rows, as a model with this grid reads them."""
        image_indexes_B = self._image_indexes[rows]
        (present,) = (image_indexes_B >= 0).nonzero()
        dtype = np.uint8 if grid.network else np.float32
        values = np.zeros((len(rows), *self._values.shape[1:]), dtype)
        values[present] = self._values[image_indexes_B[present]]
        if self.record.scale != 1.0:
            values *= np.float32(self.record.scale)
        lengths_B = np.where(image_indexes_B >= 0, grid.regions, 0)
        return ImageInput(torch.from_numpy(values), torch.from_numpy(lengths_B))


def image_values_file(split: str, field: str) -> str:
    return f"{split}.{field}.values.npy"


def image_indexes_file(split: str, field: str) -> str:
    return f"{split}.{field}.places.npy"


def write_images(
    split_images: SplitImages, form: ImageForm, lines: np.ndarray, folder: Path, split: str, step: Callable[[], None]
) -> StoredImagesRecord:
    """Write the images of the rows whose `lines` (from 0) were kept; `step` is called after each image.

    Several threads decode, and few images are in memory at a time. Raises DataError for a missing or damaged image.
    """
    field = split_images.field
    first_lines: dict[str, int] = {}  # each image's first line, in the order of storage
    numbers: dict[str, int] = {}
    image_indexes = np.full(len(lines), -1, np.int32)
    for row, line in enumerate(lines):
        member = split_images.member_name(int(line))
        if member is not None:
            first_lines.setdefault(member, int(line))
            image_indexes[row] = numbers.setdefault(member, len(numbers))
    np.save(folder / image_indexes_file(split, field.name), image_indexes)
    scale = 1.0
    if isinstance(form, int):
        shape: tuple[int, ...] = (form, form, 3)
        dtype = np.dtype(np.uint8)
        images = map_in_order(lambda line: split_images.pixels(line, form), first_lines.values())
    else:
        precomputed = split_images.precomputed
        shape, dtype, scale = precomputed.values_NTF.shape[1:], precomputed.values_NTF.dtype, precomputed.scale
        images = (precomputed.checked_row(split_images.entries[line].row) for line in first_lines.values())
    values = GrowingArray(folder / image_values_file(split, field.name), dtype, shape)
    for image in images:
        assert image is not None  # every line in `first_lines` has an image
        values.append(image[None])
        step()
    values.close()
    return StoredImagesRecord(pictures=len(first_lines), rows=int((image_indexes >= 0).sum()), scale=scale)
