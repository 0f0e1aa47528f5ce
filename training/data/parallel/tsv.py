"""Parallel text in a TSV: a pair on each line, its sides between tabs, without quoting."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from seq2seq.errors import DataError
from training.data.parallel.languages import SHORT_CODE, LanguagePair, match_code
from training.data.parallel.pair_file import Pair
from training.data.text_lines import clean_text, read_text_lines

SIDES = ("source", "target")  # column names that stand for themselves


@dataclass(frozen=True)
class TsvFile:
    """A TSV. A first line that names both languages, or `source` and `target`, is a header, and chooses the columns;
    without a header the first two columns are read."""

    path: Path
    languages: LanguagePair

    @property
    def paths(self) -> tuple[Path, ...]:
        return (self.path,)

    def pairs(self) -> Iterator[Pair]:
        """The pairs of all lines but the header. Raises DataError for a line without one of the columns."""
        header = header_columns(first_cells(self.path), self.languages)
        source, target = header or (0, 1)
        lines = read_text_lines(self.path)
        for number, line in enumerate(islice(lines, 1 if header else 0, None), 2 if header else 1):
            cells = line.split("\t")
            if not clean_text(line):
                yield "", ""
            elif len(cells) <= max(source, target):
                raise DataError(
                    f"{self.path}, line {number}",
                    f"has {len(cells)} of at least {max(source, target) + 1} columns: {clean_text(line)[:60]!r}",
                    "a line has a source and a target with a tab between them",
                )
            else:
                yield clean_text(cells[source]), clean_text(cells[target])


def first_cells(path: Path) -> list[str]:
    """The cells of the first line, which may be a header. Raises DataError for a file without lines."""
    line = next(read_text_lines(path), None)
    if line is None:
        raise DataError(str(path), "has no lines")
    return [clean_text(cell) for cell in line.split("\t")]


def header_columns(cells: Sequence[str], languages: LanguagePair) -> tuple[int, int] | None:
    """The columns of source and target that a header names; None if the cells are no header."""
    lowered = [cell.casefold() for cell in cells]
    for names in (SIDES, languages):
        columns = [match_code(name, lowered) for name in names]
        source, target = (None if column is None else lowered.index(column) for column in columns)
        if source is not None and target is not None and source != target:
            return source, target
    return None


def infer_languages(path: Path) -> LanguagePair | None:
    """The languages that the header names in its first two columns; None without such a header."""
    first_two = first_cells(path)[:2]
    if len(set(first_two)) < 2 or not all(map(SHORT_CODE.fullmatch, first_two)):
        return None
    return first_two[0], first_two[1]
