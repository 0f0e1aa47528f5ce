"""What is text in a file: its lines, a key of its JSON objects (JSON Lines), or a column (Parquet).

Lines may be compressed, gzip or Zstandard, which is told by the content. Nothing is read whole.
"""

import codecs
import gzip
import io
import json
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from typing import Any, BinaryIO, cast

from seq2seq.errors import DataError
from training.data.cleaning import Encoding
from training.data.normalize import NormalizationStep, build_normalizer
from training.data.uris import FileLocation, directory_error, file_stat, open_file, os_error_message

GZIP, ZSTANDARD = b"\x1f\x8b", b"\x28\xb5\x2f\xfd"
LINES_PER_OFFSET = 1 << 16  # lines between two places in a file that are remembered
PROBE_BYTES = 4096  # bytes by which an encoding is guessed
PARQUET_BATCH_ROWS = 4096  # rows of a Parquet file at a time


@dataclass(frozen=True)
class Part:
    """A file of a field: what in it is the text, and the steps that its lines go through."""

    location: FileLocation
    key: str | None = None
    column: str | None = None
    steps: tuple[NormalizationStep, ...] = ()

    @property
    def selector(self) -> str:
        """What else than the file's content decides what is read."""
        return " ".join(filter(None, [self.key and f"key={self.key}", self.column and f"column={self.column}"]))


@dataclass(frozen=True)
class LineIndex:
    """A file's lines and its size; and the bytes at which every MARK-th line begins, where one can go there."""

    lines: int
    size: int
    offsets: tuple[int, ...] = ()


def check_unchanged(part: Part, line_index: LineIndex) -> None:
    """Raises DataError where a file is not the one that was counted: changed since, or another machine's."""
    with _as_data_error(part.location):
        size, _ = file_stat(part.location)
    if size != line_index.size:
        raise DataError(
            str(part.location),
            f"has {size:,} bytes where it is read, and {line_index.size:,} where it was counted",
            "every node must see the same files, on a disk that they share or by URI; and nobody may change them",
        )


def describe_parts(parts: Sequence[Part]) -> str:
    """The files of a text, for a message."""
    names = [str(part.location) for part in parts]
    return " + ".join(names) if len(names) < 4 else f"{names[0]} ... {names[-1]} ({len(names):,} files)"


def read_file(path: FileLocation) -> Iterator[str]:
    """The lines of one file of text, without their line ends. Raises DataError."""
    return read_part(Part(path))


def read_part(
    part: Part,
    encoding: Encoding | None = None,
    start: int = 0,
    line_index: LineIndex | None = None,
    language: str | None = None,
    unknown: str | None = None,
) -> Iterator[str]:
    """The texts of one file from row `start` on (from 0), rewritten by its steps. `line_index`: of this file, if known.

    `encoding`: what cleaning does with bytes that are not UTF-8, which with `drop` become lone surrogates (PEP 383)
    instead of an error; None: the text is not cleaned. A line break inside of a JSON or Parquet text is a space; null
    is an empty text. Raises DataError with file and row.
    """
    if part.column is not None:
        texts = _read_column(part, part.column, start)
    else:
        texts = _read_lines(part, encoding, start, line_index)
    return map(build_normalizer(part.steps, language, unknown), texts) if part.steps else texts


def count_lines(part: Part) -> LineIndex:
    """The rows of a file, read once. Raises DataError where that is not possible."""
    with _as_data_error(part.location):
        size, _ = file_stat(part.location)
    if part.column is not None:
        with _open_parquet(part.location) as file:
            return LineIndex(file.metadata.num_rows, size)
    lines = position = 0
    offsets: list[int] = []
    with _open_decompressed(part.location) as (file, plain), _as_data_error(part.location, lambda: lines):
        for line in file:
            if plain and lines % LINES_PER_OFFSET == 0:
                offsets.append(position)
            position += len(line)
            lines += 1
    return LineIndex(lines, size, tuple(offsets))


# Lines


