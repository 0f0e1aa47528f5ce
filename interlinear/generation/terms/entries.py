"""The entries of a glossary as text: a source and a target on each line, with a tab or a comma between them."""

import csv
from collections.abc import Iterable, Iterator
from typing import Literal

from interlinear.errors import DataError
from interlinear.generation.terms.finder import GlossaryEntry
from interlinear.generation.terms.term import MULTILINE

EntriesFormat = Literal["tsv", "csv"]


def parse_entries(lines: Iterable[str], entries_format: EntriesFormat, where: str) -> Iterator[GlossaryEntry]:
    """The entries of lines, in csv with quotes around texts that have a comma. Empty lines, and columns behind the
    first two, are left out.

    Raises DataError, located at `where` and the line, for a line without a source and a target, and for a text with a
    tab or a line break, which quotes allow in csv.
    """
    comma = entries_format == "csv"
    rows = csv.reader(lines) if comma else csv.reader(lines, delimiter="\t", quoting=csv.QUOTE_NONE)
    try:
        for row in rows:
            if not any(cell.strip() for cell in row):
                continue
            if len(row) < 2 or not row[0].strip() or not row[1].strip():
                raise DataError(
                    f"{where}, line {rows.line_num}",
                    "it is not a source and a target",
                    f"write both, with {'a comma' if comma else 'a tab'} between them",
                )
            entry = GlossaryEntry(row[0].strip(), row[1].strip())
            if any("\t" in text or MULTILINE.search(text) for text in entry):
                raise DataError(
                    f"{where}, line {rows.line_num}",
                    "a text has a tab or a line break",
                    "write each text on one line, without tabs",
                )
            yield entry
    except csv.Error as error:
        raise DataError(f"{where}, line {rows.line_num}", f"it cannot be read ({error})") from None


def write_entries(entries: Iterable[GlossaryEntry]) -> str:
    """The entries with tabs, one a line."""
    return "\n".join(f"{entry.source}\t{entry.target}" for entry in entries)
