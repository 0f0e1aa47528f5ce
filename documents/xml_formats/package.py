"""Packages of Office Open XML (ISO/IEC 29500-2): parts of a zip archive, each with a content type."""

import posixpath
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from documents.document import Document, DocumentFile
from documents.events import Event
from documents.reading.archive import Archive, with_slashes
from documents.reading.xml_tree import Element, XmlFile, read_xml
from documents.xml_formats.trees import xml_document
from seq2seq.errors import DataError

CONTENT_TYPES = "[Content_Types].xml"
RELATIONSHIPS = "_rels/.rels"
RELATIONSHIPS_NAMESPACE = {"http://schemas.openxmlformats.org/package/2006/relationships": ""}
TYPES_NAMESPACE = {"http://schemas.openxmlformats.org/package/2006/content-types": ""}
MACROS = ("macroEnabled", "vbaProject")


@dataclass(frozen=True)
class PackageFormat:
    """A format of documents in packages.

    kind: what messages call it.
    main: the end of the content type of its main part. texts: those of all parts with text.
    namespaces: prefixes by URI. finish: applied to each part as it is rendered.
    """

    kind: str
    main: str
    texts: Sequence[str]
    namespaces: Mapping[str, str]
    finish: Callable[[str], str] = str


def read_package(
    data: bytes,
    where: str,
    package_format: PackageFormat,
    walk_of: Callable[[Archive], Callable[[Element], Iterator[Event]]],
) -> DocumentFile:
    """Read the parts of a package; `walk_of` makes the function that reads a part's elements.

    Raises DataError for what is not of this format, has macros, or cannot be read (`Archive.open`, `read_xml`).
    """
    archive = Archive.open(data, where)
    types = content_types(archive)
    macros = next((part for part, kind in types.items() if any(name in kind for name in MACROS)), None)
    if macros or any(name.lower().endswith("vbaproject.bin") for name in archive.entries):
        raise DataError(where, "has macros, which are not taken", f"save it without them, as {package_format.kind}")
    if not any(kind.endswith(package_format.main) for kind in types.values()):
        raise DataError(where, f"is not {package_format.kind}: it has no part of that kind", "check its suffix")
    names = [
        name for kind in package_format.texts for name, of_part in types.items()
        if of_part.endswith(kind)
    ]  # fmt: skip
    walk = walk_of(archive)
    files = [read_xml(archive.read(name), f"{where}: {name}", package_format.namespaces) for name in names]
    documents = [xml_document(file, walk(file.root)) for file in files]
    return archive_file(archive, names, files, documents, package_format.finish)


def archive_file(
    archive: Archive,
    names: Sequence[str],
    files: Sequence[XmlFile],
    documents: Sequence[Document],
    finish: Callable[[str], str] = str,
) -> DocumentFile:
    """The file of an archive, some of whose parts have texts. `finish` is applied to each part as it is rendered."""
    encodings = [file.decoded for file in files]  # not the trees

    def assemble(rendered: Sequence[str]) -> bytes:
        parts = zip(names, encodings, rendered, strict=True)
        return archive.replace({name: encoding.encode(finish(text)) for name, encoding, text in parts})

    return DocumentFile(tuple(documents), assemble)


def content_types(archive: Archive) -> dict[str, str]:
    """The content type of every part (ISO/IEC 29500-2, 7.2.3): that of its name, else that of its suffix. If the latter
    is of a main part, only the main part has it. Raises DataError."""
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
    if archive.find(RELATIONSHIPS) is None:
        return None
    file = read_xml(archive.read(RELATIONSHIPS), f"{archive.where}: {RELATIONSHIPS}", RELATIONSHIPS_NAMESPACE)
    targets = [
        element.attributes.get("Target", "") for element in file.root.elements
        if element.attributes.get("Type", "").endswith("/officeDocument")
    ]  # fmt: skip
    return archive.find(part_name(targets[0])) if targets else None


def part_name(address: str, folder: str = "") -> str:
    """The name of the part at an address, which may be relative to a folder."""
    return posixpath.normpath(posixpath.join("/", folder, with_slashes(address))).lstrip("/")
