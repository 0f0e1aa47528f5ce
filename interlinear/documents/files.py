"""Files of every supported format, which their suffix names and their content must confirm."""

from codecs import BOM_UTF8
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path, PurePath

from interlinear.documents.document import DocumentFile
from interlinear.documents.markdown.markdown_file import read_markdown
from interlinear.documents.pdf.pdf_file import read_pdf
from interlinear.documents.reading.encoding import decode_text
from interlinear.documents.text_formats.gettext_catalogue import read_gettext
from interlinear.documents.text_formats.plain_text import read_html_file, read_text
from interlinear.documents.text_formats.subtitles import read_subtitles
from interlinear.documents.values.delimited import read_csv, read_tsv
from interlinear.documents.values.java_properties import read_apple_strings, read_properties
from interlinear.documents.values.json_values import read_json
from interlinear.documents.values.values import ReadOptions
from interlinear.documents.values.yaml_values import read_yaml
from interlinear.documents.xml_formats.epub import read_epub
from interlinear.documents.xml_formats.excel import read_xlsx
from interlinear.documents.xml_formats.opendocument import read_opendocument
from interlinear.documents.xml_formats.powerpoint import read_pptx
from interlinear.documents.xml_formats.resources import read_android, read_resx
from interlinear.documents.xml_formats.tmx import read_tmx
from interlinear.documents.xml_formats.word import read_docx
from interlinear.documents.xml_formats.xliff import read_xliff
from interlinear.errors import DataError

Reader = Callable[[bytes, str], DocumentFile]
ReaderOfValues = Callable[[bytes, str, ReadOptions], DocumentFile]

AS_IT_SAYS = ReadOptions()  # all texts, in the encoding that the file or its format has
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
    ".po": read_gettext,
    ".pot": read_gettext,
    ".xlf": read_xliff,
    ".xliff": read_xliff,
    ".tmx": read_tmx,
}
VALUE_READERS: dict[str, ReaderOfValues] = {  # of files of keys or columns with values
    ".json": read_json,
    ".arb": read_json,
    ".yaml": read_yaml,
    ".yml": read_yaml,
    ".csv": read_csv,
    ".tsv": read_tsv,
    ".properties": read_properties,
    ".strings": read_apple_strings,
    ".xml": read_android,
    ".resx": read_resx,
}
ARCHIVE_READERS: dict[str, Reader] = {
    ".docx": read_docx,
    ".pptx": read_pptx,
    ".xlsx": read_xlsx,
    ".odt": read_opendocument,
    ".odp": read_opendocument,
    ".ods": read_opendocument,
    ".epub": read_epub,
    ".pdf": read_pdf,  # an archive too: of objects, which may be packed
}
SUFFIXES = (*TEXT_READERS, *VALUE_READERS, *ARCHIVE_READERS)
WRITTEN = {".pdf": ".html"}  # suffixes of translations that have another than their source
DECLARING = (".po", ".pot", ".xlf", ".xliff", ".tmx", ".xml", ".resx", *ARCHIVE_READERS)  # they say their encoding
WITH_MACROS = (".docm", ".dotm", ".pptm", ".ppsm", ".xlsm", ".xltm", ".xlsb")
FORMER = {".doc": ".docx", ".rtf": ".docx", ".ppt": ".pptx", ".xls": ".xlsx"}


def read_file(path: Path, options: ReadOptions = AS_IT_SAYS) -> DocumentFile:
    """Read a document from disk. Raises DataError, and OSError if the file cannot be read."""
    check_size(path.stat().st_size, path.name)
    return parse_file(path.read_bytes(), path.name, options)


def parse_file(data: bytes, name: str, options: ReadOptions = AS_IT_SAYS) -> DocumentFile:
    """Parse a file; the suffix of its name says the format.

    Raises DataError, located at `name`, for an unknown suffix, a content that is not of this format, encrypted,
    damaged or larger than the limits, one with macros or declared entities, one without text to translate, and for
    options that its format does not have.
    """
    suffix = suffix_of(name)
    check_size(len(data), name)
    if not data.strip():
        raise DataError(name, "is empty", "give a file with text")
    if options.keys and suffix not in VALUE_READERS:
        raise DataError(name, "has neither keys nor columns to name", f"name them in {', '.join(VALUE_READERS)}")
    if options.encoding and suffix in DECLARING:
        raise DataError(name, "is of a format that says its encoding itself", "leave the encoding out")
    file = parse_encoded(data, name, options) if options.encoding else parse(data, name, options)
    file = replace(file, warnings=file.warnings + tuple(warning for part in file.parts for warning in part.warnings))
    if not file.segments:
        raise DataError(name, "has no text to translate", "check that its text is not a picture, or translated already")
    return file


def parse(data: bytes, name: str, options: ReadOptions) -> DocumentFile:
    """Parse a file in the encoding that its format has."""
    suffix = suffix_of(name)
    if suffix in VALUE_READERS:
        return VALUE_READERS[suffix](data, name, options)
    return (TEXT_READERS | ARCHIVE_READERS)[suffix](data, name)


def parse_encoded(data: bytes, name: str, options: ReadOptions) -> DocumentFile:
    """Parse a text file in the encoding that the options name, as one in UTF-8. The translation is in this encoding
    too if it has all its characters, or HTML's references for them; else in UTF-8."""
    decoded = decode_text(data, name, options.encoding)
    file = parse(BOM_UTF8 + decoded.text.encode(), name, options)

    def assemble(rendered: Sequence[str]) -> bytes:
        written = file.assemble(rendered).removeprefix(BOM_UTF8).decode()
        keeps = suffix_of(name) in (".html", ".htm") or decoded.has_characters_of(written)
        return decoded.encode(written) if keeps else written.encode()

    return replace(file, assemble=assemble)


def written_suffix(name: str) -> str:
    """The suffix of a document's translation. Raises DataError for a document of an unknown format."""
    suffix = suffix_of(name)
    return WRITTEN.get(suffix, PurePath(name).suffix)


def suffix_of(name: str) -> str:
    """The suffix of a supported format, in lower case. Raises DataError for others."""
    suffix = PurePath(name).suffix.lower()
    if suffix in SUFFIXES:
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
