"""Formats of documents: each is a function that reads a file, registered by the suffixes of its files."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from interlinear.components import DOCUMENT_FORMATS
from interlinear.documents.document import DocumentFile

MAX_BYTES = 50_000_000  # bytes of an archive, which may have pictures
MAX_TEXT_BYTES = 10_000_000  # bytes of a text file: ten thick books

Reader = TypeVar("Reader", bound=Callable[..., DocumentFile])


@dataclass(frozen=True)
class ReadOptions:
    """Options for reading a file, for properties that the file does not declare.

    keys: names of the keys or columns whose values are translated, all if there are none. A nested key is named with
    its parents (`menu.title`) or without (`title`), a column by its name or number, from 1. encoding: of a text file
    without byte order mark; None: the format's default.
    """

    keys: tuple[str, ...] = ()
    encoding: str | None = None


@dataclass(frozen=True)
class DocumentFormat:
    """A format, and the function that reads its files from their bytes, their name and, `has_keys`, `ReadOptions`.

    has_keys: a file has keys or columns, which the options may name. is_archive: a file is not text, but an archive of
    parts or of objects. declares_encoding: a text file declares its encoding. has_references: characters that a text
    file's encoding lacks are written as character references (`&#8364;`). translated_suffix: of translations, where
    they have another one.
    """

    read: Callable[..., DocumentFile]
    has_keys: bool = False
    is_archive: bool = False
    declares_encoding: bool = False
    has_references: bool = False
    translated_suffix: str | None = None

    def __call__(self, data: bytes, name: str, options: ReadOptions) -> DocumentFile:
        """Read a file. Raises DataError, located at its name."""
        return self.read(data, name, options) if self.has_keys else self.read(data, name)

    @property
    def max_bytes(self) -> int:
        """The largest file that is read."""
        return MAX_BYTES if self.is_archive else MAX_TEXT_BYTES


def document_format(
    *suffixes: str,
    has_keys: bool = False,
    is_archive: bool = False,
    declares_encoding: bool = False,
    has_references: bool = False,
    translated_suffix: str | None = None,
) -> Callable[[Reader], Reader]:
    """Decorates the function that reads files with these suffixes, in lower case; else as in `DocumentFormat`."""

    def register(read: Reader) -> Reader:
        facts = (has_keys, is_archive, declares_encoding, has_references, translated_suffix)
        DOCUMENT_FORMATS.register(*suffixes)(DocumentFormat(read, *facts))
        return read

    return register
