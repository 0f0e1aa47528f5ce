"""The interlinear gloss: under every source word the words that it became."""

from collections.abc import Sequence
from dataclasses import dataclass

from rich.cells import cell_len
from rich.console import Console
from rich.text import Text

from seq2seq.explain import Explanation

NOTHING = "·"


@dataclass(frozen=True)
class Column:
    """A source word, the target words that are aligned to it, and their places in the translation (from 1)."""

    source: str
    target: str
    places: str

    @property
    def width(self) -> int:
        """Terminal cells that the column needs."""
        return max(cell_len(self.source), cell_len(self.target), cell_len(self.places))


def columns(explanation: Explanation) -> list[Column]:
    """A column for every source word. Target words that stand apart in the translation get an ellipsis between them."""
    glossed = []
    for i, source in enumerate(explanation.source):
        places = sorted(target for word, target in explanation.alignment if word == i)
        words = ""
        for place, previous in zip(places, [None, *places], strict=False):
            between = "" if previous is None else " " if place == previous + 1 else " … "
            words += between + explanation.target[place].text
        glossed.append(Column(source.text, words or NOTHING, " ".join(str(place + 1) for place in places)))
    return glossed


def lines(glossed: Sequence[Column], width: int) -> list[list[Column]]:
    """The columns, broken into lines of at most `width` cells: a long text wraps as pairs of lines."""
    broken: list[list[Column]] = [[]]
    room = width
    for column in glossed:
        if broken[-1] and column.width > room:
            broken.append([])
            room = width
        broken[-1].append(column)
        room -= column.width + 2
    return broken


def print_gloss(explanation: Explanation, console: Console, indent: int = 2) -> None:
    """Print source words, what they became, and where in the translation that stands; colour only on a terminal."""
    for line in lines(columns(explanation), console.width - indent):
        for part, style in (("source", "bold"), ("target", "cyan"), ("places", "dim")):
            text = Text(" " * indent)
            for column in line:
                word = getattr(column, part)
                text.append(word, style=style)
                text.append(" " * (column.width - cell_len(word) + 2))
            text.rstrip()
            console.print(text, soft_wrap=True)
        console.print()
