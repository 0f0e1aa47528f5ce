"""Interlinear gloss in the terminal: under each source word the target words aligned to it."""

from collections.abc import Sequence
from dataclasses import dataclass

from rich.cells import cell_len
from rich.console import Console
from rich.text import Text

from seq2seq.explain import Explanation

UNALIGNED = "·"


@dataclass(frozen=True)
class GlossColumn:
    """A source word, the target words aligned to it, and their positions in the translation (from 1)."""

    source: str
    target: str
    positions: str

    @property
    def width(self) -> int:
        """Width of the column in terminal cells."""
        return max(cell_len(self.source), cell_len(self.target), cell_len(self.positions))


def gloss_columns(explanation: Explanation) -> list[GlossColumn]:
    """A column for every source word. Target words that are not adjacent are joined by an ellipsis."""
    columns = []
    for i, source in enumerate(explanation.source):
        positions = sorted(target for word, target in explanation.alignment if word == i)
        words = ""
        for position, previous in zip(positions, [None, *positions], strict=False):
            between = "" if previous is None else " " if position == previous + 1 else " … "
            words += between + explanation.target[position].text
        columns.append(
            GlossColumn(source.text, words or UNALIGNED, " ".join(str(position + 1) for position in positions))
        )
    return columns


def wrap(columns: Sequence[GlossColumn], width: int) -> list[list[GlossColumn]]:
    """The columns, broken into lines of at most `width` cells."""
    rows: list[list[GlossColumn]] = [[]]
    free = width
    for column in columns:
        if rows[-1] and column.width > free:
            rows.append([])
            free = width
        rows[-1].append(column)
        free -= column.width + 2
    return rows


def print_gloss(explanation: Explanation, console: Console, indent: int = 2) -> None:
    """Print source words, their target words, and the target positions; in colour only on a terminal."""
    for line in wrap(gloss_columns(explanation), console.width - indent):
        for part, style in (("source", "bold"), ("target", "cyan"), ("positions", "dim")):
            text = Text(" " * indent)
            for column in line:
                word = getattr(column, part)
                text.append(word, style=style)
                text.append(" " * (column.width - cell_len(word) + 2))
            text.rstrip()
            console.print(text, soft_wrap=True)
        console.print()
