"""Files of every supported format, which their suffix names and their content must confirm."""

from collections.abc import Callable
from pathlib import Path, PurePath

from documents.document import DocumentFile
from documents.text_formats.gettext_catalogue import read_gettext
from documents.text_formats.json_values import read_json
from documents.text_formats.markdown import read_markdown
from documents.text_formats.plain_text import read_html_file, read_text
from documents.text_formats.subtitles import read_subtitles
from documents.xml_formats.epub import read_epub
from documents.xml_formats.excel import read_xlsx
from documents.xml_formats.opendocument import read_opendocument
from documents.xml_formats.powerpoint import read_pptx
from documents.xml_formats.tmx import read_tmx
from documents.xml_formats.word import read_docx
from documents.xml_formats.xliff import read_xliff
from seq2seq.errors import DataError

Reader = Callable[[bytes, str], DocumentFile]

MAX_BYTES = 50_000_000  # of a file in an archive, which may have pictures
MAX_TEXT_BYTES = 10_000_000  # of a file that is text: ten thick books

TEXT_READERS: dict[str, Reader] = {
    ".txt": read_text,
    ".md": read_markdown,
    ".markdown": read_markdown,
    ".mdx": read_markdown,
    ".html": read_html_file,
    ".htm": read_html_file,
    ".srt": read_subtitles,
    ".vtt": read_subtitles,
    ".json": read_json,
    ".po": read_gettext,
    ".pot": read_gettext,
    ".xlf": read_xliff,
    ".xliff": read_xliff,
    ".tmx": read_tmx,
}
ARCHIVE_READERS: dict[str, Reader] = {
    ".docx": read_docx,
    ".pptx": read_pptx,
    ".xlsx": read_xlsx,
    ".odt": read_opendocument,
    ".odp": read_opendocument,
    ".ods": read_opendocument,
    ".epub": read_epub,
}
READERS = TEXT_READERS | ARCHIVE_READERS
SUFFIXES = tuple(READERS)
WITH_MACROS = (".docm", ".dotm", ".pptm", ".ppsm", ".xlsm", ".xltm", ".xlsb")
FORMER = {".doc": ".docx", ".rtf": ".docx", ".ppt": ".pptx", ".xls": ".xlsx"}


def read_file(path: Path) -> DocumentFile:
    """Read a document from disk. Raises DataError, and OSError if the file cannot be read."""
    check_size(path.stat().st_size, path.name)
    return parse_file(path.read_bytes(), path.name)


def parse_file(data: bytes, name: str) -> DocumentFile:
    """Parse a file; the suffix of its name says the format.

    Raises DataError, located at `name`, for an unknown suffix, a content that is not of this format, encrypted,
    damaged or larger than the limits, one with macros or declared entities, and one without text to translate.
    """
    suffix = suffix_of(name)
    check_size(len(data), name)
    if not data.strip():
        raise DataError(name, "is empty", "give a file with text")
    file = READERS[suffix](data, name)
    if not file.segments:
        raise DataError(name, "has no text to translate", "check that its text is not a picture, or translated already")
    return file


def suffix_of(name: str) -> str:
    """The suffix of a supported format, in lower case. Raises DataError for others."""
    suffix = PurePath(name).suffix.lower()
    if suffix in READERS:
        return suffix
    if suffix in WITH_MACROS:
        raise DataError(name, "may have macros, which are not taken", "save it without them: as .docx, .pptx or .xlsx")
    if suffix in FORMER:
        raise DataError(name, f"is of a format that is not read: {suffix}", f"save it as {FORMER[suffix]}")
    problem = f"is of an unknown format: {suffix}" if suffix else "has no suffix that says its format"
    raise DataError(name, problem, f"formats are {', '.join(SUFFIXES)}")


def check_size(size: int, name: str) -> None:
    """Raises DataError for a file that is larger than its format may be."""
    limit = MAX_BYTES if suffix_of(name) in ARCHIVE_READERS else MAX_TEXT_BYTES
    if size > limit:
        raise DataError(name, f"has {size / 1e6:,.1f} MB, and at most {limit // 10**6} MB are read", "divide it")
