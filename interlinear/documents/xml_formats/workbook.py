"""References of a workbook to the texts of its cells (ISO/IEC 29500-1, 18): headers of tables, which must equal the
names of their columns, and comparisons with texts: formulas, lists, filters."""

import re
from collections.abc import Collection, Iterator, Sequence
from typing import NamedTuple

from interlinear.documents.reading.xml_tree import Element, escape_xml_attribute, markup
from interlinear.documents.xml_formats.package import Package, related
from interlinear.documents.xml_formats.runs import local

CELL, VALUE, FORMULA = "c", "v", "f"
STRING, INLINE_STRING, RUN, TEXT = "si", "is", "r", "t"
REFERENCE = re.compile(r"\$?([A-Z]{1,3})\$?([0-9]{1,7})")
WORKSHEET, TABLE = "spreadsheetml.worksheet+xml", "spreadsheetml.table+xml"


def header_cells(package: Package) -> dict[int, str]:
    """The cells that stay unchanged as headers of tables: the markup of each element with its text, by the identity of
    the element. A cell that shares its text with others that are no headers gets it as its own. Raises DataError."""
    headers = {name: header_references(package, name) for name in package.parts_of_type(WORKSHEET)}
    if not any(headers.values()):
        return {}
    shared = [
        string for name in package.parts_of_type("spreadsheetml.sharedStrings+xml")
        for string in package.texts[name].root.elements if string.name == STRING
    ]  # fmt: skip
    written: dict[int, str] = {}
    of_headers: list[tuple[Element, Element]] = []
    elsewhere: set[int] = set()
    for name, references in headers.items():
        for reference, cell in cells(package.texts[name].root):
            string = shared_string(cell, shared)
            if reference not in references:
                elsewhere.add(id(string))
            elif string:
                of_headers.append((cell, string))
            else:
                written[id(cell)] = markup(cell)
                written |= {id(child): markup(child) for child in cell.elements}
    for cell, string in of_headers:
        if id(string) in elsewhere:
            written[id(cell)] = with_own_text(cell, string)
        else:
            written[id(string)] = markup(string)
    return written


def header_references(package: Package, sheet: str) -> set[tuple[int, int]]:
    """The rows and columns of the headers of a sheet's tables. Raises DataError."""
    found: set[tuple[int, int]] = set()
    for name in related(package.archive, sheet, "table").values():
        table = package.read(name).root
        corners = [position(*corner) for corner in REFERENCE.findall(table.attributes.get("ref", ""))]
        if corners and table.attributes.get("headerRowCount", "1") != "0":
            (row, first), (_, last) = corners[0], corners[-1]
            found |= {(row, column) for column in range(first, last + 1)}
    return found


def position(letters: str, digits: str) -> tuple[int, int]:
    """The row and the column of a reference, from 1."""
    column = 0
    for letter in letters:
        column = column * 26 + ord(letter) - ord("A") + 1
    return int(digits), column


def cells(sheet: Element) -> Iterator[tuple[tuple[int, int], Element]]:
    """The cells of a sheet with their rows and columns; one without reference is beside the one before."""
    row = 0
    for line in (element for data in sheet.elements if data.name == "sheetData" for element in data.elements):
        row, column = row + 1, 0
        for cell in line.elements:
            reference = REFERENCE.fullmatch(cell.attributes.get("r", ""))
            row, column = position(*reference.groups()) if reference else (row, column + 1)
            yield (row, column), cell


def shared_string(cell: Element, shared: Sequence[Element]) -> Element | None:
    """The shared text that a cell has; None for other cells."""
    value = cell.find(VALUE)
    number = value.text().strip() if value and cell.attributes.get("t") == "s" else ""
    return shared[int(number)] if number.isdecimal() and int(number) < len(shared) else None


