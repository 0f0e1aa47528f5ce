"""E-books (.epub): the chapters, which are XHTML, and the table of contents."""

import posixpath
import re
from collections.abc import Iterator
from dataclasses import replace
from typing import NamedTuple
from urllib.parse import unquote

from interlinear.documents.builder import build_document
from interlinear.documents.document import Document, DocumentFile
from interlinear.documents.events import AttributeText, End, Event, Role, Start
from interlinear.documents.formats import document_format
from interlinear.documents.html import elements as html
from interlinear.documents.html import parse_html
from interlinear.documents.reading.archive import Archive
from interlinear.documents.reading.encoding import DecodedText
from interlinear.documents.reading.xml_tree import ATTRIBUTE, Element, NotWellFormedError, decode_xml, read_xml
from interlinear.documents.xml_formats.package import archive_file
from interlinear.documents.xml_formats.trees import MixedText, structure, verbatim, xml_document
from interlinear.errors import DataError

NAMESPACES = {
    "http://www.w3.org/1999/xhtml": "",
    "http://www.daisy.org/z3986/2005/ncx/": "ncx",
    "urn:oasis:names:tc:opendocument:xmlns:container": "container",
    "http://www.w3.org/2001/04/xmlenc#": "encryption",
    "http://www.idpf.org/2007/opf": "package",
}
MIMETYPE = "application/epub+zip"
CHAPTERS = (".xhtml", ".html", ".htm", ".ncx")
CHAPTER_TYPES = ("application/xhtml+xml", "application/x-dtbncx+xml")
CONTAINER = "META-INF/container.xml"
ENCRYPTION = "META-INF/encryption.xml"
FONTS = ("http://www.idpf.org/2008/embedding", "http://ns.adobe.com/pdf/enc#RC")  # fonts made unreadable; text is not
NCX_TEXT = "ncx:text"
HTML = re.compile(r"<(?:html|body|p|div|h[1-6])[\s>]", re.IGNORECASE)
EMPTY_ELEMENT = re.compile(r"<([A-Za-z][\w:.-]*)(?=[\s/])([^<>]*)/>")


@document_format(".epub", is_archive=True)
def read_epub(data: bytes, where: str) -> DocumentFile:
    """An e-book. Raises DataError, also for one with copy protection."""
    archive = Archive.open(data, where)
    kind = archive.read("mimetype").decode("ascii", "replace").strip()
    if kind != MIMETYPE:
        raise DataError(where, f"is not an e-book, but {kind[:80]}", "check its suffix")
    if archive.find(ENCRYPTION):
        check_encryption(archive)
    names = chapter_names(archive)
    chapters = [read_chapter(archive.read(name), f"{where}: {name}") for name in names]
    warnings = tuple(
        f"The chapter {name} {chapter.warning}."
        for name, chapter in zip(names, chapters, strict=True)
        if chapter.warning
    )
    file = archive_file(
        archive, names, [chapter.decoded for chapter in chapters], [chapter.document for chapter in chapters]
    )
    return replace(file, warnings=warnings)


class Chapter(NamedTuple):
    """A part with text. warning: why it is not read as XHTML; "" if it is."""

    decoded: DecodedText
    document: Document
    warning: str = ""


def read_chapter(data: bytes, where: str) -> Chapter:
    """A chapter, or a table of contents. One that is not well-formed is read as HTML if that is what it is, and stays
    otherwise. Raises DataError."""
    try:
        file = read_xml(data, where, NAMESPACES, doctype=True)
        return Chapter(file.decoded, xml_document(file, walk(file.root)))
    except NotWellFormedError as error:
        decoded = decode_xml(data, where)
        if found := HTML.search(decoded.text):
            document = read_as_html(decoded.text, found.start(), where)
            return Chapter(decoded, document, f"{error.problem}; it is read as HTML")
        return Chapter(decoded, build_document([*verbatim(decoded.text)], str, str), f"{error.problem}; it stays")


