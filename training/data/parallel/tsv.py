"""Parallel text in a TSV: a pair on each line, its sides between tabs, without quoting."""

import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from interlinear.errors import DataError
from training.data.parallel.languages import LanguagePair, match_code, recognized_code
from training.data.parallel.pair_file import Pair
from training.data.text_lines import clean_text, read_file

SIDES = ("source", "target")  # column names other than languages


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
        """The pairs of all lines but the header. Raises DataError for a line without one of the columns, or with other
        columns than the first line: a tab inside a sentence would move its rest into the next column."""
        first = first_cells(self.path)
        header = header_columns(first, self.languages)
        source, target = header or (0, 1)
        lines = read_file(self.path)
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
            elif any(map(str.strip, (*cells[len(first) :], *first[len(cells) :]))):
                raise DataError(
                    f"{self.path}, line {number}",
                    f"has {len(cells)} columns, and line 1 has {len(first)}: {clean_text(line)[:60]!r}",
                    "write a space for a tab inside a sentence, or leave such lines out: "
                    f"`awk -F '\\t' 'NF == {len(first)}' {shlex.quote(str(self.path))} > NEW`",
                )
            else:
                yield clean_text(cells[source]), clean_text(cells[target])


def first_cells(path: Path) -> list[str]:
    """The cells of the first line, which may be a header. Raises DataError for a file without lines."""
    line = next(read_file(path), None)
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
    source, target = (*map(recognized_code, first_cells(path)), None, None)[:2]
    return (source, target) if source and target and source != target else None
