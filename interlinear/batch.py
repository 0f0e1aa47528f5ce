"""Batches: padded tensors of every source and of the target.

Axes: B sentences, T source positions, L target positions, C candidate tokens.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Protocol, Self, TypeVar

import numpy as np
import torch
from torch import Tensor

from interlinear.devices import to_device
from interlinear.text import END, PAD

Ids = Sequence[int] | np.ndarray


class InputLengths:
    """The length of each row of an input, 0 for a row without this source.

    lengths_B: on the device of the input's other tensors. lengths: the same on the host, for work there (how sequences
    are packed, which rows have an image) that must not wait for the device. None: they are on the device only, and no
    shape depends on them.
    """

    lengths_B: Tensor
    lengths: tuple[int, ...] | None

    def __post_init__(self) -> None:
        if self.lengths is not None and len(self.lengths) != len(self.lengths_B):
            object.__setattr__(self, "lengths", tuple(self.lengths_B.tolist()))

    @property
    def host_lengths(self) -> tuple[int, ...]:
        """The lengths on the host, where they are known there."""
        assert self.lengths is not None
        return self.lengths


@dataclass(frozen=True)
class TextInput(InputLengths):
    """One text source of a batch: ids (B, T). Every row ends with END, which its length counts, followed by PAD."""

    ids_BT: Tensor
    lengths_B: Tensor
    lengths: tuple[int, ...] | None = ()

    @property
    def padding_BT(self) -> Tensor:
        """True at padding positions."""
        return torch.arange(self.ids_BT.shape[1], device=self.ids_BT.device) >= self.lengths_B[:, None]

    def map(self, change: Callable[[Tensor], Tensor]) -> "TextInput":
        """Apply `change` to every tensor."""
        return TextInput(change(self.ids_BT), change(self.lengths_B), self.lengths)


@dataclass(frozen=True)
class ImageInput(InputLengths):
    """One image source of a batch: features of regions (B, T, F), or uint8 pixels (B, S, S, 3).

    A row's length is the number of its regions; where it is 0, the values are ignored.
    """

    values: Tensor
    lengths_B: Tensor
    lengths: tuple[int, ...] | None = ()

    def map(self, change: Callable[[Tensor], Tensor]) -> "ImageInput":
        """Apply `change` to every tensor."""
        return ImageInput(change(self.values), change(self.lengths_B), self.lengths)


SourceInput = TextInput | ImageInput

TARGET = "target"  # the name of the output, beside the names of the sources


@dataclass(frozen=True)
class CandidateInput(InputLengths):
    """The tokens that search may write for each row: ids (B, C), ascending, each once, followed by PAD.

    Every row begins with all special symbols, so that a symbol's column is its id.
    """

    words_BC: Tensor
    lengths_B: Tensor
    lengths: tuple[int, ...] | None = ()

    @property
    def padding_BC(self) -> Tensor:
        """True at padding positions."""
        return torch.arange(self.words_BC.shape[1], device=self.words_BC.device) >= self.lengths_B[:, None]

    def map(self, change: Callable[[Tensor], Tensor]) -> "CandidateInput":
        """Apply `change` to every tensor."""
        return CandidateInput(change(self.words_BC), change(self.lengths_B), self.lengths)


@dataclass(frozen=True)
class Batch:
    """Model inputs by source name, and the target ids. A target ends with END; the model shifts it right.

    target_lengths: the targets' lengths on the host, END counted; None: they are known on the device only, like the
    sources' lengths. candidates: the tokens that search may write; None: the whole vocabulary. The probabilities of
    given targets never depend on them. guide_BLT: for guided attention, the distribution of each target position's
    links over the positions of the first text; 0 where it has none.
    """

    sources: dict[str, SourceInput]
    target_BL: Tensor | None = None
    target_lengths: tuple[int, ...] | None = ()
    candidates: CandidateInput | None = None
    guide_BLT: Tensor | None = None

    def __post_init__(self) -> None:
        if self.target_BL is None or self.target_lengths is None:
            return
        if len(self.target_lengths) != len(self.target_BL):
            object.__setattr__(self, "target_lengths", tuple(target_lengths(self.target_BL).tolist()))

    @property
    def rows(self) -> int:
        return len(next(iter(self.sources.values())).lengths_B)

    def sizes(self, row: int) -> dict[str, int]:
        """The lengths of a row's sources, by name, and as TARGET the number of its candidates, if they are limited."""
        inputs: dict[str, InputLengths] = {**self.sources}
        if self.candidates is not None:
            inputs[TARGET] = self.candidates
        return {name: each.host_lengths[row] for name, each in inputs.items()}

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

    def map(self, change: Callable[[Tensor], Tensor]) -> "Batch":
        """Apply `change` to every tensor."""
        sources: dict[str, SourceInput] = {name: source.map(change) for name, source in self.sources.items()}
        return Batch(
            sources,
            None if self.target_BL is None else change(self.target_BL),
            self.target_lengths,
            None if self.candidates is None else self.candidates.map(change),
            None if self.guide_BLT is None else change(self.guide_BLT),
        )

    def without_host_lengths(self) -> "Batch":
        """The same tensors, with lengths on the device only: operations and shapes are then the same for all lengths,
        so that a computation can be recorded once and repeated for other batches."""
        sources: dict[str, SourceInput] = {name: replace(own, lengths=None) for name, own in self.sources.items()}
        candidates = None if self.candidates is None else replace(self.candidates, lengths=None)
        return Batch(sources, self.target_BL, None, candidates, self.guide_BLT)

    def to(self, device: torch.device | str) -> "Batch":
        return moved(self, device)

    def pin_memory(self) -> "Batch":
        """A copy in page-locked memory, which allows asynchronous copies to a GPU."""
        return self.map(Tensor.pin_memory)


