"""Lines of text files, for every command: in UTF-8 or UTF-16, with line ends of any system; plain, gzip or Zstandard.

Files are streamed.
"""

import codecs
import gzip
import io
import re
import shlex
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import chain
from typing import NamedTuple, cast

from interlinear.errors import DataError
from interlinear.installation import how_to_install
from training.data.uris import FileLocation, directory_error, open_file, os_error_message

GZIP, ZSTANDARD = b"\x1f\x8b", b"\x28\xb5\x2f\xfd"
CHUNK = 1 << 20  # maximum bytes per read; available bytes are passed on before waiting for more
PROBE_BYTES = 4096  # bytes from which the encoding and the line end are recognized
BYTE_ORDER_MARKS = {codecs.BOM_UTF16_LE: "utf-16-le", codecs.BOM_UTF16_BE: "utf-16-be"}
# Line ends of some programs, and the byte-order mark, which concatenated files have inside.
BREAK_CHARACTERS = "\n\r\x0b\x0c\x1c-\x1e\x85\u2028\u2029\ufeff"
BREAKS = re.compile(f"[{BREAK_CHARACTERS}][{BREAK_CHARACTERS} \t]*")


def read_file(path: FileLocation) -> Iterator[str]:
    """The lines of a text file, without line ends. Raises DataError with the line that is not valid in its encoding."""
    with open_text(path) as reader:
        for number, line in enumerate(reader.lines(), 1):
            yield reader.decode(line, number)


def clean_text(text: str) -> str:
    """A text as one line: without surrounding white space, and with a space for each run of line breaks inside."""
    return BREAKS.sub(" ", text).strip()


class TextForm(NamedTuple):
    """The encoding of a file and the character that ends its lines."""

    encoding: str
    line_end: str


def detect_form(first_bytes: bytes) -> TextForm:
    """The form of a text that begins with these bytes."""
    encoding = BYTE_ORDER_MARKS.get(first_bytes[:2], "utf-8")
    text = first_bytes.decode(encoding, "ignore")
    # A carriage return at the end of the bytes so far may be the first half of a line end of Windows.
    return TextForm(encoding, "\r" if "\r" in text[:-1] and "\n" not in text else "\n")


class LineReader:
    """The lines of an open file. `name`: its path, or another name for messages; `compressed`: the program that prints
    the decompressed file, for messages.

    A line ends with a line feed, or with a carriage return in a file that has no line feed, and nowhere else. UTF-16 is
    recognized by its byte-order mark.
    """

    def __init__(self, file: io.BufferedReader, name: FileLocation | str, compressed: str = "") -> None:
        self.file = file
        self.name = name
        self.compressed = compressed
        self.first_bytes = file.peek(PROBE_BYTES)[:PROBE_BYTES]
        self.form = detect_form(self.first_bytes)

    @property
    def seekable(self) -> bool:
        """Whether a line can be found by its offset in the file."""
        return not self.compressed and self.form.encoding == "utf-8"

    def groups(self) -> Iterator[list[bytes]]:
        """The lines in UTF-8 without line ends, in groups: the complete lines of each read, at least one.

        Lines that are typed or piped are therefore there at once. Raises DataError for invalid UTF-16.
        """
        end = self.form.line_end.encode()
        parts: list[bytes] = []  # of a line that is not complete
        for chunk in self._chunks():
            first, *further = chunk.split(end)
            parts.append(first)
            if further:
                yield [b"".join(parts), *further[:-1]]
                parts = further[-1:]
        if last := b"".join(parts):
            yield [last]

    def lines(self) -> Iterator[bytes]:
        """The lines of `groups`."""
        return chain.from_iterable(self.groups())

    def decode(self, line: bytes, number: int, errors: str = "strict") -> str:
        """The text of line `number` (from 1), without byte-order mark and a carriage return at its end.

        Raises DataError if the line is not UTF-8 or has a NUL; with the errors `surrogateescape`, invalid bytes become
        surrogates, and a NUL stays.
        """
        line = line.removeprefix(codecs.BOM_UTF8) if number == 1 else line
        try:
            text = line.decode("utf-8", errors)
        except UnicodeDecodeError as error:
            raise self.error(number, f"byte 0x{line[error.start]:02x} at position {error.start}") from None
        if "\0" in text and errors == "strict":
            raise self.error(number, "a NUL byte")
        return text.removesuffix("\r")

    def error(self, line: int, what: str) -> DataError:
        """The error for a line that is not valid in the file's encoding. It names the probable encoding and a command
        for conversion."""
        where = f"{self.name}, line {line}"
        if self.form.encoding != "utf-8":
            return DataError(where, f"is not valid UTF-16 ({what})", "save the text again, as UTF-8")
        probable = guess_encoding(self.first_bytes)
        if probable is None:
            return DataError(where, f"is not valid UTF-8 ({what})", "convert the file to UTF-8")
        file, command = shlex.quote(str(self.name)), f"iconv -f {probable} -t UTF-8"
        command = f"{self.compressed} {file} | {command} > NEW" if self.compressed else f"{command} < {file} > NEW"
        return DataError(
            where, f"is not valid UTF-8 ({what}); the file looks like {probable}", f"convert it: `{command}`"
        )

    def _chunks(self) -> Iterator[bytes]:
        """The content in UTF-8, in chunks. Raises DataError for invalid UTF-16."""
        chunks = iter(lambda: self.file.read1(CHUNK), b"")
        if self.form.encoding == "utf-8":
            yield from chunks
            return
        decoder = codecs.getincrementaldecoder(self.form.encoding)()
        line, end = 1, 0  # where the chunk begins and ends: a line, an offset in bytes
        try:
            for chunk in chain(chunks, (b"",)):
                end += len(chunk)
                text = decoder.decode(chunk, final=not chunk)
                yield text.encode()
                line += text.count(self.form.line_end)
        except UnicodeDecodeError as error:
            line += error.object[: error.start].decode(self.form.encoding).count(self.form.line_end)
            offset = end - len(error.object) + error.start
            raise self.error(line, f"byte 0x{error.object[error.start]:02x} at offset {offset:,}") from None


