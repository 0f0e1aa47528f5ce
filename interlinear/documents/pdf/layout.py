"""Builds blocks from the lines of pages: columns, paragraphs over lines and pages, headings, lists, and tables."""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import groupby, pairwise
from statistics import median

from interlinear.documents.pdf.pages import HYPHEN, Line, Page

EDGE = 0.12  # of a page's height: where its header and its footer are
MIN_COLUMN = 4  # lines of a column
MAX_SORTED = 2_000  # lines of a page whose columns are looked for
RUNNING = 0.5  # share of a column's width that lines of running text fill
LARGER = 1.15  # sizes of text from which a line is a heading
SAME = 0.12  # part of its size in which lines of a paragraph differ
MAX_HEADING = 200  # characters
SHORT = 0.15  # part of a column's width that a line leaves where it may be the last of a paragraph
LEVELS = 3  # of headings by size
BULLET = re.compile(r"[•◦▪▫‣●○■□➢➤✓✔·∙\uf0b7\uf0a7*–—-](?:\s+|\Z)")
NUMBER = re.compile(r"\(?(\d{1,3})[.)]\s+(?=\S)|\d{1,3}[.)]\Z")
SENTENCE_END = re.compile(r"[.!?…:;]['\"»“”)\]]*\Z")
JOINING_WORD = re.compile(
    r"(?:und|oder|bzw|sowie|and|or|et|ou)\b"
)  # after the hyphen of a word without its second part
LEADERS = (". .", "...", "…")  # before the number of a page in a table of contents
DIGITS = re.compile(r"\d+")


@dataclass(frozen=True)
class Block:
    """A heading, paragraph, item of a list, or row of a table: its kind as an element of HTML, and its texts, one but
    for rows. number: of an item."""

    kind: str
    texts: tuple[str, ...]
    number: str = ""


@dataclass
class Row:
    """A line of the text in reading order, with its parts that stand apart. limit: the right edge of its column."""

    parts: list[Line]
    limit: float
    page: int

    @property
    def line(self) -> Line:
        return self.parts[0]

    @property
    def text(self) -> str:
        return " ".join(part.text for part in self.parts)

    @property
    def right(self) -> float:
        return max(part.right for part in self.parts)


def read_blocks(pages: Sequence[Page]) -> list[Block]:
    """The blocks of a document. Text at the edge of many pages is kept once; page numbers are dropped."""
    repeated = repeated_texts(pages)
    kept: dict[str, bool] = {}  # a text that is kept once, and whether it is a header
    rows: list[Row] = []
    for number, page in enumerate(pages):
        lines: list[Line] = []
        for line in page.lines:
            if not is_at_edge(line, page) or general(line.text) not in repeated:
                lines.append(line)
            elif not DIGITS.search(line.text):
                kept.setdefault(line.text, line.bottom > page.height / 2)
        rows += [replace(row, page=number) for row in in_reading_order(lines)]
    around = {
        is_header: [paragraph(text) for text, top in kept.items() if top is is_header] for is_header in (True, False)
    }
    return [*around[True], *blocks(rows), *around[False]]


def paragraph(text: str) -> Block:
    return Block("p", (text,))


def general(text: str) -> str:
    """A text without its numbers, for comparison."""
    return DIGITS.sub("0", text)


def is_at_edge(line: Line, page: Page) -> bool:
    """Whether a line is where headers and footers are."""
    return line.bottom > page.height * (1 - EDGE) or line.top < page.height * EDGE


def repeated_texts(pages: Sequence[Page]) -> set[str]:
    """The texts, but for their numbers, at the edges of three pages or more, or of both of two."""
    counts = Counter(
        text for page in pages for text in {general(line.text) for line in page.lines if is_at_edge(line, page)}
    )
    return {text for text, count in counts.items() if count >= min(3, max(2, len(pages)))}


