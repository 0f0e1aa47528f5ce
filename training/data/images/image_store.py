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
from training.data.arrays import GrowingArray, mapped
from training.data.images.images import Pictures
from training.data.thread_pool import in_order

Form = int | ImageGrid
"""What is stored of a picture: its pixels, so many a side; or the features that are given, a grid of regions."""


class StoredRecord(BaseModel):
    """How many pictures a split has, how many of its rows have one, and the unit of the numbers."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    pictures: int
    rows: int
    scale: float = 1.0


class StoredPictures:
    """The pictures of a split, mapped from their files."""

    def __init__(self, folder: Path, split: str, field: str, record: StoredRecord) -> None:
        self.record = record
        self._values = mapped(folder / values_file(split, field))
        self._places = mapped(folder / places_file(split, field))

    def place(self, row: int) -> int:
        """Which picture is a row's; -1: none."""
        return int(self._places[row])

    def picture(self, place: int) -> np.ndarray:
        """One picture: pixels, or features in units of the scale."""
        return self._values[place]  # type: ignore[no-any-return]

    def as_read_by(self, row: int, grid: ImageGrid) -> np.ndarray | None:
        """A row's picture as a model with such a grid reads it: pixels, or features in float32; None: it has none."""
        place = self.place(row)
        if place < 0:
            return None
        picture = self.picture(place)
        return picture if grid.network else picture.astype(np.float32) * np.float32(self.record.scale)

    def batch(self, rows: Sequence[int] | np.ndarray, grid: ImageGrid) -> ImageInput:
        """The pictures of some rows, as a model with such a grid reads them."""
        places = [self.place(row) for row in rows]
        pictures = [None if place < 0 else self.picture(place) for place in places]
        dtype = np.uint8 if grid.network else np.float32
        shape = self._values.shape[1:]
        made = stack_images(pictures, np.empty(shape, dtype), grid.regions)
        if self.record.scale != 1.0:
            made.values.mul_(self.record.scale)
        return made


def values_file(split: str, field: str) -> str:
    return f"{split}.{field}.values.npy"


def places_file(split: str, field: str) -> str:
    return f"{split}.{field}.places.npy"


def store(
    pictures: Pictures, form: Form, lines: np.ndarray, folder: Path, split: str, step: Callable[[], None]
) -> StoredRecord:
    """Write the pictures of the rows whose `lines` (from 0) were kept; `step` is called after each.

    Decoded by several threads, few at a time in memory. Raises DataError: a picture that is missing or damaged.
    """
    field = pictures.field
    firsts: dict[str, int] = {}  # each picture's first line, in the order in which they are stored
    numbers: dict[str, int] = {}
    places = np.full(len(lines), -1, np.int32)
    for row, line in enumerate(lines):
        member = pictures.member(int(line))
        if member is not None:
            firsts.setdefault(member, int(line))
            places[row] = numbers.setdefault(member, len(numbers))
    np.save(folder / places_file(split, field.name), places)
    scale = 1.0
    if isinstance(form, int):
        shape: tuple[int, ...] = (form, form, 3)
        dtype = np.dtype(np.uint8)
        made = in_order(lambda line: pictures.pixels(line, form), firsts.values())
    else:
        given = pictures.given
        shape, dtype, scale = given.values_NTF.shape[1:], given.values_NTF.dtype, given.scale
        made = (given.finite(pictures.entries[line].row) for line in firsts.values())
    values = GrowingArray(folder / values_file(split, field.name), dtype, shape)
    for picture in made:
        assert picture is not None  # these lines have one
        values.append(picture[None])
        step()
    values.close()
    return StoredRecord(pictures=len(firsts), rows=int((places >= 0).sum()), scale=scale)
