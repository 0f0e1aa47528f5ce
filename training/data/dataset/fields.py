"""The fields of a split, with their files resolved."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from training.data.cleaning import Encoding
from training.data.dataset.joined import LineJoin
from training.data.formats import Part
from training.data.uris import FileLocation


@dataclass(frozen=True)
class TextField:
    """A text field of a split, with its files resolved.

    `included_lines`: the lines (from 0) that are read, where other lines lack an image that the split requires; None:
    all lines. `encoding`: how cleaning handles lines that are not UTF-8; None: the split is not cleaned. `join`: how
    neighbouring lines are joined; None: they are not.
    """

    name: str
    parts: tuple[Part, ...]
    language: str | None
    tokenised: bool
    lowercase: bool
    unknown: str | None
    segmentation: str | None
    references: tuple[tuple[Part, ...], ...]
    included_lines: frozenset[int] | None = None
    encoding: Encoding | None = None
    join: LineJoin | None = None

    @property
    def files(self) -> tuple[FileLocation, ...]:
        return tuple(part.location for part in self.parts)

    def reference_fields(self) -> "tuple[TextField, ...]":
        """This text and its further references, each as a separate field."""
        further = [replace(self, parts=parts, references=()) for parts in self.references]
        return (replace(self, references=()), *further)


@dataclass(frozen=True)
class ImageField:
    """An image field of a split, with its files resolved. `split`: the split's name in the index. `drawn`: the images
    are drawn from the scenes that the index describes."""

    name: str
    images: Path
    index: Path
    split: str
    features: Path | None
    required: bool
    drawn: bool = False


def quote_names(names: Sequence[str] | Mapping[str, object]) -> str:
    return ", ".join(f"'{name}'" for name in names)
