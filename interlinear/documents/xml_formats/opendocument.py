"""OpenDocument texts, presentations and spreadsheets (.odt, .odp, .ods; ISO/IEC 26300): text, headers, footers, notes,
frames, cells. Comments and deleted text stay, and in spreadsheets numbers, dates and formulas."""

import re
from collections.abc import Iterator
from dataclasses import replace
from itertools import takewhile

from interlinear.documents.document import DocumentFile
from interlinear.documents.events import End, Event, Role, Start
from interlinear.documents.formats import document_format
from interlinear.documents.reading.archive import Archive
from interlinear.documents.reading.xml_tree import Element, markup, read_xml
from interlinear.documents.xml_formats.package import archive_file
from interlinear.documents.xml_formats.trees import MixedText, structure, verbatim, xml_document
from interlinear.errors import DataError

OASIS = "urn:oasis:names:tc:opendocument:xmlns:"
NAMESPACES = {
    f"{OASIS}text:1.0": "text",
    f"{OASIS}office:1.0": "office",
    f"{OASIS}drawing:1.0": "draw",
    f"{OASIS}table:1.0": "table",
    f"{OASIS}manifest:1.0": "manifest",
}
KIND = "application/vnd.oasis.opendocument."
SPREADSHEET = f"{KIND}spreadsheet"
KINDS = (f"{KIND}text", f"{KIND}presentation", SPREADSHEET)
PARTS = ("content.xml", "styles.xml")
MANIFEST = "META-INF/manifest.xml"
MACROS = ("basic/", "scripts/")

CELLS = frozenset(("table:table-cell", "table:covered-table-cell"))
STRING_VALUE = re.compile(r"""\s[\w.-]+:string-value\s*=\s*("[^"]*"|'[^']*')""")
PARAGRAPHS = frozenset(("text:p", "text:h"))
INLINE = frozenset("text:span text:a text:meta text:ruby text:ruby-base".split())
SPACES = "text:s"
BREAKS = frozenset(("text:line-break", "text:tab"))
UNTRANSLATED = frozenset("office:annotation text:tracked-changes".split())
# Begins and ends of ranges, which move to the paragraph's begin and end, so that none ends before it begins.
FIRST = frozenset("text:bookmark-start text:reference-mark-start text:change-start".split())
LAST = frozenset("text:bookmark-end text:reference-mark-end text:change-end office:annotation-end".split())
UNSEEN = frozenset(
    "text:bookmark text:reference-mark text:soft-page-break text:change office:annotation text:ruby-text "
    "text:alphabetical-index-mark text:toc-mark text:user-index-mark".split()
)


@document_format(".odt", ".odp", ".ods", is_archive=True)
def read_opendocument(data: bytes, where: str) -> DocumentFile:
    """An OpenDocument text, presentation or spreadsheet. Raises DataError."""
    archive = Archive.open(data, where)
    kind = archive.read("mimetype").decode("ascii", "replace").strip()
    if kind not in KINDS:
        problem = f"is not an OpenDocument text, presentation or spreadsheet, but {kind[:80]}"
        raise DataError(where, problem, "check its suffix")
    if any(name.lower().startswith(MACROS) for name in archive.entries):
        raise DataError(where, "has macros, which are not taken", "save it without them")
    if archive.find(MANIFEST) and read_xml(archive.read(MANIFEST), where, NAMESPACES, doctype=True).root.has(
        "manifest:encryption-data"
    ):
        raise DataError(where, "is encrypted with a password", "save it without password")
    names = [archive.find(name) or name for name in PARTS if name == "content.xml" or archive.find(name)]
    files = [read_xml(archive.read(name), f"{where}: {name}", NAMESPACES) for name in names]
    read = walk_cells if kind == SPREADSHEET else walk
    documents = [xml_document(file, read(file.root)) for file in files]
    return archive_file(archive, names, [file.decoded for file in files], documents)


def walk(element: Element) -> Iterator[Event]:
    """An element of a part: a paragraph, or what is around paragraphs."""
    if element.name in UNTRANSLATED:
        yield from verbatim(markup(element))
    elif element.name in PARAGRAPHS:
        first, last = ("".join(marks(element, names)) for names in (FIRST, LAST))
        leading = list(takewhile(lambda child: isinstance(child, Element) and child.name == SPACES, element.children))
        opening = element.tag + first + "".join(map(markup, leading))
        yield Start(opening, last + element.closing, Role.BLOCK, translate=True)
        yield from PARAGRAPH.content(element.children[len(leading) :])
        yield End()
    else:
        yield from structure(element, walk)


def marks(element: Element, names: frozenset[str]) -> Iterator[str]:
    """The begins or ends of ranges in a paragraph; ranges in its notes and frames stay there."""
    for child in element.elements:
        if child.name in names:
            yield markup(child)
        elif child.name in INLINE:
            yield from marks(child, names)


def walk_cells(element: Element) -> Iterator[Event]:
    """An element of a spreadsheet: a cell, or what is around cells. A cell stays if it is no text, or computed."""
    if element.name in CELLS:
        attributes = element.attributes
        if attributes.get("office:value-type", "string") != "string" or "table:formula" in attributes:
            yield from verbatim(markup(element))
            return
        element = replace(element, tag=STRING_VALUE.sub("", element.tag))  # its text again, which comes before the text
    elif element.name in PARAGRAPHS or element.name in UNTRANSLATED:
        yield from walk(element)
        return
    yield from structure(element, walk_cells)


def role_of(element: Element) -> Role:
    """How an element takes part in a paragraph."""
    if element.name in INLINE:
        return Role.INLINE
    if element.name in BREAKS or element.name == SPACES:
        return Role.LINE_BREAK
    return Role.VERBATIM if element.name in UNTRANSLATED or not element.has(*PARAGRAPHS) else Role.SEPARATE


def is_space(element: Element) -> bool:
    """Whether an element is a space between words. Several align what is beside them, which is divided there."""
    return element.name == SPACES and element.attributes.get("text:c", "1") in ("0", "1")


PARAGRAPH = MixedText(role_of, walk, UNSEEN, is_space, FIRST | LAST)
