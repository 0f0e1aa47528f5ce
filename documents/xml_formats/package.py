"""Packages of Office Open XML (ISO/IEC 29500-2): parts of a zip archive, each with a content type."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from documents.document import Document, DocumentFile
from documents.events import Event
from documents.reading.archive import Archive
from documents.reading.xml_tree import Element, XmlFile, read_xml
from documents.xml_formats.trees import xml_document
from seq2seq.errors import DataError

CONTENT_TYPES = "[Content_Types].xml"
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
    if macros or any(name.endswith("vbaProject.bin") for name in archive.entries):
        raise DataError(where, "has macros, which are not taken", f"save it without them, as {package_format.kind}")
    if not any(kind.endswith(package_format.main) for kind in types.values()):
        raise DataError(where, f"is not {package_format.kind}: it has no part of that kind", "check its suffix")
    names = [
        name for kind in package_format.texts for name, of_part in types.items()
        if of_part.endswith(kind) and name in archive.entries
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
    """The content type of every part that is declared by name. Raises DataError."""
    file = read_xml(archive.read(CONTENT_TYPES), f"{archive.where}: {CONTENT_TYPES}", TYPES_NAMESPACE)
    return {
        element.attributes.get("PartName", "").lstrip("/"): element.attributes.get("ContentType", "")
        for element in file.root.elements
        if element.name == "Override"
    }
