"""Workbooks (.xlsx): the texts of cells. Formulas, names of sheets and of columns of tables, and comments stay."""

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import partial

from interlinear.documents.document import DocumentFile
from interlinear.documents.events import Event, Role, Start, Text
from interlinear.documents.formats import document_format
from interlinear.documents.messages.messages import message_block, message_events
from interlinear.documents.reading.xml_tree import Element, escape_xml, markup
from interlinear.documents.untranslated import has_letters
from interlinear.documents.xml_formats.package import Package, PackageFormat, open_package
from interlinear.documents.xml_formats.runs import RunNames, RunParagraph, Walk, without_empty_runs
from interlinear.documents.xml_formats.trees import mark, structure, verbatim
from interlinear.documents.xml_formats.workbook import (
    CELL,
    FORMULA,
    INLINE_STRING,
    RUN,
    STRING,
    TEXT,
    VALUE,
    comparisons,
    header_cells,
)

# A character that XML lacks, or reads as another one, by its code; `_x005F_x000D_` is a text that looks like one.
CODE = re.compile("_x([0-9A-Fa-f]{4})_")
CODES = re.compile(r"(_x000[Dd]_(?:\n|_x000[Aa]_)?|(?:_x005[Ff])?_x[0-9A-Fa-f]{4}_)")


def between_codes(text: str, read: Callable[[str], Iterator[Event]]) -> Iterator[Event]:
    """The events of a text in a cell: codes of characters stay, the text between them is translated."""
    for n, piece in enumerate(CODES.split(text)):
        if n % 2:  # a code
            yield from mark(piece, Role.LINE_BREAK if displayed(piece).isspace() else Role.VERBATIM)
        else:
            yield from read(piece)


def text_events(text: str) -> Iterator[Event]:
    """The events of the text of a run."""
    return between_codes(text, lambda piece: escaped(message_events(piece)))


def displayed(text: str) -> str:
    """A text with characters in place of their codes (ISO/IEC 29500-1, 22.9.2.19), and line feeds as line ends."""
    return re.sub("\r\n?", "\n", CODE.sub(lambda code: chr(int(code[1], 16)), text))


def escaped(events: Iterator[Event]) -> Iterator[Event]:
    """The events of a message in XML: its tags are text there."""
    for event in events:
        if isinstance(event, Start):
            yield Start(escape_xml(event.markup), escape_xml(event.closing), event.role)
        elif isinstance(event, Text):
            yield Text(event.text, escape_xml(event.text))
        else:
            yield event


CELLS = RunNames(
    paragraph=STRING,
    run=RUN,
    properties="rPr",
    text=TEXT,
    last=frozenset(["rPh", "phoneticPr"]),  # how a Japanese text is read
    text_attributes=' xml:space="preserve"',
    text_events=text_events,
)
RELATIONSHIPS = ("schemas.openxmlformats.org/officeDocument/2006", "purl.oclc.org/ooxml/officeDocument")
XLSX = PackageFormat(
    kind="a workbook (.xlsx)",
    main="spreadsheetml.sheet.main+xml",
    texts=("spreadsheetml.sharedStrings+xml", "spreadsheetml.worksheet+xml"),
    namespaces={
        "http://schemas.openxmlformats.org/spreadsheetml/2006/main": "",
        "http://purl.oclc.org/ooxml/spreadsheetml/main": "",
        **{f"http://{uri}/relationships": "r" for uri in RELATIONSHIPS},
    },
    finish=partial(without_empty_runs, names=CELLS),
)


@document_format(".xlsx", is_archive=True)
def read_xlsx(data: bytes, where: str) -> DocumentFile:
    """A workbook. The names of columns of tables stay, since formulas refer to them; what compares with a text that is
    translated is named in warnings. Raises DataError."""
    package = open_package(data, where, XLSX)
    headers = header_cells(package)
    texts = (displayed(cell_text(string)) for string in strings(package) if id(string) not in headers)
    warnings = comparisons(package, {text for text in texts if has_letters(text)})
    unread: list[str] = []
    file = package.document_file(cell_walker(headers, unread.append))
    return replace(file, warnings=(*unread, *warnings))


def strings(package: Package) -> Iterator[Element]:
    """The elements with the texts of cells."""
    for part in package.texts.values():
        yield from (element for element in part.root.walk() if is_string(element))


def is_string(element: Element) -> bool:
    """Whether an element has the text of a cell, or of many: a string of its own or a shared one, or a value that is a
    text, and not computed."""
    if element.name == CELL:
        return element.attributes.get("t") == "str" and element.find(FORMULA) is None
    return element.name in (STRING, INLINE_STRING)


def cell_text(string: Element) -> str:
    """The text of a cell as written, without the readings of its characters."""
    return "".join(part.text() for part in string.elements if part.name in (RUN, TEXT, VALUE))


def cell_walker(written: Mapping[int, str], warn: Callable[[str], None]) -> Walk:
    """The function that reads an element of a part: a cell's text, or what is around it. `written` has the markup of
    elements that are not translated, by their identity; `warn` gets a sentence about each message that stays."""

    def walk(element: Element) -> Iterator[Event]:
        if id(element) in written:
            yield from verbatim(written[id(element)])
        elif not is_string(element):
            yield from structure(element, walk)
        elif element.find(RUN):
            yield from RunParagraph(CELLS, element, walk).events()
        else:
            yield from plain_string(element, VALUE if element.name == CELL else TEXT, warn)

    return walk


def plain_string(element: Element, name: str, warn: Callable[[str], None]) -> Iterator[Event]:
    """A text without formatting, in the child of a name: a message, since workbooks are tables of messages too."""
    text = element.find(name)
    if text is None or not text.closing:
        yield from verbatim(markup(element))
        return
    rest = "".join(markup(child) for child in element.elements if child is not text)
    content = between_codes(text.text(), lambda piece: iter([Text(piece)]))
    closing = text.closing + rest + element.closing
    yield from message_block(element.tag + text.tag, closing, content, escape_xml, written=markup(element), warn=warn)
