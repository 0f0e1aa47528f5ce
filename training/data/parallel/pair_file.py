"""The interface of every kind of parallel text: its files, and its pairs in order."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path
from typing import Protocol

from interlinear.errors import DataError
from training.data.text_lines import clean_text, read_file

Pair = tuple[str, str]  # a source and its target, each one line


class PairFile(Protocol):
    """Parallel text in one file, or in two."""

    @property
    def paths(self) -> tuple[Path, ...]:
        """Its files."""
        ...

    def pairs(self) -> Iterator[Pair]:
        """Its pairs; a missing side is an empty text. Raises DataError."""
        ...


@dataclass(frozen=True)
class TwoFiles:
    """Two text files, in which lines of the same number belong together."""

    source: Path
    target: Path

    @property
    def paths(self) -> tuple[Path, ...]:
        return self.source, self.target

    def pairs(self) -> Iterator[Pair]:
        """The pairs of lines. Raises DataError, also for different numbers of lines."""
        sources, targets = read_file(self.source), read_file(self.target)
        for before, (source, target) in enumerate(zip_longest(sources, targets)):
            if source is None or target is None:
                longer = before + 1 + sum(1 for _ in (sources if target is None else targets))
                counts = (before, longer) if source is None else (longer, before)
                raise DataError(
                    f"{self.source} and {self.target}",
                    f"have {counts[0]:,} and {counts[1]:,} lines",
                    "line i of one must be the translation of line i of the other",
                )
            yield clean_text(source), clean_text(target)