def with_own_text(cell: Element, string: Element) -> str:
    """A cell with a text of its own in place of a shared one."""
    kept = {name: value for name, value in cell.attributes.items() if name in ("r", "s", "cm", "vm", "ph")}
    attributes = "".join(f' {name}="{escape_xml_attribute(value)}"' for name, value in kept.items())
    content = "".join(map(markup, string.children))
    name, text = f"{cell.prefix}{CELL}", f"{cell.prefix}{INLINE_STRING}"
    return f'<{name}{attributes} t="inlineStr"><{text}>{content}</{text}></{name}>'


class Comparison(NamedTuple):
    """A comparison with texts: its kind, its place, and the texts."""

    kind: str
    place: str
    texts: Sequence[str]


LITERAL = re.compile(r'"((?:[^"]|"")*)"')  # in a formula
MOST_NAMED = 10  # places in a warning


def comparisons(package: Package, translated: Collection[str]) -> Iterator[str]:
    """Warnings that name what compares with texts that are translated in cells. Raises DataError."""
    texts = {text.strip().casefold() for text in translated}
    places: dict[str, list[str]] = {}
    for comparison in all_comparisons(package):
        found = [text[:40] for text in comparison.texts if text.strip(" *?").casefold() in texts]
        if found:
            places.setdefault(comparison.kind, []).append(f"{comparison.place} ({', '.join(found[:3])})")
    for kind, named in places.items():
        rest = f" and {len(named) - MOST_NAMED:,} more" if len(named) > MOST_NAMED else ""
        where = f"{', '.join(named[:MOST_NAMED])}{rest}"
        yield f"{kind.capitalize()} name texts that are translated in cells, and stay: {where}."
    if package.parts_of_type("spreadsheetml.pivotTable+xml"):
        yield "Pivot tables stay, with the texts of cells as they were: refresh them."


def all_comparisons(package: Package) -> Iterator[Comparison]:
    """The comparisons with texts in sheets, their tables, and the workbook."""
    workbook = package.parts_of_type(package.package_format.main)[0]
    root = package.read(workbook).root
    parts = related(package.archive, workbook, "worksheet")
    titles = {
        parts.get(element.attributes.get("r:id", "")): element.attributes.get("name", "")
        for element in root.walk() if element.name == "sheet"
    }  # fmt: skip
    for name in package.parts_of_type(WORKSHEET):
        sheet = package.texts[name].root
        title = titles.get(name, name)
        for _, cell in cells(sheet):
            if formula := cell.find(FORMULA):
                yield Comparison("formulas", f"{title}!{cell.attributes.get('r', '')}", literals(formula))
        rest = (element for part in sheet.elements if part.name != "sheetData" for element in part.walk())
        for comparison in (each for element in rest for each in rules(element)):
            yield comparison._replace(place=f"{title}!{comparison.place}")
    for name in package.parts_of_type(TABLE):
        yield from (each for element in package.read(name).root.walk() for each in rules(element))
    for element in root.walk():
        if element.name == "definedName":
            yield Comparison("defined names", element.attributes.get("name", ""), literals(element))


def rules(element: Element) -> Iterator[Comparison]:
    """The comparisons with texts in an element of a sheet or table that is no cell, also of a later version of
    Excel."""
    name = local(element.name)
    references = [child.text() for child in element.elements if local(child.name) == "sqref"]
    place = element.attributes.get("sqref") or element.attributes.get("ref") or "".join(references)
    if name == "dataValidation":
        yield Comparison("validation lists", place, [item for text in literals(element) for item in text.split(",")])
    elif name == "conditionalFormatting":
        texts = [rule.attributes["text"] for rule in element.elements if "text" in rule.attributes]
        yield Comparison("conditional formats", place, texts or literals(element))
    elif name == "autoFilter":
        inner = (child.attributes.get("val", "") for child in element.walk() if local(child.name).endswith("ilter"))
        yield Comparison("filters", place, [text for text in inner if text])


def literals(element: Element) -> list[str]:
    """The texts in the formulas of an element."""
    return [text.replace('""', '"') for text in LITERAL.findall(element.text())]