def read_as_html(text: str, begin: int, where: str) -> Document:
    """A chapter as a browser reads it, from where its HTML begins. What stands after it stays. Raises DataError."""
    end = text.rfind("</html>") + len("</html>")
    end = end if end > begin else len(text)
    document = parse_html(EMPTY_ELEMENT.sub(with_end_tag, text[begin:end]), where)
    return replace(document, template=(text[:begin], *document.template, text[end:]))


def with_end_tag(empty: "re.Match[str]") -> str:
    """An empty element of XHTML as HTML reads it: with an end tag if it may have one."""
    return empty[0] if empty[1].lower() in html.VOID else f"<{empty[1]}{empty[2]}></{empty[1]}>"


def chapter_names(archive: Archive) -> list[str]:
    """The names of the chapters and tables of contents: from the manifest, and also by suffix if the manifest is
    unusable."""
    try:
        names = {archive.find(name) or name for name in manifest_names(archive)}
    except DataError:
        names = set()
    if not names or not names <= archive.entries.keys():
        names |= {name for name in archive.entries if name.lower().endswith(CHAPTERS)}
    return [name for name in archive.entries if name in names]


def manifest_names(archive: Archive) -> Iterator[str]:
    """The names of the chapters and tables of contents that the book's manifests list. Raises DataError."""
    container = read_xml(archive.read(CONTAINER), archive.where, NAMESPACES)
    rootfiles = (element for element in container.root.walk() if element.name == "container:rootfile")
    for package in {rootfile.attributes.get("full-path", "") for rootfile in rootfiles}:
        for item in read_xml(archive.read(package), archive.where, NAMESPACES, doctype=True).root.walk():
            address = unquote(item.attributes.get("href", ""))
            is_chapter = item.attributes.get("media-type") in CHAPTER_TYPES or address.lower().endswith(CHAPTERS)
            if item.name == "package:item" and is_chapter:
                yield posixpath.normpath(posixpath.join(posixpath.dirname(package), address))


def check_encryption(archive: Archive) -> None:
    """Raises DataError if more than fonts is encrypted."""
    file = read_xml(archive.read(ENCRYPTION), f"{archive.where}: {ENCRYPTION}", NAMESPACES)
    methods = [element for element in file.root.walk() if element.name == "encryption:EncryptionMethod"]
    if any(element.attributes.get("Algorithm") not in FONTS for element in methods):
        raise DataError(archive.where, "is encrypted (copy protection)", "take one without")


def walk(element: Element) -> Iterator[Event]:
    """An element of a part: of XHTML, or of the older table of contents."""
    if element.name == NCX_TEXT:
        yield Start(element.tag, element.closing, Role.BLOCK, translate=True)
        yield from element.children  # type: ignore[misc]
        yield End()
    elif element.name.startswith("ncx:") or element.name.startswith("?:"):
        yield from structure(element, walk)
    else:
        yield from TEXT.content([element])


def block(element: Element) -> Iterator[Event]:
    """An element of XHTML whose text is translated separately."""
    yield Start(element.tag, element.closing, Role.BLOCK, says_translate(element), attributes=attributes_of(element))
    yield from TEXT.content(element.children)
    yield End()


def role_of(element: Element) -> Role:
    """The role of an element in XHTML; other vocabularies, such as SVG and MathML, stay unchanged."""
    return Role.VERBATIM if ":" in element.name else html.role_of(element.name)


def says_translate(element: Element) -> bool | None:
    """Whether an element declares its content translatable or not; None without a declaration."""
    return html.says_translate(element.attributes)


def attributes_of(element: Element) -> list[AttributeText]:
    """The attributes with texts, as they stand in the tag."""
    names = set(html.translated_attributes(element.name, dict(element.attributes)))
    return [
        AttributeText(found[1], found.start(1), found.end(), element.attributes[found[1]])
        for found in ATTRIBUTE.finditer(element.tag)
        if found[1] in names
    ]


TEXT = MixedText(role_of, block, html.UNSEEN, attributes=attributes_of, translate=says_translate)
