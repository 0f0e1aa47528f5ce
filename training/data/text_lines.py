"""Lines of a text file in UTF-8 or UTF-16, with line ends of any system; plain, gzip or Zstandard."""

import codecs
import io
import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple, cast

from seq2seq.errors import DataError
from training.data.formats import PROBE_BYTES, convert_read_errors, encoding_error, open_decompressed

CHUNK = 1 << 20  # bytes read at a time in search of an invalid byte
BYTE_ORDER_MARKS = {codecs.BOM_UTF16_LE: "utf-16-le", codecs.BOM_UTF16_BE: "utf-16-be"}
# What some program takes for the end of a line, and the byte-order mark, which concatenated files have inside.
BREAK_CHARACTERS = "\n\r\x0b\x0c\x1c-\x1e\x85\u2028\u2029\ufeff"
BREAKS = re.compile(f"[{BREAK_CHARACTERS}][{BREAK_CHARACTERS} \t]*")


class TextForm(NamedTuple):
    """The encoding of a file and the character that ends its lines."""

    encoding: str
    line_end: str


def read_text_lines(path: Path) -> Iterator[str]:
    """The lines of a file, not cleaned: see `clean_text`.

    A line ends with a line feed, or with a carriage return in a file that has no line feed, and nowhere else. UTF-16 is
    recognized by its byte-order mark. Raises DataError with the file, the line and the offset of a byte that is not
    valid in its encoding.
    """
    number = 0
    with open_decompressed(path) as (file, _), convert_read_errors(path, lambda: number):
        form = detect_form(cast(io.BufferedReader, file).peek(PROBE_BYTES))
        text = io.TextIOWrapper(file, form.encoding, newline=form.line_end)
        try:
            for number, line in enumerate(text, 1):
                if "\0" in line:
                    raise nul_error(path, number, form)
                yield line
        except UnicodeDecodeError:
            raise undecodable_error(path, form) from None
        finally:
            text.detach()  # the file is closed by its own context


def clean_text(text: str) -> str:
    """A text as one line: without surrounding white space, and with a space for each run of line breaks inside."""
    return BREAKS.sub(" ", text).strip()


def detect_form(first_bytes: bytes) -> TextForm:
    """The form of a text that begins with these bytes."""
    encoding = BYTE_ORDER_MARKS.get(first_bytes[:2], "utf-8")
    text = first_bytes.decode(encoding, "ignore")
    return TextForm(encoding, "\r" if "\r" in text and "\n" not in text else "\n")


def nul_error(path: Path, line: int, form: TextForm) -> DataError:
    """The error for a NUL character: UTF-16 without a byte-order mark has many, and UTF-32 in place of UTF-16."""
    if form.encoding == "utf-8":
        return encoding_error(path, line, "a NUL byte", None)
    return DataError(f"{path}, line {line}", "has a NUL character: it is not UTF-16", "save the text again, as UTF-8")


def undecodable_error(path: Path, form: TextForm) -> DataError:
    """The error for a file with a byte that is not valid in its encoding; the file is read again to find it."""
    decoder = codecs.getincrementaldecoder(form.encoding)()
    line, offset = 1, 0
    what = "it changed while it was read"
    with open_decompressed(path) as (file, _):
        try:
            while chunk := file.read(CHUNK):
                unfinished = len(decoder.getstate()[0])  # bytes of a character, from which an error counts
                line += decoder.decode(chunk).count(form.line_end)
                offset += len(chunk)
            unfinished = len(decoder.getstate()[0])
            decoder.decode(b"", final=True)
        except UnicodeDecodeError as error:
            line += error.object[: error.start].decode(form.encoding).count(form.line_end)
            what = f"byte 0x{error.object[error.start]:02x} at offset {offset - unfinished + error.start:,}"
    if form.encoding == "utf-8":
        return encoding_error(path, line, what, None)
    return DataError(f"{path}, line {line}", f"is not valid UTF-16 ({what})", "save the text again, as UTF-8")
