"""Pictures of what a model looked at, in the look of the playground."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from seq2seq.errors import CallError

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from matplotlib.text import Text

    from seq2seq.looks import Explanation

PAPER, SHEET, INK, SOFT, LINE, LOOKED_AT = "#faf8f4", "#ffffff", "#1d1f23", "#6a6f78", "#e4e0d8", (15, 110, 110)
WORDS, PLAIN = ["DejaVu Serif"], ["DejaVu Sans"]  # they come with matplotlib: a picture looks the same everywhere

# The picture's unit is a pixel of the playground at 100 to the inch; a raster file has 2.5 times as many.
UNITS_PER_INCH, DOTS_PER_INCH = 100, 250
CELL_WIDTH, CELL_HEIGHT, GAP = 30, 26, 2
MARGIN, PADDING, LABEL_GAP = 28, 24, 9
HEADING, LEGEND = 26, 34
SUFFIXES = (".png", ".svg", ".pdf")


def attention_matrix(explanation: Explanation, path: Path, matrix: str = "attention") -> Path:
    """Draw one of an explanation's matrices: a row for every target word, a column for every source word.

    The darker a cell, the more of its row's weight (0 to 1) it has. The suffix of `path` says the format: .png, .svg or
    .pdf; its folder is made where it is missing. Returns `path`. Raises CallError for another suffix or a matrix that
    the explanation does not have.
    """
    if path.suffix.lower() not in SUFFIXES:
        raise CallError(str(path), "a picture is a .png, .svg or .pdf file", "give a name that ends in one of these")
    if matrix not in explanation.matrices:
        known = ", ".join(sorted(explanation.matrices))
        raise CallError(matrix, "the explanation has no such matrix", f"choose one of: {known}")

    from matplotlib.figure import Figure

    rows = explanation.matrices[matrix]
    figure = Figure()
    columns_at_top = [word_label(figure, span.text, rotation=90) for span in explanation.source]
    rows_at_left = [word_label(figure, span.text) for span in explanation.target]
    left = MARGIN + PADDING + max((width_of(label) for label in rows_at_left), default=0) + LABEL_GAP
    top = MARGIN + HEADING + PADDING + max((height_of(label) for label in columns_at_top), default=0) + LABEL_GAP
    right = left + max(len(columns_at_top) * CELL_WIDTH, 5 * CELL_WIDTH + 60)  # the legend needs its room
    bottom = top + len(rows_at_left) * CELL_HEIGHT
    width, height = right + PADDING + MARGIN, bottom + LEGEND + PADDING + MARGIN

    figure.set_size_inches(width / UNITS_PER_INCH, height / UNITS_PER_INCH)
    figure.set_facecolor(PAPER)
    axes = figure.add_axes((0, 0, 1, 1), xlim=(0, width), ylim=(height, 0))
    axes.set_axis_off()
    axes.text(MARGIN, MARGIN, "WHAT IT LOOKED AT", family=PLAIN, size=8, weight="bold", color=SOFT, va="top")
    rounded(figure, MARGIN, MARGIN + HEADING, width - 2 * MARGIN, height - 2 * MARGIN - HEADING, SHEET, 10, edge=LINE)
    for j, label in enumerate(columns_at_top):
        place(label, (left + (j + 0.5) * CELL_WIDTH) / width, 1 - (top - LABEL_GAP) / height, "center", "bottom")
    for i, label in enumerate(rows_at_left):
        place(
            label, (left - LABEL_GAP) / width, 1 - (top + (i + 0.5) * CELL_HEIGHT) / height, "right", "center_baseline"
        )
        for j, weight in enumerate(rows[i]):
            cell(figure, left + j * CELL_WIDTH, top + i * CELL_HEIGHT, weight)
    legend(figure, left, bottom + LEGEND - 10)

    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=DOTS_PER_INCH)
    return path


def word_label(figure: Figure, word: str, rotation: int = 0) -> Text:
    """A word, not placed yet. Dollar signs are text, not mathematics."""
    return figure.text(0, 0, word, family=WORDS, size=9.5, color=SOFT, rotation=rotation, parse_math=False)


def width_of(label: Text) -> float:
    """A label's width in the picture's units."""
    return float(label.get_window_extent(dpi=UNITS_PER_INCH).width)


def height_of(label: Text) -> float:
    """A label's height in the picture's units."""
    return float(label.get_window_extent(dpi=UNITS_PER_INCH).height)


def place(label: Text, x: float, y: float, horizontal: str, vertical: str) -> None:
    """Put a label, in shares of the figure."""
    label.set(x=x, y=y, horizontalalignment=horizontal, verticalalignment=vertical, rotation_mode="default")


def colour(weight: float) -> tuple[float, float, float]:
    """A weight's colour on the white sheet; even no weight is a tint, so that the grid can be seen."""
    opacity = 0.04 + 0.96 * min(max(weight, 0.0), 1.0)
    red, green, blue = (1 - opacity + opacity * channel / 255 for channel in LOOKED_AT)
    return red, green, blue


def cell(figure: Figure, x: float, y: float, weight: float) -> None:
    """One weight as a filled cell whose upper left corner, gap included, is (x, y)."""
    rounded(figure, x + GAP / 2, y + GAP / 2, CELL_WIDTH - GAP, CELL_HEIGHT - GAP, colour(weight), 4)


def rounded(
    figure: Figure,
    x: float,
    y: float,
    width: float,
    height: float,
    fill: str | tuple[float, float, float],
    radius: float,
    edge: str = "none",
) -> None:
    """A filled rectangle with round corners."""
    from matplotlib.patches import FancyBboxPatch

    style = f"round,pad=0,rounding_size={radius}"
    figure.axes[0].add_patch(FancyBboxPatch((x, y), width, height, style, fc=fill, ec=edge, linewidth=0.7))


def legend(figure: Figure, x: float, y: float) -> None:
    """The scale: what a colour means."""
    axes = figure.axes[0]
    axes.text(x, y + 5, "0", family=PLAIN, size=7, color=SOFT, va="center")
    for step in range(5):
        rounded(figure, x + 12 + step * 24, y, 22, 10, colour(step / 4), 3)
    axes.text(x + 136, y + 5, "1", family=PLAIN, size=7, color=SOFT, va="center")
