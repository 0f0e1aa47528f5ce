"""CSV and TSV: cells with text are translated; delimiters, quotes, line ends and all other cells stay unchanged."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import islice
from statistics import median

from interlinear.documents.document import DocumentFile
from interlinear.documents.formats import ReadOptions, document_format
from interlinear.documents.reading.encoding import decode_text
from interlinear.documents.untranslated import has_letters
from interlinear.documents.values.values import Value, file_of_values, is_text
from interlinear.errors import DataError

DELIMITERS = ",;\t|"
SEPARATOR_LINE = re.compile(r"sep=(.)\r?\n", re.IGNORECASE)  # Excel's declaration of the delimiter
SAMPLE = 100  # lines from which the delimiter and the columns are detected
FORMULA = re.compile(r"=[\w$.]*[(+*/&:-].*", re.DOTALL)
SENTENCE_END = re.compile(r"[.!?…]\s*\Z")
MAX_NAME_WORDS = 5  # of a column
PROSE = 20  # characters that cells of a column with a short name have, if its first line is no text itself


@dataclass(frozen=True)
class Cell:
    """A cell: its place in the text, its value, and whether it is in quotes."""

    start: int
    end: int
    text: str
    quoted: bool


Row = list[Cell]


@document_format(".csv", has_keys=True)
def read_csv(data: bytes, where: str, options: ReadOptions) -> DocumentFile:
    """A CSV file: its delimiter is the one that gives lines the same number of cells. Raises DataError."""
    return read_delimited(data, where, options, DELIMITERS)


@document_format(".tsv", has_keys=True)
def read_tsv(data: bytes, where: str, options: ReadOptions) -> DocumentFile:
    """A TSV file. Quotes that cannot enclose a cell are characters. Raises DataError."""
    return read_delimited(data, where, options, "\t")


def read_delimited(data: bytes, where: str, options: ReadOptions, delimiters: str) -> DocumentFile:
    """A file of cells between one of the delimiters. Raises DataError."""
    decoded = decode_text(data, where)
    text = decoded.text
    said = SEPARATOR_LINE.match(text)
    start = said.end() if said else 0
    delimiter = said[1] if said else find_delimiter(text, delimiters)
    rows = list(read_rows(text, start, delimiter))
    has_quotes = True
    if any(row[-1].end < 0 for row in rows):
        if delimiter != "\t":
            line = text.count("\n", 0, rows[-1][-1].start) + 1
            raise DataError(where, f"has a cell in quotes without end, at line {line}", "close its quotes")
        rows, has_quotes = list(read_rows(text, start, delimiter, quote="")), False
    columns, first = columns_to_translate(rows, options.keys, where)
    write = partial(write_cell, delimiter=delimiter, has_quotes=has_quotes)
    cells = (row[column] for row in rows[first:] for column in columns if column < len(row))
    values = [
        Value(cell.start, cell.end, cell.text, partial(write, quoted=cell.quoted))
        for cell in cells
        if is_translatable(cell)
    ]
    return file_of_values(decoded, values)


def find_delimiter(text: str, delimiters: str) -> str:
    """The delimiter with which most lines have the first line's number of cells; in a tie, the one with the most
    cells."""

    def score(delimiter: str) -> tuple[float, int]:
        counts = [len(row) for row in islice(read_rows(text, 0, delimiter), SAMPLE) if len(row) > 1 or row[0].text]
        if not counts or counts[0] == 1:
            return 0, 0
        return sum(count == counts[0] for count in counts) / len(counts), counts[0]

    return max(delimiters, key=score)


def read_rows(text: str, start: int, delimiter: str, quote: str = '"') -> Iterator[Row]:
    """The lines of a file; the last cell of the last has the end -1 if its quotes do not end."""
    unquoted = re.compile(rf"[^{re.escape(delimiter)}\r\n]*")
    position, row = start, Row()
    while position < len(text) or row:
        cell = read_cell(text, position, quote, unquoted)
        row.append(cell)
        if cell.end < 0:
            yield row
            return
        position = cell.end
        if text.startswith(delimiter, position):
            position += 1
            continue
        yield row
        row = Row()
        position += 2 if text.startswith("\r\n", position) else 1


def read_cell(text: str, start: int, quote: str, unquoted: "re.Pattern[str]") -> Cell:
    """The cell that begins at a position. In quotes a quote is written twice; what follows the last one is text."""
    end = start
    if quote and text.startswith(quote, start):
        end = text.find(quote, start + 1)
        while end >= 0 and text.startswith(quote, end + 1):
            end = text.find(quote, end + 2)
        if end < 0:
            return Cell(start, -1, "", True)
        end += 1
    rest = unquoted.match(text, end)
    end_of_cell = rest.end() if rest else end
    inner = text[start + 1 : end - 1].replace(quote * 2, quote) if end > start else ""
    return Cell(start, end_of_cell, inner + text[end:end_of_cell], end > start)


def write_cell(text: str, quoted: bool, delimiter: str, has_quotes: bool) -> str:
    """A text as a cell: in quotes if the source was, or if it needs them; on one line in a file without quotes."""
    if not has_quotes:
        return re.sub(rf"[{re.escape(delimiter)}\r\n]+", " ", text)
    if quoted or delimiter in text or "\n" in text or "\r" in text or text.startswith('"'):
        return '"' + text.replace('"', '""') + '"'
    return text


def is_translatable(cell: Cell) -> bool:
    """Whether a cell has a text for readers."""
    return has_letters(cell.text) and "\0" not in cell.text and is_text(cell.text) and not FORMULA.fullmatch(cell.text)


def columns_to_translate(rows: Sequence[Row], names: Sequence[str], where: str) -> tuple[list[int], int]:
    """The indices of the columns with text, from 0, or of the named ones; and the index of the first row below their
    names. Raises DataError for a missing column."""
    first = 1 if has_names(rows) else 0
    width = max((len(row) for row in rows), default=0)
    if not names:
        return [column for column in range(width) if has_texts(rows[first : first + SAMPLE * 100], column)], first
    titles = [cell.text.strip() for cell in rows[0]] if rows else []
    columns = []
    for name in names:
        if name in titles:
            columns += [column for column, title in enumerate(titles) if title == name]
            first = 1
        elif name.isdecimal() and 1 <= int(name) <= width:
            columns.append(int(name) - 1)
        else:
            known = ", ".join(title for title in titles if title)[:200]
            raise DataError(where, f"has no column '{name[:80]}'", f"name one of its {width} columns: {known}")
    return sorted(set(columns)), first


def has_texts(rows: Sequence[Row], column: int) -> bool:
    """Whether at least half of the cells of a column that are not empty are texts."""
    cells = [row[column] for row in rows if column < len(row) and row[column].text.strip()]
    return bool(cells) and sum(map(is_translatable, cells)) * 2 >= len(cells)


def has_names(rows: Sequence[Row]) -> bool:
    """Whether the first row has the names of columns: short, distinct, and of another kind than the cells below them:
    an identifier, or a name above numbers, codes or sentences."""
    titles = [cell.text.strip() for cell in rows[0]] if rows else []
    named = [title for title in titles if title]
    if len(rows) < 2 or not named or len(set(named)) < len(named) or not all(map(may_be_name, named)):
        return False
    return any(title and is_other(title, rows[1 : 1 + SAMPLE], column) for column, title in enumerate(titles))


def may_be_name(title: str) -> bool:
    """Whether a text may be the name of a column."""
    return has_letters(title) and len(title.split()) <= MAX_NAME_WORDS and not SENTENCE_END.search(title)


def is_other(title: str, rows: Sequence[Row], column: int) -> bool:
    """Whether a name is of another kind than the cells below it."""
    cells = [row[column] for row in rows if column < len(row) and row[column].text.strip()]
    if not cells:
        return False
    if not is_text(title) or title.lower() in ("id", "key"):
        return True
    if not has_texts(rows, column):
        return True
    length = median(len(cell.text) for cell in cells)
    return length >= max(PROSE, 2 * len(title))
