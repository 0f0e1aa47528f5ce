"""Padded tensors for every source and the target.

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
    """One text source of a batch: every row ends with END, then PAD. A length counts END; 0 is an absent row."""

    ids_BT: Tensor
    lengths_B: Tensor

    @property
    def padding_BT(self) -> Tensor:
        """True where there is no word."""
        return torch.arange(self.ids_BT.shape[1], device=self.ids_BT.device) >= self.lengths_B[:, None]

    def to(self, device: torch.device | str) -> "TextInput":
        return TextInput(self.ids_BT.to(device, non_blocking=True), self.lengths_B.to(device, non_blocking=True))

    def pin_memory(self) -> "TextInput":
        return TextInput(self.ids_BT.pin_memory(), self.lengths_B.pin_memory())


@dataclass(frozen=True)
class ImageInput:
    """One image source of a batch: features of regions (B, T, F), or pixels (B, S, S, 3) in uint8.

    `lengths_B` counts a row's regions; 0 is an absent row, whose values mean nothing.
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
    """What a model reads, by the name of the source, and what it is to write (ends with END; the model shifts it)."""

    sources: dict[str, SourceInput]
    target_BL: Tensor | None = None

    @property
    def rows(self) -> int:
        return len(next(iter(self.sources.values())).lengths_B)

    def text(self, source: str) -> TextInput:
        """A source that is text."""
        found = self.sources[source]
        assert isinstance(found, TextInput), source
        return found

    def image(self, source: str) -> ImageInput:
        """A source that is an image."""
        found = self.sources[source]
        assert isinstance(found, ImageInput), source
        return found

    def to(self, device: torch.device | str) -> "Batch":
        target = None if self.target_BL is None else self.target_BL.to(device, non_blocking=True)
        return replace(self, sources={name: s.to(device) for name, s in self.sources.items()}, target_BL=target)

    def pin_memory(self) -> "Batch":
        """The same batch in page-locked memory, from which a GPU copies without waiting."""
        target = None if self.target_BL is None else self.target_BL.pin_memory()
        return replace(self, sources={name: s.pin_memory() for name, s in self.sources.items()}, target_BL=target)


def pad(rows: Sequence[Ids | None], multiple: int = 1) -> tuple[Tensor, Tensor]:
    """Rows of ids with END behind each, padded to one length (a multiple of `multiple`): ids (B, T) and lengths (B).

    A row that is None is absent: all padding, of length 0.
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
    """Images of one shape and type (those of `like`) as a batch; a row that is None is absent."""
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
    """A batch of rows of ids without begin and end symbols, beside images; no rows make an empty batch."""
    inputs: dict[str, SourceInput] = {name: TextInput(*pad(rows, multiple)) for name, rows in sources.items()}
    inputs |= images or {}
    return Batch(inputs, None if targets is None else pad(targets, multiple)[0])