def in_reading_order(lines: list[Line]) -> list[Row]:
    """The lines of a page: each column from top to bottom, and columns from left to right between lines over both."""
    gutter = find_gutter(lines) if len(lines) <= MAX_SORTED else None
    if gutter is None:
        return rows_of(lines)
    ordered: list[Row] = []
    band: list[Line] = []
    for line in sorted(lines, key=lambda line: -line.top):
        if line.left < gutter < line.right:
            ordered += [*column_rows(band, gutter), *rows_of([line])]
            band = []
        else:
            band.append(line)
    return [*ordered, *column_rows(band, gutter)]


def column_rows(band: list[Line], gutter: float) -> list[Row]:
    """The lines on the left of a gutter, then the lines on its right; each side may consist of columns."""
    left = [line for line in band if line.right <= gutter]
    right = [line for line in band if line.right > gutter]
    return [
        *(in_reading_order(left) if right else rows_of(left)),
        *(in_reading_order(right) if left else rows_of(right)),
    ]


def find_gutter(lines: Sequence[Line]) -> float | None:
    """The position that divides the page into columns: between the right edges of lines of running text and the left
    edges of others, crossed by few lines."""
    best, found = 0, None
    for edge in sorted({round(line.right) + 1 for line in lines}):
        left = [line for line in lines if line.right <= edge]
        right = [line for line in lines if line.left >= edge]
        smaller = min(len(left), len(right))
        crossed = len(lines) - len(left) - len(right)
        if smaller >= max(MIN_COLUMN, best + 1, crossed) and is_running(left) and is_running(right):
            best, found = smaller, (edge + min(line.left for line in right)) / 2
    return found


def is_running(lines: Sequence[Line]) -> bool:
    """Whether lines are of running text: most fill their column, and have several words."""
    width = max(line.right for line in lines) - min(line.left for line in lines)
    typical = median(line.right - line.left for line in lines)
    return typical >= RUNNING * width and median(len(line.text.split()) for line in lines) >= 3


def rows_of(lines: Sequence[Line]) -> list[Row]:
    """The lines of one column from top to bottom; parts at one height are one row."""
    limit = max((line.right for line in lines), default=0)
    rows: list[Row] = []
    for line in sorted(lines, key=lambda line: -(line.top + line.bottom)):
        middle = (line.top + line.bottom) / 2
        if rows and rows[-1].line.bottom < middle < rows[-1].line.top:
            rows[-1].parts.append(line)
        else:
            rows.append(Row([line], limit, 0))
    for row in rows:
        row.parts.sort(key=lambda part: part.left)
        if len(row.parts) > 1 and is_marker(row.parts[0].text):
            first, second, *others = row.parts
            row.parts = [
                replace(first, text=f"{first.text} {second.text}", right=second.right, size=second.size),
                *others,
            ]
    return rows


def is_marker(text: str) -> bool:
    """Whether a part of a line is the mark of an item, or the number of a heading."""
    return (
        BULLET.fullmatch(text) is not None or re.fullmatch(r"\(?[\dA-Za-z]{1,3}[.)]|\d+(?:\.\d+)*\.?", text) is not None
    )


def blocks(rows: Sequence[Row]) -> Iterator[Block]:
    """The rows as blocks. The most frequent font size is the text's; rows in larger sizes are headings."""
    sizes: Counter[float] = Counter()
    bold: Counter[bool] = Counter()
    for row in rows:
        sizes[round(row.line.size)] += len(row.text)
        bold[row.line.bold] += len(row.text)
    body = max(sizes, key=sizes.__getitem__, default=0)
    larger = sorted((size for size in sizes if size > body * LARGER), reverse=True)
    spacing = usual_spacing(rows)
    groups: list[list[Row]] = []
    for row in rows:
        if groups and continues(groups[-1], row, spacing):
            groups[-1].append(row)
        else:
            groups.append([row])
    bold_is_usual = bold[True] > bold[False]
    return (block(group, body, larger, bold_is_usual) for group in groups)