def guess_encoding(first_bytes: bytes) -> str | None:
    """The probable encoding, as iconv names it, of a text that is not UTF-8; None if it is not text."""
    for parity, name in ((1, "UTF-16LE"), (0, "UTF-16BE")):  # European text: every second byte is 0
        half = first_bytes[parity::2]
        if len(half) > 3 and half.count(0) > 0.6 * len(half) and not first_bytes[1 - parity :: 2].count(0):
            return name
    if b"\0" in first_bytes:
        return None
    # WINDOWS-1252 has letters and quotes where Latin-1 has control characters.
    return "WINDOWS-1252" if any(0x80 <= byte < 0xA0 for byte in first_bytes) else "LATIN1"


@contextmanager
def open_text(location: FileLocation, done: Callable[[], int] | None = None) -> Iterator[LineReader]:
    """The lines of a file, for as long as it is open. `done`: as in `convert_read_errors`."""
    with open_decompressed(location) as (file, compressed), convert_read_errors(location, done):
        yield LineReader(file, location, compressed)


@contextmanager
def open_decompressed(location: FileLocation) -> Iterator[tuple[io.BufferedReader, str]]:
    """The decompressed content of a file, and the program that prints it; none for a file that is not compressed."""
    with convert_read_errors(location), open_file(location) as file:
        yield decompress(file, location)


def decompress(file: io.BufferedReader, name: FileLocation | str) -> tuple[io.BufferedReader, str]:
    """The decompressed content of an open file, and the program that prints it. Raises DataError."""
    first_bytes = file.peek(4)[:4]
    if first_bytes[:2] == GZIP:
        return cast(io.BufferedReader, gzip.GzipFile(fileobj=file)), "zcat"
    if first_bytes != ZSTANDARD:
        return file, ""
    try:
        import pyarrow as pa
    except ImportError:
        raise DataError(str(name), "is read by pyarrow, which is not installed", how_to_install("train")) from None
    return io.BufferedReader(pa.CompressedInputStream(file, "zstd"), 1 << 17), "zstdcat"


@contextmanager
def convert_read_errors(location: FileLocation | str, done: Callable[[], int] | None = None) -> Iterator[None]:
    """Convert errors of reading to DataError. `done` returns the number of lines read, for the message."""
    try:
        yield
    except DataError:
        raise
    except IsADirectoryError:
        raise directory_error(location) from None
    except (OSError, EOFError, zlib.error, ValueError) as error:  # Arrow's own errors are among these
        after = f" after line {done():,}" if done and done() else ""
        raise DataError(
            str(location), f"cannot be read{after}: {os_error_message(error)}", "get the file again"
        ) from None
