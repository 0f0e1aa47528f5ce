"""Workbooks (.xlsx): the texts of cells. Formulas, names of sheets and comments stay."""

import re
from collections.abc import Iterator
from functools import partial

from documents.document import DocumentFile
from documents.events import End, Event, Role, Start, Text
from documents.reading.archive import Archive
from documents.reading.xml_tree import Element, escape_xml, markup, read_xml
from documents.text_formats.messages import message_events
from documents.xml_formats.package import PackageFormat, content_types, read_package
from documents.xml_formats.runs import RunNames, RunParagraph, Walk, without_empty_runs
from documents.xml_formats.trees import mark, structure, verbatim

STRING, INLINE_STRING, RUN, TEXT = "si", "is", "r", "t"
# A character that XML lacks, or reads as another one, by its code; `_x005F_x000D_` is a text that looks like one.
CODE = re.compile("_x([0-9A-Fa-f]{4})_")
CODES = re.compile(r"(_x000[Dd]_(?:\n|_x000[Aa]_)?|(?:_x005[Ff])?_x[0-9A-Fa-f]{4}_)")


def text_events(text: str) -> Iterator[Event]:
    """The events of a text in a cell: messages between codes of characters, which stay."""
    for n, piece in enumerate(CODES.split(text)):
        if n % 2:  # a code
            yield from mark(piece, Role.LINE_BREAK if displayed(piece).isspace() else Role.VERBATIM)
        else:
            yield from escaped(message_events(piece))


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
XLSX = PackageFormat(
    kind="a workbook (.xlsx)",
    main="spreadsheetml.sheet.main+xml",
    texts=("spreadsheetml.sharedStrings+xml", "spreadsheetml.worksheet+xml"),
    namespaces={
        "http://schemas.openxmlformats.org/spreadsheetml/2006/main": "",
        "http://purl.oclc.org/ooxml/spreadsheetml/main": "",
    },
    finish=partial(without_empty_runs, names=CELLS),
)


def read_xlsx(data: bytes, where: str) -> DocumentFile:
    """A workbook. The names of columns of tables stay, since formulas refer to them. Raises DataError."""
    return read_package(data, where, XLSX, lambda archive: cell_walker(column_names(archive)))


def column_names(archive: Archive) -> frozenset[str]:
    """The names of all columns of tables. The cells above them must have the same text."""
    names = [name for name, kind in content_types(archive).items() if kind.endswith("spreadsheetml.table+xml")]
    tables = [read_xml(archive.read(name), f"{archive.where}: {name}", XLSX.namespaces) for name in names]
    return frozenset(
        displayed(element.attributes.get("name", ""))
        for table in tables for element in table.root.walk()
        if element.name == "tableColumn"
    )  # fmt: skip


def cell_walker(untranslated: frozenset[str]) -> Walk:
    """The function that reads an element of a part: a cell's text, or what is around it."""

    def walk(element: Element) -> Iterator[Event]:
        if element.name not in (STRING, INLINE_STRING):
            yield from structure(element, walk)
        elif displayed("".join(part.text() for part in element.elements if part.name in (RUN, TEXT))) in untranslated:
            yield from verbatim(markup(element))
        elif element.find(RUN):
            yield from RunParagraph(CELLS, element, walk).events()
        else:
            yield from plain_string(element)

    return walk


def plain_string(element: Element) -> Iterator[Event]:
    """A text without formatting. Its line ends stay."""
    text = element.find(TEXT)
    if text is None or not text.closing:
        yield from verbatim(markup(element))
        return
    rest = "".join(markup(child) for child in element.elements if child is not text)
    yield Start(element.tag + text.tag, text.closing + rest + element.closing, Role.BLOCK, translate=True)
    yield from text_events(text.text())
    yield End()
