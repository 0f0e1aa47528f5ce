"""Packages of Office Open XML (ISO/IEC 29500-2): parts of a zip archive, each with a content type."""

import posixpath
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from interlinear.documents.document import Document, DocumentFile
from interlinear.documents.events import Event
from interlinear.documents.reading.archive import Archive, with_slashes
from interlinear.documents.reading.encoding import DecodedText
from interlinear.documents.reading.xml_tree import Element, XmlFile, read_xml
from interlinear.documents.xml_formats.trees import xml_document
from interlinear.errors import DataError

CONTENT_TYPES = "[Content_Types].xml"
RELATIONSHIPS_NAMESPACE = {"http://schemas.openxmlformats.org/package/2006/relationships": ""}
TYPES_NAMESPACE = {"http://schemas.openxmlformats.org/package/2006/content-types": ""}
MACROS = ("macroEnabled", "vbaProject")


@dataclass(frozen=True)
class PackageFormat:
    """A format of documents in packages.

    kind: its name in messages. main: the end of the content type of its main part. texts: the ends of the content types
    of all parts with text.
    namespaces: prefixes by URI. finish: applied to each part as it is rendered.
    """

    kind: str
    main: str
    texts: Sequence[str]
    namespaces: Mapping[str, str]
    finish: Callable[[str], str] = str


@dataclass(frozen=True)
class Package:
    """A package that is open.

    types: the content type of each part by name. texts: the parsed parts with text.
    """

    package_format: PackageFormat
    archive: Archive
    types: Mapping[str, str]
    texts: Mapping[str, XmlFile]

    def read(self, name: str) -> XmlFile:
        """Another part. Raises DataError."""
        return read_xml(self.archive.read(name), f"{self.archive.where}: {name}", self.package_format.namespaces)

    def parts_of_type(self, kind: str) -> list[str]:
        """The names of the parts whose content type ends so."""
        return [name for name, of_part in self.types.items() if of_part.endswith(kind)]

    def document_file(self, walk: Callable[[Element], Iterator[Event]]) -> DocumentFile:
        """The file of the package; `walk` reads an element of a part with text."""
        documents = [xml_document(file, walk(file.root)) for file in self.texts.values()]
        encodings = [file.decoded for file in self.texts.values()]
        return archive_file(self.archive, list(self.texts), encodings, documents, self.package_format.finish)


def open_package(data: bytes, where: str, package_format: PackageFormat) -> Package:
    """Open a package of a format.

    Raises DataError for a file of another format, with macros, or that cannot be read (`Archive.open`, `read_xml`).
    """
    archive = Archive.open(data, where)
    package = Package(package_format, archive, content_types(archive), {})
    has_macros = any(name in kind for kind in package.types.values() for name in MACROS)
    if has_macros or any(name.lower().endswith("vbaproject.bin") for name in archive.entries):
        raise DataError(where, "has macros, which are not taken", f"save it without them, as {package_format.kind}")
    if not package.parts_of_type(package_format.main):
        raise DataError(where, f"is not {package_format.kind}: it has no part of that kind", "check its suffix")
    names = [name for kind in package_format.texts for name in package.parts_of_type(kind)]
    return replace(package, texts={name: package.read(name) for name in names})


def archive_file(
    archive: Archive,
    names: Sequence[str],
    encodings: Sequence[DecodedText],
    documents: Sequence[Document],
    finish: Callable[[str], str] = str,
) -> DocumentFile:
    """The file of an archive, some of whose parts have texts. `finish` is applied to each part as it is rendered."""

    def assemble(rendered: Sequence[str]) -> bytes:
        parts = zip(names, encodings, rendered, strict=True)
        return archive.replace({name: encoding.encode(finish(text)) for name, encoding, text in parts})

    return DocumentFile(tuple(documents), assemble)


def content_types(archive: Archive) -> dict[str, str]:
    """The content type of every part (ISO/IEC 29500-2, 7.2.3), by its name, else by its suffix. A suffix' type that is
    a main part's applies to the main part only. Raises DataError."""
    file = read_xml(archive.read(CONTENT_TYPES), f"{archive.where}: {CONTENT_TYPES}", TYPES_NAMESPACE)
    types: dict[str, str] = {}
    of_suffixes: dict[str, str] = {}
    for element in file.root.elements:
        attributes = element.attributes
        if element.name == "Override" and (name := archive.find(part_name(attributes.get("PartName", "")))):
            types[name] = attributes.get("ContentType", "")
        elif element.name == "Default":
            of_suffixes[attributes.get("Extension", "").lower()] = attributes.get("ContentType", "")
    main = main_part(archive)
    for name in archive.entries:
        kind = of_suffixes.get(name.rpartition(".")[2].lower(), "")
        if name not in types and (name == main or ".main" not in kind):
            types[name] = kind
    return types


def main_part(archive: Archive) -> str | None:
    """The part to which the package's own relationships lead; None if there is none."""
    return next(iter(related(archive, "", "officeDocument").values()), None)


def related(archive: Archive, name: str, kind: str) -> dict[str, str]:
    """The names of the parts to which a part, or "" the package, has relationships of a kind, by their identifiers.
    Raises DataError."""
    folder, base = posixpath.split(name)
    listed = archive.find(posixpath.join(folder, "_rels", f"{base}.rels"))
    if listed is None:
        return {}
    file = read_xml(archive.read(listed), f"{archive.where}: {listed}", RELATIONSHIPS_NAMESPACE)
    found = {
        element.attributes.get("Id", ""): archive.find(part_name(element.attributes.get("Target", ""), folder))
        for element in file.root.elements
        if element.attributes.get("Type", "").endswith(f"/{kind}")
    }
    return {identifier: part for identifier, part in found.items() if part}


def part_name(address: str, folder: str = "") -> str:
    """The name of the part at an address, which may be relative to a folder."""
    return posixpath.normpath(posixpath.join("/", folder, with_slashes(address))).lstrip("/")
