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

    def pin(self) -> "TextInput":
        return TextInput(self.ids_BT.pin_memory(), self.lengths_B.pin_memory())


@dataclass(frozen=True)
class Batch:
    """What a model reads, by the name of the source, and what it is to write (ends with END; the model shifts it)."""

    sources: dict[str, TextInput]
    target_BL: Tensor | None = None

    @property
    def rows(self) -> int:
        return next(iter(self.sources.values())).ids_BT.shape[0]

    def to(self, device: torch.device | str) -> "Batch":
        target = None if self.target_BL is None else self.target_BL.to(device, non_blocking=True)
        return replace(self, sources={name: s.to(device) for name, s in self.sources.items()}, target_BL=target)

    def pin(self) -> "Batch":
        """The same batch in page-locked memory, from which a GPU copies without waiting."""
        target = None if self.target_BL is None else self.target_BL.pin_memory()
        return replace(self, sources={name: s.pin() for name, s in self.sources.items()}, target_BL=target)


def pad(rows: Sequence[Ids], multiple: int = 1) -> tuple[Tensor, Tensor]:
    """Rows of ids with END behind each, padded to one length (a multiple of `multiple`): ids (B, T) and lengths (B)."""
    lengths = np.fromiter((len(row) + 1 for row in rows), np.int64, len(rows))
    width = -(-int(lengths.max(initial=1)) // multiple) * multiple
    ids = np.full((len(rows), width), PAD, np.int64)
    for i, row in enumerate(rows):
        ids[i, : len(row)] = row
        ids[i, len(row)] = END
    return torch.from_numpy(ids), torch.from_numpy(lengths)


def collate(sources: Mapping[str, Sequence[Ids]], targets: Sequence[Ids] | None = None, multiple: int = 1) -> Batch:
    """A batch of rows of ids without begin and end symbols; no rows make an empty batch."""
    inputs = {name: TextInput(*pad(rows, multiple)) for name, rows in sources.items()}
    return Batch(inputs, None if targets is None else pad(targets, multiple)[0])
