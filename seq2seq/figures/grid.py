"""Source words over columns, target words before rows: what matrices and alignments are drawn in."""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from seq2seq.figures.style import HOT, SOFT, Sheet, height_of, tint, width_of

if TYPE_CHECKING:
    from matplotlib.text import Text

    from seq2seq.bundle import ModelCard

GAP, LABEL_GAP, ROUND, APART = 2, 9, 4, 12
LEGEND, LEGEND_WIDTH = 34, 220
MANY_SOURCE, MANY_TARGET = 18, 24  # more words than these stand in smaller cells


@dataclass(frozen=True)
class Languages:
    """The languages of the two sides, as ISO codes: some letters have other forms in China than in Japan."""

    source: str | None = None
    target: str | None = None

    @classmethod
    def of(cls, card: ModelCard) -> Languages:
        """Those of a model's first source and of its output."""
        return cls(card.languages.get(card.model.first_text), card.languages.get("target"))


UNKNOWN = Languages()


@dataclass(frozen=True)
class Grid:
    """The cells of a sheet: where they begin, and how large each is, gap included."""

    sheet: Sheet
    left: float
    top: float
    cell_width: float
    cell_height: float
    columns: int
    rows: int

    @property
    def bottom(self) -> float:
        return self.top + self.rows * self.cell_height

    @property
    def right(self) -> float:
        return self.left + self.columns * self.cell_width

    def fill(
        self, row: int, column: int, weight: float, colour: tuple[int, int, int] = HOT, shift: float = 0.0
    ) -> None:
        """A cell in the tint of a weight; `shift` moves it to the right."""
        self.sheet.rounded(
            self.left + column * self.cell_width + GAP / 2 + shift,
            self.top + row * self.cell_height + GAP / 2,
            self.cell_width - GAP,
            self.cell_height - GAP,
            tint(weight, colour),
            ROUND,
        )

    def middle(self, row: int, column: int) -> tuple[float, float]:
        """A cell's centre."""
        return self.left + (column + 0.5) * self.cell_width, self.top + (row + 0.5) * self.cell_height

    def head(self, label: Text, column: int, shift: float = 0.0) -> None:
        """Put a label over a column."""
        x = self.left + (column + 0.5) * self.cell_width + shift
        self.sheet.place(label, x, self.top - LABEL_GAP, "center", "bottom")


def lay_out(
    sheet: Sheet, heading: str, source: Sequence[str], target: Sequence[str], languages: Languages, apart: str = ""
) -> Grid:
    """The sheet for these words, and the words on it; `apart` heads a further column, which stands apart."""
    many = len(source) > MANY_SOURCE or len(target) > MANY_TARGET
    cell, size = (20, 8.2) if many else (30, 9.5)
    heads = [column_label(sheet, word, languages.source, size) for word in source]
    further = [sheet.word(apart, size=size, rotation=90)] if apart else []
    rows = [sheet.word(word, languages.target, size) for word in target]
    before = max((width_of(label) for label in rows), default=0) + LABEL_GAP
    above = max((height_of(label) for label in heads + further), default=0) + LABEL_GAP
    width = before + max(len(source) * cell + len(further) * (cell + APART), LEGEND_WIDTH)
    left, top = sheet.lay_out(heading, width, above + len(target) * (cell - 4) + LEGEND)
    grid = Grid(sheet, left + before, top + above, cell, cell - 4, len(source), len(target))
    for j, label in enumerate(heads):
        grid.head(label, j)
    for label in further:
        grid.head(label, len(source), APART)
    for i, label in enumerate(rows):
        _, y = grid.middle(i, 0)
        sheet.place(label, grid.left - LABEL_GAP, y, "right")
    return grid


def column_label(sheet: Sheet, word: str, language: str | None, size: float) -> Text:
    """A word over a column: turned, or letter under letter in scripts that are written so, its digits and dots too."""
    wide = [unicodedata.east_asian_width(letter) in "WF" for letter in word]
    if any(wide) and all(upright or not letter.isalpha() for upright, letter in zip(wide, word, strict=True)):
        return sheet.word("\n".join(word), language, size)
    return sheet.word(word, language, size, rotation=90)


def draw_colour_scale(sheet: Sheet, x: float, y: float, colour: tuple[int, int, int] = HOT) -> None:
    """The legend of a tint: which one means 0 and which 1; 145 units wide, 10 high."""
    sheet.place(sheet.note("0", colour=SOFT), x, y + 5, "left")
    for step in range(5):
        sheet.rounded(x + 12 + step * 24, y, 22, 10, tint(step / 4, colour), 3)
    sheet.place(sheet.note("1", colour=SOFT), x + 137, y + 5, "left")
