"""An alignment beside the one that people made."""

from collections.abc import Collection
from pathlib import Path

from seq2seq.alignment import GoldAlignment, Link
from seq2seq.explain import Span
from seq2seq.figures.grid import GAP, LEGEND, ROUND, UNKNOWN, Grid, Languages, lay_out
from seq2seq.figures.style import HOT, SHEET, WARM, Sheet, check_suffix, tint, width_of

MARKS = {"sure": "sure", "possible": "possible", "ours": "the model's"}
EDGE = tint(1.0)
KEY_SIZE = 14


def alignment_grid(
    source: Collection[Span],
    target: Collection[Span],
    links: Collection[Link],
    gold: GoldAlignment,
    path: Path,
    languages: Languages = UNKNOWN,
    font: Path | None = None,
) -> Path:
    """Draw a model's links (source word, target word) over gold ones: apart by form, in colour and without.

    A sure link is a full cell, a possible one a frame, the model's a dot. Returns `path`. Raises CallError for a suffix
    that is no picture's, FigureError where no font has a word's letters.
    """
    check_suffix(path)
    over, before = [span.text for span in source], [span.text for span in target]
    sheet = Sheet([*over, *before], font)
    grid = lay_out(sheet, "Alignment", over, before, languages)
    for i in range(grid.rows):
        for j in range(grid.columns):
            grid.fill(i, j, 0.0)
    for kind, marked in (("possible", gold.possible), ("sure", gold.sure)):
        for column, row in sorted(marked):
            draw_mark(grid, kind, *grid.middle(row, column))
    for column, row in sorted(links):
        draw_mark(grid, "ours", *grid.middle(row, column), on_sure=(column, row) in gold.sure)
    x, y = grid.left, grid.bottom + LEGEND - 5
    for kind, title in MARKS.items():
        draw_mark(grid, kind, x + KEY_SIZE / 2, y, size=(KEY_SIZE, KEY_SIZE))
        label = sheet.note(title)
        sheet.place(label, x + KEY_SIZE + 6, y, "left")
        x += KEY_SIZE + 6 + width_of(label) + 18
    return sheet.save(path)


def draw_mark(
    grid: Grid, kind: str, x: float, y: float, on_sure: bool = False, size: tuple[float, float] | None = None
) -> None:
    """A link's mark around a point, of a cell's size: a full cell, a frame, or a dot."""
    from matplotlib.patches import Circle

    width, height = size or (grid.cell_width - GAP, grid.cell_height - GAP)
    if kind == "sure":
        grid.sheet.rounded(x - width / 2, y - height / 2, width, height, tint(1.0, HOT), ROUND)
    elif kind == "possible":
        inset = 1.0  # the frame's own width
        frame = grid.sheet.rounded(
            x - width / 2 + inset, y - height / 2 + inset, width - 2 * inset, height - 2 * inset, SHEET, ROUND, EDGE
        )
        frame.set_linewidth(1.4)
    else:
        fill = SHEET if on_sure else tint(1.0, WARM)
        grid.sheet.figure.axes[0].add_patch(Circle((x, y), max(height * 0.24, 3.5), fc=fill, ec="none"))
