"""Pictures made ready once: decoded, or their features copied, beside the ids of the prepared rows.

SPLIT.FIELD.values.npy      each picture once: pixels (S, S, 3) uint8, or regions (T, F) in units of the scale
SPLIT.FIELD.places.npy      for each row, which of them is its; -1: it has none
"""

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
from pydantic import BaseModel, ConfigDict

from seq2seq.batch import ImageInput, stack_images
from seq2seq.config import ImageGrid
from training.data.arrays import GrowingArray, memory_map
from training.data.images.images import SplitImages
from training.data.thread_pool import map_in_order

ImageForm = int | ImageGrid
"""What is stored of a picture: its pixels, so many a side; or the features that are given, a grid of regions."""


class StoredImagesRecord(BaseModel):
    """How many pictures a split has, how many of its rows have one, and the unit of the numbers."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    pictures: int
    rows: int
    scale: float = 1.0


class StoredImages:
    """The pictures of a split, mapped from their files."""

    def __init__(self, folder: Path, split: str, field: str, record: StoredImagesRecord) -> None:
        self.record = record
        self._values = memory_map(folder / image_values_file(split, field))
        self._image_indexes = memory_map(folder / image_indexes_file(split, field))

    def image_index(self, row: int) -> int:
        """Which picture is a row's; -1: none."""
        return int(self._image_indexes[row])

    def image(self, image_index: int) -> np.ndarray:
        """One picture: pixels, or features in units of the scale."""
        return self._values[image_index]  # type: ignore[no-any-return]

    def model_input(self, row: int, grid: ImageGrid) -> np.ndarray | None:
        """A row's picture as a model with such a grid reads it: pixels, or features in float32; None: it has none."""
        image_index = self.image_index(row)
        if image_index < 0:
            return None
        image = self.image(image_index)
        return image if grid.network else image.astype(np.float32) * np.float32(self.record.scale)

    def batch(self, rows: Sequence[int] | np.ndarray, grid: ImageGrid) -> ImageInput:
        """The pictures of some rows, as a model with such a grid reads them."""
        image_indexes = [self.image_index(row) for row in rows]
        pictures = [None if image_index < 0 else self.image(image_index) for image_index in image_indexes]
        dtype = np.uint8 if grid.network else np.float32
        shape = self._values.shape[1:]
        images = stack_images(pictures, np.empty(shape, dtype), grid.regions)
        if self.record.scale != 1.0:
            images.values.mul_(self.record.scale)
        return images


def image_values_file(split: str, field: str) -> str:
    return f"{split}.{field}.values.npy"


def image_indexes_file(split: str, field: str) -> str:
    return f"{split}.{field}.places.npy"


def write_images(
    pictures: SplitImages, form: ImageForm, lines: np.ndarray, folder: Path, split: str, step: Callable[[], None]
) -> StoredImagesRecord:
    """Write the pictures of the rows whose `lines` (from 0) were kept; `step` is called after each.

    Decoded by several threads, few at a time in memory. Raises DataError: a picture that is missing or damaged.
    """
    field = pictures.field
    firsts: dict[str, int] = {}  # each picture's first line, in the order in which they are stored
    numbers: dict[str, int] = {}
    image_indexes = np.full(len(lines), -1, np.int32)
    for row, line in enumerate(lines):
        member = pictures.member_name(int(line))
        if member is not None:
            firsts.setdefault(member, int(line))
            image_indexes[row] = numbers.setdefault(member, len(numbers))
    np.save(folder / image_indexes_file(split, field.name), image_indexes)
    scale = 1.0
    if isinstance(form, int):
        shape: tuple[int, ...] = (form, form, 3)
        dtype = np.dtype(np.uint8)
        images = map_in_order(lambda line: pictures.pixels(line, form), firsts.values())
    else:
        precomputed = pictures.precomputed
        shape, dtype, scale = precomputed.values_NTF.shape[1:], precomputed.values_NTF.dtype, precomputed.scale
        images = (precomputed.checked_row(pictures.entries[line].row) for line in firsts.values())
    values = GrowingArray(folder / image_values_file(split, field.name), dtype, shape)
    for image in images:
        assert image is not None  # these lines have one
        values.append(image[None])
        step()
    values.close()
    return StoredImagesRecord(pictures=len(firsts), rows=int((image_indexes >= 0).sum()), scale=scale)
