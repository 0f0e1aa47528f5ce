"""Summary of a data set: whether its files are on this machine, and what its splits contain."""

from dataclasses import dataclass
from typing import Literal

from training.data.dataset import Dataset, read_index, read_rows


@dataclass(frozen=True)
class SplitSummary:
    """The number of lines of a split, the first line of each text field, and the number of images of each image
    field."""

    lines: int
    first: dict[str, str]
    images: dict[str, int]


def availability(dataset: Dataset) -> Literal["here", "partly", "no"]:
    """Whether a data set's files are on this machine."""
    present = [dataset.has_file(path) for path in dataset.paths]
    return "here" if all(present) else "partly" if any(present) else "no"


def summarize_split(dataset: Dataset, split: str) -> SplitSummary:
    """Read a whole split. Raises DataError."""
    names = dataset.fields(split)
    rows = read_rows(dataset, split, names)
    # Invalid UTF-8 is read, because cleaning removes it later; replace it here, because it cannot be printed.
    texts = [text.encode(errors="replace").decode() for text in next(rows).texts]
    return SplitSummary(
        lines=1 + sum(1 for _ in rows),
        first=dict(zip(names, texts, strict=True)),
        images={name: len(read_index(dataset.image(split, name))) for name in dataset.images(split)},
    )
