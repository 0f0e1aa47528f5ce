"""Grid with source words above the columns and target words before the rows, for attention matrices and alignments."""

import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass

from matplotlib.text import Text

from interlinear.bundle import ModelCard
from interlinear.figures.style import HOT, SOFT, Sheet, height_of, tint, width_of

GAP, LABEL_GAP, ROUND, APART = 2, 9, 4, 12
LEGEND, LEGEND_WIDTH = 34, 220
MANY_SOURCE, MANY_TARGET = 18, 24  # with more words, cells are smaller


@dataclass(frozen=True)
class Languages:
    """ISO language codes of both sides, since some characters have different forms in Chinese and Japanese."""

    source: str | None = None
    target: str | None = None

    @classmethod
    def of(cls, card: ModelCard) -> "Languages":
        """Languages of a model's first text source and of its output."""
        return cls(card.languages.get(card.model.first_text), card.languages.get("target"))


UNKNOWN = Languages()


@dataclass(frozen=True)
class Grid:
    """Cells of a sheet: upper left corner, size of a cell including the gap, and number of columns and rows."""

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
        """Draws a cell in the tint of a weight, moved to the right by `shift`."""
        self.sheet.rounded(
            self.left + column * self.cell_width + GAP / 2 + shift,
            self.top + row * self.cell_height + GAP / 2,
            self.cell_width - GAP,
            self.cell_height - GAP,
            tint(weight, colour),
            ROUND,
        )

    def middle(self, row: int, column: int) -> tuple[float, float]:
        """Centre of a cell, (x, y)."""
        return self.left + (column + 0.5) * self.cell_width, self.top + (row + 0.5) * self.cell_height

    def head(self, label: Text, column: int, shift: float = 0.0) -> None:
        """Places a label above a column."""
        x = self.left + (column + 0.5) * self.cell_width + shift
        self.sheet.place(label, x, self.top - LABEL_GAP, "center", "bottom")


def lay_out(
    sheet: Sheet, heading: str, source: Sequence[str], target: Sequence[str], languages: Languages, apart: str = ""
) -> Grid:
    """Lays out a sheet and its word labels; `apart` is the label of an additional, separated column."""
    small = len(source) > MANY_SOURCE or len(target) > MANY_TARGET
    cell, size = (20, 8.2) if small else (30, 9.5)
    column_labels = [column_label(sheet, word, languages.source, size) for word in source]
    extra_labels = [sheet.word(apart, size=size, rotation=90)] if apart else []
    row_labels = [sheet.word(word, languages.target, size) for word in target]
    label_width = max((width_of(label) for label in row_labels), default=0) + LABEL_GAP
    label_height = max((height_of(label) for label in column_labels + extra_labels), default=0) + LABEL_GAP
    width = label_width + max(len(source) * cell + len(extra_labels) * (cell + APART), LEGEND_WIDTH)
    left, top = sheet.lay_out(heading, width, label_height + len(target) * (cell - 4) + LEGEND)
    grid = Grid(sheet, left + label_width, top + label_height, cell, cell - 4, len(source), len(target))
    for j, label in enumerate(column_labels):
        grid.head(label, j)
    for label in extra_labels:
        grid.head(label, len(source), APART)
    for i, label in enumerate(row_labels):
        _, y = grid.middle(i, 0)
        sheet.place(label, grid.left - LABEL_GAP, y, "right")
    return grid


def column_label(sheet: Sheet, word: str, language: str | None, size: float) -> Text:
    """Column label: rotated by 90 degrees, or written vertically for East Asian words, with their digits and dots."""
    is_wide = [unicodedata.east_asian_width(letter) in "WF" for letter in word]
    if any(is_wide) and all(wide or not letter.isalpha() for wide, letter in zip(is_wide, word, strict=True)):
        return sheet.word("\n".join(word), language, size)
    return sheet.word(word, language, size, rotation=90)


def draw_colour_scale(sheet: Sheet, x: float, y: float, colour: tuple[int, int, int] = HOT) -> None:
    """Draws the colour scale from 0 to 1; 145 units wide, 10 high."""
    sheet.place(sheet.note("0", colour=SOFT), x, y + 5, "left")
    for step in range(5):
        sheet.rounded(x + 12 + step * 24, y, 22, 10, tint(step / 4, colour), 3)
    sheet.place(sheet.note("1", colour=SOFT), x + 137, y + 5, "left")
