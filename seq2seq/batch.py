"""Batches: padded tensors of every source and of the target.

Axes: B sentences, T source positions, L target positions.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from seq2seq.text import END, PAD

Ids = Sequence[int] | np.ndarray


@dataclass(frozen=True)
class TextInput:
    """One text source of a batch. Every row ends with END, followed by PAD.

    `lengths_B` counts END; a length of 0 marks a row without this source.
    """

    ids_BT: Tensor
    lengths_B: Tensor

    @property
    def padding_BT(self) -> Tensor:
        """True at padding positions."""
        return torch.arange(self.ids_BT.shape[1], device=self.ids_BT.device) >= self.lengths_B[:, None]

    def to(self, device: torch.device | str) -> "TextInput":
        return TextInput(self.ids_BT.to(device, non_blocking=True), self.lengths_B.to(device, non_blocking=True))

    def pin_memory(self) -> "TextInput":
        return TextInput(self.ids_BT.pin_memory(), self.lengths_B.pin_memory())


@dataclass(frozen=True)
class ImageInput:
    """One image source of a batch: features of regions (B, T, F), or uint8 pixels (B, S, S, 3).

    `lengths_B` is the number of regions of each row; 0 marks a row without this source, whose values are ignored.
    """

    values: Tensor
    lengths_B: Tensor

    def to(self, device: torch.device | str) -> "ImageInput":
        return ImageInput(self.values.to(device, non_blocking=True), self.lengths_B.to(device, non_blocking=True))

    def pin_memory(self) -> "ImageInput":
        return ImageInput(self.values.pin_memory(), self.lengths_B.pin_memory())


SourceInput = TextInput | ImageInput


@dataclass(frozen=True)
class Batch:
    """Model inputs by source name, and the target ids. A target ends with END; the model shifts it right."""

    sources: dict[str, SourceInput]
    target_BL: Tensor | None = None

    @property
    def rows(self) -> int:
        return len(next(iter(self.sources.values())).lengths_B)

    def text(self, source: str) -> TextInput:
        """The input of a text source."""
        text_input = self.sources[source]
        assert isinstance(text_input, TextInput), source
        return text_input

    def image(self, source: str) -> ImageInput:
        """The input of an image source."""
        image_input = self.sources[source]
        assert isinstance(image_input, ImageInput), source
        return image_input

    def to(self, device: torch.device | str) -> "Batch":
        target = None if self.target_BL is None else self.target_BL.to(device, non_blocking=True)
        return replace(self, sources={name: s.to(device) for name, s in self.sources.items()}, target_BL=target)

    def pin_memory(self) -> "Batch":
        """A copy in page-locked memory, which allows asynchronous copies to a GPU."""
        target = None if self.target_BL is None else self.target_BL.pin_memory()
        return replace(self, sources={name: s.pin_memory() for name, s in self.sources.items()}, target_BL=target)


def pad(rows: Sequence[Ids | None], multiple: int = 1) -> tuple[Tensor, Tensor]:
    """Append END to each row and pad all rows to one length, a multiple of `multiple`: ids (B, T) and lengths (B).

    A row that is None is absent: it is all padding and has length 0.
    """
    lengths = np.fromiter((0 if row is None else len(row) + 1 for row in rows), np.int64, len(rows))
    width = -(-int(lengths.max(initial=1)) // multiple) * multiple
    ids = np.full((len(rows), width), PAD, np.int64)
    for i, row in enumerate(rows):
        if row is not None:
            ids[i, : len(row)] = row
            ids[i, len(row)] = END
    return torch.from_numpy(ids), torch.from_numpy(lengths)


def stack_images(rows: Sequence[np.ndarray | None], like: np.ndarray, regions: int) -> ImageInput:
    """Stack images with the shape and dtype of `like` into a batch; a row that is None is absent."""
    values = np.zeros((len(rows), *like.shape), like.dtype)
    for i, row in enumerate(rows):
        if row is not None:
            values[i] = row
    lengths = [0 if row is None else regions for row in rows]
    return ImageInput(torch.from_numpy(values), torch.tensor(lengths))


def collate(
    sources: Mapping[str, Sequence[Ids | None]],
    targets: Sequence[Ids] | None = None,
    multiple: int = 1,
    images: Mapping[str, ImageInput] | None = None,
) -> Batch:
    """Build a batch from rows of ids (without begin and end symbols) and image inputs. No rows give an empty batch."""
    inputs: dict[str, SourceInput] = {name: TextInput(*pad(rows, multiple)) for name, rows in sources.items()}
    inputs |= images or {}
    return Batch(inputs, None if targets is None else pad(targets, multiple)[0])