def _read_lines(part: Part, encoding: Encoding | None, start: int, line_index: LineIndex | None) -> Iterator[str]:
    errors = "surrogateescape" if encoding == "drop" else "strict"
    number = start
    with _open_decompressed(part.location) as (file, plain), _as_data_error(part.location, lambda: number):
        first_line = 0
        if plain and line_index and line_index.offsets and start:
            first_line = min(start // LINES_PER_OFFSET, len(line_index.offsets) - 1)
            file.seek(line_index.offsets[first_line])
            first_line *= LINES_PER_OFFSET
        for number, line in enumerate(islice(file, start - first_line, None), start + 1):
            try:
                text = line.decode("utf-8-sig" if number == 1 else "utf-8", errors)
            except UnicodeDecodeError as error:
                raise encoding_error(
                    part.location, number, f"byte 0x{line[error.start]:02x} at position {error.start}", encoding
                ) from None
            if "\0" in text and encoding != "drop":
                raise encoding_error(part.location, number, "a NUL byte", encoding)
            if part.key is not None:
                yield _value_at(text, part.key, f"{part.location}, line {number}")
            else:
                yield text.removesuffix("\n").removesuffix("\r")


def encoding_error(location: FileLocation, line: int, what: str, encoding: Encoding | None) -> DataError:
    """A line is not UTF-8: names the encoding that the file looks like, and the command that converts it."""
    with _open_decompressed(location) as (file, plain):
        first_bytes = file.read(PROBE_BYTES)
    seems = guess_encoding(first_bytes)
    leave_out = ", or leave such lines out with `cleaning: {encoding: drop}`" if encoding else ""
    looks, convert = "", "convert the file to UTF-8"
    if seems:
        looks = f"; the file looks like {seems}"
        source = f"< {location}" if plain else f"zcat {location} |"
        command = f"iconv -f {seems} -t UTF-8"
        convert = f"convert it: `{source} {command} > NEW`" if not plain else f"convert it: `{command} {source} > NEW`"
    return DataError(f"{location}, line {line}", f"is not valid UTF-8 ({what}){looks}", f"{convert}{leave_out}")


def guess_encoding(first_bytes: bytes) -> str | None:
    """The encoding, as iconv names it, of a text that begins so and is not UTF-8; None for what is no text."""
    if first_bytes.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return "UTF-16"
    for parity, name in ((1, "UTF-16LE"), (0, "UTF-16BE")):  # European text: every second byte is 0
        half = first_bytes[parity::2]
        if len(half) > 3 and half.count(0) > 0.6 * len(half) and not first_bytes[1 - parity :: 2].count(0):
            return name
    if b"\0" in first_bytes:
        return None
    # Windows' code page has letters and quotes where Latin-1 has control characters.
    return "WINDOWS-1252" if any(0x80 <= byte < 0xA0 for byte in first_bytes) else "LATIN1"


@contextmanager
def _open_decompressed(location: FileLocation) -> Iterator[tuple[BinaryIO, bool]]:
    """A file's bytes, decompressed; and whether one can go to a place in them."""
    with _as_data_error(location), open_file(location) as file:
        first_bytes = file.peek(4)[:4]
        if first_bytes[:2] == GZIP:
            yield cast(BinaryIO, gzip.GzipFile(fileobj=file)), False
        elif first_bytes == ZSTANDARD:
            try:
                import pyarrow as pa
            except ImportError:
                raise DataError(
                    str(location), "is read by pyarrow, which is not installed", "pip install 'interlinear[train]'"
                ) from None
            yield io.BufferedReader(pa.CompressedInputStream(file, "zstd"), 1 << 17), False
        else:
            yield file, True


@contextmanager
def _as_data_error(location: FileLocation, done: Any = None) -> Iterator[None]:
    """What goes wrong in a file, as a sentence that says how far it could be read."""
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


def _value_at(line: str, key: str, where: str) -> str:
    """The text at a key of a JSON object; dots lead into objects inside of it."""
    try:
        value = json.loads(line)
    except ValueError as error:
        raise DataError(where, f"is not JSON: {error}", "JSON Lines has one object on each line") from None
    for name in key.split("."):
        if not isinstance(value, dict) or name not in value:
            has = f", only {', '.join(map(repr, value))}" if isinstance(value, dict) and value else ""
            raise DataError(where, f"has no key '{key}'{has}", "look at `key:` in the data set's description")
        value = value[name]
    if value is not None and not isinstance(value, str):
        raise DataError(where, f"has no text at '{key}', but {json.dumps(value)[:40]}", "a text, or null for none")
    return _join_lines(value)


def _join_lines(text: str | None) -> str:
    return " ".join(text.splitlines()) if text and ("\n" in text or "\r" in text) else text or ""


# Columns


@contextmanager
def _open_parquet(location: FileLocation) -> Iterator[Any]:
    try:
        from pyarrow.parquet import ParquetFile
    except ImportError:
        raise DataError(
            str(location), "Parquet is read by pyarrow, which is not installed", "pip install 'interlinear[train]'"
        ) from None
    with _as_data_error(location), open_file(location) as file, ParquetFile(file, pre_buffer=False) as parquet:
        yield parquet


def _read_column(part: Part, column: str, start: int) -> Iterator[str]:
    """A column's texts; dots lead into structs."""
    import pyarrow as pa
    from pyarrow import compute

    done = start
    with _open_parquet(part.location) as file, _as_data_error(part.location, lambda: done):
        kind: Any = pa.struct(file.schema_arrow)
        for name in column.split("."):
            if not pa.types.is_struct(kind) or kind.get_field_index(name) < 0:
                there = ", ".join(f"'{field.name}'" for field in file.schema_arrow)
                raise DataError(
                    str(part.location),
                    f"has no column '{column}', only {there}",
                    "look at `column:` in the data set's description",
                )
            kind = kind.field(name).type
        if not (pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind)):
            raise DataError(
                str(part.location), f"the column '{column}' is {kind}, not text", "name a column of strings"
            )
        groups: list[int] = []
        before = 0
        for group in range(file.num_row_groups):
            rows = file.metadata.row_group(group).num_rows
            if groups or before + rows > start:
                groups.append(group)
            else:
                before += rows
        skip = start - before
        for batch in file.iter_batches(PARQUET_BATCH_ROWS, row_groups=groups, columns=[column], use_threads=False):
            values = batch.column(0)
            for name in column.split(".")[1:]:
                values = compute.struct_field(values, name)
            for text in values.to_pylist()[skip:]:
                done += 1
                yield _join_lines(text)
            skip = max(0, skip - len(batch))