def usual_spacing(rows: Sequence[Row]) -> float:
    """The gap between lines of a paragraph, as a part of their size."""
    gaps = [
        (one.line.bottom - other.line.top) / one.line.size
        for one, other in pairwise(rows)
        if one.page == other.page and -0.5 < (one.line.bottom - other.line.top) / max(one.line.size, 0.1) < 1.5
    ]
    return median(gaps) if gaps else 0.0


def continues(group: Sequence[Row], row: Row, spacing: float) -> bool:
    """Whether a row continues the paragraph before it."""
    last, line = group[-1], row.line
    size = max(last.line.size, 0.1)
    if len(row.parts) > 1 or len(last.parts) > 1 or starts_item(row.text):
        return False
    if last.text.rstrip("0123456789ivx ").endswith(LEADERS):
        return False
    if abs(line.size - size) > SAME * size or line.bold is not last.line.bold:
        return False
    ends_sentence = SENTENCE_END.search(last.text) is not None
    is_short = last.right < last.limit - SHORT * (last.limit - group[0].line.left)
    if row.page != last.page or line.bottom > last.line.bottom:  # on the next page, or in the next column
        return last.text.endswith((HYPHEN, "-")) or (not ends_sentence and not is_short) or row.text[:1].islower()
    if last.line.bottom - line.top > (spacing + 0.4) * size:
        return False
    is_item = starts_item(group[0].text)
    is_indented = line.left > last.line.left + 0.8 * size
    if is_indented and not (is_item and len(group) == 1):
        return False
    return not is_short or not (ends_sentence or first_word_fits(last, row))


def first_word_fits(last: Row, row: Row) -> bool:
    """Whether the first word of a row would have fitted into the row before it, which therefore ends a paragraph."""
    share = len(row.text.partition(" ")[0]) / max(len(row.text), 1)
    return last.right + last.line.size + share * (row.right - row.line.left) < last.limit


def starts_item(text: str) -> bool:
    return BULLET.match(text) is not None or NUMBER.match(text) is not None


def block(group: Sequence[Row], body: float, larger: Sequence[float], bold_is_usual: bool) -> Block:
    """The block of these rows."""
    if len(group[0].parts) > 1:
        return Block("tr", tuple(clean(part.text) for part in group[0].parts))
    line, text = group[0].line, join_lines(row.text for row in group)
    if len(text) <= MAX_HEADING and not SENTENCE_END.search(text):
        if round(line.size) in larger:
            return Block(f"h{min(larger.index(round(line.size)) + 1, LEVELS)}", (text,))
        if line.bold and not bold_is_usual and round(line.size) >= body and not BULLET.match(text):
            return Block(f"h{min(len(larger), LEVELS) + 1}", (text,))
    if match := BULLET.match(text):
        return Block("ul", (text[match.end() :],))
    if (match := NUMBER.match(text)) and match[1]:
        return Block("ol", (text[match.end() :],), match[1])
    return paragraph(text)


def join_lines(lines: Iterable[str]) -> str:
    """Lines as one text: a word that was divided at the end of a line is whole again."""
    text = ""
    for line in lines:
        if text.endswith((HYPHEN, "\u00ad", "-")) and text[-2:-1].isalpha():
            if not line[:1].islower():
                text = f"{text[:-1]}-{line}"
            elif JOINING_WORD.match(line):
                text = f"{text[:-1]}- {line}"
            else:
                text = text[:-1] + line
        else:
            text = f"{text} {line}" if text else line
    return clean(text)


def clean(text: str) -> str:
    return text.replace(HYPHEN, "-").replace("\u00ad", "")


def runs(found: Sequence[Block]) -> Iterator[tuple[str, list[Block]]]:
    """Blocks of one kind that follow each other, such as the items of a list."""
    for kind, group in groupby(found, key=lambda one: one.kind):
        yield kind, list(group)
