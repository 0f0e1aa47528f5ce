"""Files of every supported format: the suffix names the format, and the content must match it."""

from codecs import BOM_UTF8
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path, PurePath

from interlinear.components import DOCUMENT_FORMATS
from interlinear.documents.document import DocumentFile
from interlinear.documents.formats import DocumentFormat, ReadOptions
from interlinear.documents.reading.encoding import decode_text
from interlinear.errors import DataError

AS_IT_SAYS = ReadOptions()  # all texts, in the encoding of the file or its format
WITH_MACROS = (".docm", ".dotm", ".pptm", ".ppsm", ".xlsm", ".xltm", ".xlsb")
FORMER = {".doc": ".docx", ".rtf": ".docx", ".ppt": ".pptx", ".xls": ".xlsx"}


def read_file(path: Path, options: ReadOptions = AS_IT_SAYS) -> DocumentFile:
    """Read a document from disk. Raises DataError, and OSError if the file cannot be read."""
    check_size(path.stat().st_size, path.name)
    return parse_file(path.read_bytes(), path.name, options)


def parse_file(data: bytes, name: str, options: ReadOptions = AS_IT_SAYS) -> DocumentFile:
    """Parse a file, whose suffix names its format.

    Raises DataError, located at `name`, for an unknown suffix, a content that is not of this format, encrypted,
    damaged or larger than the limits, one with macros or declared entities, one without text to translate, and for
    options that its format does not have.
    """
    file_format = format_of(name)
    check_size(len(data), name)
    if not data.strip():
        raise DataError(name, "is empty", "give a file with text")
    if options.keys and not file_format.has_keys:
        with_keys = (suffix for suffix, each in DOCUMENT_FORMATS.items() if each.has_keys)
        raise DataError(name, "has neither keys nor columns to name", f"name them in {', '.join(with_keys)}")
    if options.encoding and (file_format.declares_encoding or file_format.is_archive):
        raise DataError(name, "is of a format that says its encoding itself", "leave the encoding out")
    file = read_encoded(file_format, data, name, options) if options.encoding else file_format(data, name, options)
    file = replace(file, warnings=file.warnings + tuple(warning for part in file.parts for warning in part.warnings))
    if not file.segments:
        raise DataError(name, "has no text to translate", "check that its text is not a picture, or translated already")
    return file


def read_encoded(file_format: DocumentFormat, data: bytes, name: str, options: ReadOptions) -> DocumentFile:
    """Read a text file in the encoding of the options as if it were in UTF-8. The translation is in this encoding
    too if it has all its characters, or the format has references for them; else in UTF-8."""
    decoded = decode_text(data, name, options.encoding)
    file = file_format(BOM_UTF8 + decoded.text.encode(), name, options)

    def assemble(rendered: Sequence[str]) -> bytes:
        written = file.assemble(rendered).removeprefix(BOM_UTF8).decode()
        keeps = file_format.has_references or decoded.has_characters_of(written)
        return decoded.encode(written) if keeps else written.encode()

    return replace(file, assemble=assemble)


def format_of(name: str) -> DocumentFormat:
    """The format by the suffix of a file's name. Raises DataError for an unknown one."""
    found: DocumentFormat = DOCUMENT_FORMATS[suffix_of(name)]
    return found


def written_suffix(name: str) -> str:
    """The suffix of a document's translation. Raises DataError for a document of an unknown format."""
    return format_of(name).translated_suffix or PurePath(name).suffix


def suffix_of(name: str) -> str:
    """The suffix of a supported format, in lower case. Raises DataError for others."""
    suffix = PurePath(name).suffix.lower()
    if suffix in DOCUMENT_FORMATS:
        return suffix
    if suffix in WITH_MACROS:
        raise DataError(name, "may have macros, which are not taken", "save it without them: as .docx, .pptx or .xlsx")
    if suffix in FORMER:
        raise DataError(name, f"is of a format that is not read: {suffix}", f"save it as {FORMER[suffix]}")
    problem = f"is of an unknown format: {suffix}" if suffix else "has no suffix that says its format"
    raise DataError(name, problem, f"formats are {', '.join(DOCUMENT_FORMATS)}")


def check_size(size: int, name: str) -> None:
    """Raises DataError for a file that is larger than its format may be."""
    if size > (limit := format_of(name).max_bytes):
        raise DataError(name, f"has {size / 1e6:,.1f} MB, and at most {limit // 10**6} MB are read", "divide it")