class Mapped(Protocol):
    """A structure of tensors."""

    def map(self, change: Callable[[Tensor], Tensor]) -> Self: ...


Structure = TypeVar("Structure", bound=Mapped)


def tensors_of(structure: Mapped) -> list[Tensor]:
    """The tensors of a structure, in the order of its `map`."""
    found: list[Tensor] = []

    def collect(tensor: Tensor) -> Tensor:
        found.append(tensor)
        return tensor

    structure.map(collect)
    return found


def moved(structure: Structure, device: torch.device | str) -> Structure:
    """The structure with its tensors on a device, by one transfer for which the host does not wait (`to_device`)."""
    copies = iter(to_device(tensors_of(structure), device))
    return structure.map(lambda _: next(copies))


def target_lengths(target_BL: Tensor) -> Tensor:
    """The lengths (B) of targets that are followed by PAD."""
    return (target_BL != PAD).sum(1)


def positions(first: Sequence[int], last: Sequence[int], width: int, device: torch.device) -> Tensor:
    """Indices (N) of the positions first <= l < last of every row in a flattened (B, width) tensor.

    They are computed on the host: a mask as an index would wait for the device.
    """
    position_L = torch.arange(width)
    chosen_BL = (position_L >= torch.tensor(first)[:, None]) & (position_L < torch.tensor(last)[:, None])
    return to_device([chosen_BL.flatten().nonzero().squeeze(1)], device)[0]


def pad(rows: Sequence[Ids | None], multiple: int = 1) -> tuple[Tensor, Tensor]:
    """Append END to each row and pad all rows to one length, a multiple of `multiple`: ids (B, T) and lengths (B).

    A row that is None is absent: it is all padding and has length 0.
    """
    lengths_B = np.fromiter((0 if row is None else len(row) + 1 for row in rows), np.int64, len(rows))
    present = [np.asarray(row, np.int64) for row in rows if row is not None]
    ids = np.concatenate(present) if present else np.empty(0, np.int64)
    return pad_concatenated(ids, lengths_B, padded_width(int(lengths_B.max(initial=1)), multiple))


def padded_width(length: int, multiple: int) -> int:
    """The smallest multiple of `multiple` that is at least `length`."""
    return -(-length // multiple) * multiple


def pad_concatenated(ids: np.ndarray, lengths_B: np.ndarray, width: int) -> tuple[Tensor, Tensor]:
    """Lay out rows whose ids follow each other in `ids`, without end symbols, as a matrix: ids (B, T), lengths (B).

    `lengths_B` counts END, which is appended to each row; a row of length 0 is absent, and all padding.
    """
    ids_BT = np.full((len(lengths_B), width), PAD, np.int64)
    ids_BT[np.arange(width) < lengths_B[:, None] - 1] = ids
    (present_N,) = lengths_B.nonzero()
    ids_BT[present_N, lengths_B[present_N] - 1] = END
    return torch.from_numpy(ids_BT), torch.from_numpy(lengths_B)


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
