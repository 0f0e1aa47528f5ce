"""Figure of a model's word alignment compared with a gold alignment."""

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
    """Draws a model's links (source word, target word) over gold links, with shapes that differ without colour too.

    A sure link is a filled cell, a possible link a frame, a model's link a dot. Returns `path`. Raises UsageError if
    the file suffix is not supported, FigureError if no font has a glyph for a letter.
    """
    check_suffix(path)
    source_words, target_words = [span.text for span in source], [span.text for span in target]
    sheet = Sheet([*source_words, *target_words], font)
    grid = lay_out(sheet, "Alignment", source_words, target_words, languages)
    for i in range(grid.rows):
        for j in range(grid.columns):
            grid.fill(i, j, 0.0)
    for kind, gold_links in (("possible", gold.possible), ("sure", gold.sure)):
        for column, row in sorted(gold_links):
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
    """Draws the mark of a link centred at (x, y): a filled cell, a frame, or a dot. `size`: default is a cell's."""
    from matplotlib.patches import Circle

    width, height = size or (grid.cell_width - GAP, grid.cell_height - GAP)
    if kind == "sure":
        grid.sheet.rounded(x - width / 2, y - height / 2, width, height, tint(1.0, HOT), ROUND)
    elif kind == "possible":
        inset = 1.0  # the frame's line width
        frame = grid.sheet.rounded(
            x - width / 2 + inset, y - height / 2 + inset, width - 2 * inset, height - 2 * inset, SHEET, ROUND, EDGE
        )
        frame.set_linewidth(1.4)
    else:
        fill = SHEET if on_sure else tint(1.0, WARM)
        grid.sheet.figure.axes[0].add_patch(Circle((x, y), max(height * 0.24, 3.5), fc=fill, ec="none"))
