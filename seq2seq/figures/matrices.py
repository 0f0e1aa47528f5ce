"""Figures of an explanation: a matrix of attention weights, and the strip of a contextual gate."""

from collections.abc import Sequence
from pathlib import Path

from seq2seq.errors import UsageError
from seq2seq.explain import Explanation
from seq2seq.figures.grid import APART, GAP, LEGEND, ROUND, UNKNOWN, Languages, draw_colour_scale, lay_out
from seq2seq.figures.style import WARM, Sheet, check_suffix, height_of, readable_on, tint, width_of

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
