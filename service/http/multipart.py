"""Multipart forms (RFC 7578), read piece by piece. The content of a file goes to a sink as it arrives."""

import math
from collections.abc import Callable, Mapping
from typing import Any, Protocol

from python_multipart.exceptions import FormParserError
from python_multipart.multipart import MultipartParser, parse_options_header

from service.problems import Problem, excerpt

MAX_FIELDS = 1000
MAX_PART_HEADERS = 4  # headers of one part of a multipart form
MAX_PART_HEADER_BYTES = 1024  # bytes of one such header


class FileSink(Protocol):
    """Receives the content of a file in a form."""

    def write(self, data: bytes) -> object: ...

    def finish(self) -> Any:
        """The value of the field, once its content is complete."""

    def discard(self) -> None:
        """The request is refused."""


class MemoryFile:
    """A file of a form in memory. Its value is its content; an empty text for an empty file without name, which
    browsers send if no file was chosen."""

    def __init__(self, file_name: str) -> None:
        self._file_name = file_name
        self._data = bytearray()

    def write(self, data: bytes) -> None:
        self._data += data

    def finish(self) -> bytes | str:
        return bytes(self._data) if self._data or self._file_name else ""

    def discard(self) -> None:
        self._data.clear()


class MultipartReader:
    """Parses a form from its pieces; `open_file` gives the sink of a file from the name of its field and the file's
    name."""

    def __init__(
        self, options: Mapping[bytes, bytes], open_file: Callable[[str, str], FileSink], text_bytes: float = math.inf
    ) -> None:
        """`options`: parameters of the body's media type. `text_bytes`: limit of all fields that are no files. Raises
        Problem."""
        self.fields: list[tuple[str, Any]] = []
        self._open_file = open_file
        self._text_bytes_left = text_bytes
        self._header, self._value, self._disposition = bytearray(), bytearray(), bytearray()
        # The part that arrives: its name, and its content as a text or in a sink.
        self._name, self._text = "", bytearray()
        self._sink: FileSink | None = None
        self._ended = False
        try:
            self._parser = MultipartParser(
                options.get(b"boundary", b""),
                {
                    "on_part_begin": self._begin,
                    "on_header_field": lambda chunk, first, last: self._header.extend(chunk[first:last]),
                    "on_header_value": lambda chunk, first, last: self._value.extend(chunk[first:last]),
                    "on_header_end": self._header_end,
                    "on_headers_finished": self._headers_end,
                    "on_part_data": self._data,
                    "on_part_end": self._part_end,
                    "on_end": self._end,
                },
                max_header_count=MAX_PART_HEADERS,
                max_header_size=MAX_PART_HEADER_BYTES,
            )
        except (FormParserError, ValueError):
            raise malformed() from None

    def write(self, content: bytes) -> None:
        """Parse the next piece. Raises Problem."""
        try:
            self._parser.write(content)
        except (FormParserError, ValueError):
            raise malformed() from None

    def finish(self) -> list[tuple[str, Any]]:
        """The names and values of all fields, in their order. Raises Problem if the form is incomplete."""
        try:
            self._parser.finalize()
        except (FormParserError, ValueError):
            self._ended = False
        if not self._ended:
            raise malformed()
        return self.fields

    def _begin(self) -> None:
        for buffer in (self._header, self._value, self._disposition, self._text):
            buffer.clear()
        self._sink = None
        if len(self.fields) == MAX_FIELDS:
            raise Problem(400, f"the form has more than {MAX_FIELDS} fields")

    def _header_end(self) -> None:
        if bytes(self._header).lower() == b"content-disposition":
            self._disposition[:] = self._value
        self._header.clear()
        self._value.clear()

    def _headers_end(self) -> None:
        _, parameters = parse_options_header(bytes(self._disposition))
        self._name = decode_utf8(parameters.get(b"name", b""))
        if not self._name:
            raise Problem(400, "the form is malformed: a part has no name")
        if (file_name := parameters.get(b"filename")) is not None:
            self._sink = self._open_file(self._name, file_name.decode("utf-8", "replace"))

    def _data(self, chunk: bytes, first: int, last: int) -> None:
        if self._sink is None:
            self._text_bytes_left -= last - first
            if self._text_bytes_left < 0:
                raise Problem(413, "the fields of the form are too long")
            self._text += chunk[first:last]
        else:
            self._sink.write(chunk[first:last])

    def _part_end(self) -> None:
        value = decode_utf8(bytes(self._text)) if self._sink is None else self._sink.finish()
        self.fields.append((self._name, value))

    def _end(self) -> None:
        self._ended = True


def parse_multipart(content: bytes, options: Mapping[bytes, bytes], file: str | None = None) -> list[tuple[str, Any]]:
    """The fields of a whole form; the field `file` may be a file, whose value is its bytes. Raises Problem."""

    def open_file(name: str, file_name: str) -> FileSink:
        if name != file:
            raise not_a_file(name)
        return MemoryFile(file_name)

    reader = MultipartReader(options, open_file)
    reader.write(content)
    return reader.finish()


def not_a_file(name: str) -> Problem:
    return Problem.in_field(excerpt(name), "must be a field, not a file")


def malformed() -> Problem:
    return Problem(400, "the form is malformed: its parts do not end where its boundary says")


def decode_utf8(content: bytes) -> str:
    """A body's bytes as text. Raises Problem."""
    try:
        return content.decode()
    except UnicodeDecodeError as error:
        raise Problem(400, f"the body is not UTF-8: byte {error.start} begins no character") from None
