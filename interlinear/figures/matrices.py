"""Figures of an explanation: a matrix of attention weights, and the strip of a contextual gate."""

from collections.abc import Collection, Sequence
from pathlib import Path

from matplotlib.patches import Circle

from interlinear.alignment.links import GoldAlignment, Link
from interlinear.errors import UsageError
from interlinear.explanation import Explanation, Span
from interlinear.figures.grid import APART, GAP, LEGEND, ROUND, UNKNOWN, Grid, Languages, draw_colour_scale, lay_out
from interlinear.figures.style import HOT, SHEET, WARM, Sheet, check_suffix, height_of, readable_on, tint, width_of

TITLES = {
    "attention": "What it looked at",
    "word_attention": "Which words it looked at",
    "gated": "What it looked at, gated",
    "posterior": "Where each word came from",
    "uam": "What it aligned",
    "next_attention": "What it looked at, a step later",
    "next_word_attention": "Which words it looked at, a step later",
    "next_gated": "What it looked at, gated, a step later",
}
ONE_MINUS_GATE = "1 − gate"
STRIP_WIDTH, TILE_HEIGHT, TILE_PADDING, LINE_GAP = 720, 34, 10, 26


def attention_matrix(
    explanation: Explanation,
    path: Path,
    matrix: str = "attention",
    languages: Languages = UNKNOWN,
    beside: Sequence[str] = (),
    font: Path | None = None,
) -> Path:
    """Draws one of an explanation's matrices: a row for each target word, a column for each source word.

    Darker cells have larger weights (0 to 1). With contextual gates an additional column shows 1 - gate: how much of
    the context came from word embeddings instead of annotations. `beside` has a text for each target word, shown in
    brackets after it. The suffix of `path` sets the format: .png, .svg or .pdf; a missing folder is created. Returns
    `path`. Raises UsageError if the suffix is not supported or the explanation does not have the matrix, FigureError
    if no font has a glyph for a letter.
    """
    check_suffix(path)
    if matrix not in explanation.matrices:
        known = ", ".join(sorted(explanation.matrices))
        raise UsageError(matrix, "the explanation has no such matrix", f"choose one of: {known}")
    source = [span.text for span in explanation.source]
    target = [span.text for span in explanation.target]
    if beside:
        target = [f"{word}  [{text}]" for word, text in zip(target, beside, strict=True)]
    gate = explanation.gate
    sheet = Sheet([*source, *target, ONE_MINUS_GATE], font)
    grid = lay_out(sheet, TITLES.get(matrix, matrix), source, target, languages, "" if gate is None else ONE_MINUS_GATE)
    for i, row in enumerate(explanation.matrices[matrix]):
        for j, weight in enumerate(row):
            grid.fill(i, j, weight)
        if gate is not None:
            grid.fill(i, len(source), 1 - gate[i], WARM, shift=APART)
    draw_colour_scale(sheet, grid.left, grid.bottom + LEGEND - 10)
    return sheet.save(path)


def gate_strip(explanation: Explanation, path: Path, language: str | None = None, font: Path | None = None) -> Path:
    """Draws 1 - o for each target word as its background and as a number below it (Wu et al. 2018, figure 3).

    o is the contextual gate; 1 - o is the share of word embeddings in the context.
    Returns `path`. Raises as `attention_matrix`, and UsageError if the model has no contextual gates.
    """
    check_suffix(path)
    if explanation.gate is None:
        raise UsageError("gate", "the model has no contextual gates", "train contextual_gates, or draw its attention")
    sheet = Sheet([*(span.text for span in explanation.target), ONE_MINUS_GATE], font)
    words = [sheet.word(span.text, language, size=11) for span in explanation.target]
    widths = [max(width_of(word) + 2 * TILE_PADDING, 34) for word in words]
    positions, x, line = [], 0.0, 0
    for width in widths:
        if x and x + width > STRIP_WIDTH:
            x, line = 0.0, line + 1
        positions.append((x, line))
        x += width + GAP
    width_used = max((x + width for (x, _), width in zip(positions, widths, strict=True)), default=0.0)
    step = max([TILE_HEIGHT, *(height_of(word) + 12 for word in words)]) + LINE_GAP
    left, top = sheet.lay_out("How much came from the words", max(width_used, 240), (line + 1) * step + 18)
    for word, width, (x, line_of_word), gate in zip(words, widths, positions, explanation.gate, strict=True):
        y, weight = top + line_of_word * step, 1 - gate
        sheet.rounded(left + x, y, width, step - LINE_GAP, tint(weight, WARM), ROUND)
        word.set_color(readable_on(tint(weight, WARM)))
        sheet.place(word, left + x + width / 2, y + (step - LINE_GAP) / 2, "center")
        sheet.place(sheet.note(f"{weight:.2f}"), left + x + width / 2, y + step - LINE_GAP + 5, "center", "top")
    bottom = top + (line + 1) * step + 8
    draw_colour_scale(sheet, left, bottom, WARM)
    sheet.place(sheet.note(ONE_MINUS_GATE), left + 160, bottom + 5, "left")
    return sheet.save(path)


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
