"""Text file formats: plain lines, a key of JSON objects (JSON Lines), or a column (Parquet). Files are streamed."""

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from typing import Any

from interlinear.errors import DataError
from interlinear.installation import how_to_install
from training.data.cleaning import Encoding
from training.data.normalize import NormalizationStep, build_normalizer
from training.data.text_lines import convert_read_errors, open_text
from training.data.uris import FileLocation, file_stat, open_file

LINES_PER_OFFSET = 1 << 16  # lines between two stored offsets in a file
PARQUET_BATCH_ROWS = 4096  # rows of a Parquet file that are read at a time


@dataclass(frozen=True)
class Part:
    """A resolved file of a field. `key` or `column` selects the text in it; `steps` normalize its lines."""

    location: FileLocation
    key: str | None = None
    column: str | None = None
    steps: tuple[NormalizationStep, ...] = ()

    @property
    def selector(self) -> str:
        """The key or column as a string, for fingerprints."""
        return " ".join(filter(None, [self.key and f"key={self.key}", self.column and f"column={self.column}"]))


@dataclass(frozen=True)
class LineIndex:
    """A file's number of lines, its size in bytes, and the byte offsets of every LINES_PER_OFFSET-th line if the
    file is seekable."""

    lines: int
    size: int
    offsets: tuple[int, ...] = ()


def check_unchanged(part: Part, line_index: LineIndex) -> None:
    """Raises DataError if a file's size differs from its index: it has changed, or it is another machine's file."""
    with convert_read_errors(part.location):
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


def read_part(
    part: Part,
    encoding: Encoding | None = None,
    start: int = 0,
    line_index: LineIndex | None = None,
    language: str | None = None,
    unknown: str | None = None,
) -> Iterator[str]:
    """The texts of one file from row `start` on (from 0), normalized by its steps.

    `encoding`: how cleaning handles bytes that are not UTF-8: with `drop` they become lone surrogates (PEP 383), else
    they are an error; None: the text is not cleaned. `line_index`: the file's index, if known. A line break inside a
    JSON or Parquet text becomes a space; null becomes an empty text. Raises DataError with file and row.
    """
    if part.column is not None:
        texts = _read_column(part, part.column, start)
    else:
        texts = _read_lines(part, encoding, start, line_index)
    return map(build_normalizer(part.steps, language, unknown), texts) if part.steps else texts


def count_lines(part: Part) -> LineIndex:
    """Index a file, which is read once. Raises DataError if it cannot be read."""
    with convert_read_errors(part.location):
        size, _ = file_stat(part.location)
    if part.column is not None:
        with _open_parquet(part.location) as file:
            return LineIndex(file.metadata.num_rows, size)
    lines = position = 0
    offsets: list[int] = []
    with open_text(part.location, lambda: lines) as reader:
        for line in reader.lines():
            if reader.seekable and lines % LINES_PER_OFFSET == 0:
                offsets.append(position)
            position += len(line) + 1
            lines += 1
    return LineIndex(lines, size, tuple(offsets))


# Lines


def _read_lines(part: Part, encoding: Encoding | None, start: int, line_index: LineIndex | None) -> Iterator[str]:
    errors = "surrogateescape" if encoding == "drop" else "strict"
    number = start
    with open_text(part.location, lambda: number) as reader:
        first_line = 0
        if line_index and line_index.offsets and start:
            first_line = min(start // LINES_PER_OFFSET, len(line_index.offsets) - 1)
            reader.file.seek(line_index.offsets[first_line])
            first_line *= LINES_PER_OFFSET
        for number, line in enumerate(islice(reader.lines(), start - first_line, None), start + 1):
            try:
                text = reader.decode(line, number, errors)
            except DataError as error:
                hint = ", or leave such lines out with `cleaning: {encoding: drop}`" if encoding else ""
                raise DataError(error.where, error.problem, f"{error.remedy}{hint}") from None
            yield text if part.key is None else _value_at(text, part.key, f"{part.location}, line {number}")


def _value_at(line: str, key: str, where: str) -> str:
    """The text at a key of a JSON object; dots select keys of nested objects."""
    try:
        value = json.loads(line)
    except ValueError as error:
        raise DataError(where, f"is not JSON: {error}", "JSON Lines has one object on each line") from None
    for name in key.split("."):
        if not isinstance(value, dict) or name not in value:
            available = f", only {', '.join(map(repr, value))}" if isinstance(value, dict) and value else ""
            raise DataError(where, f"has no key '{key}'{available}", "look at `key:` in the data set's description")
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
            str(location), "Parquet is read by pyarrow, which is not installed", how_to_install("train")
        ) from None
    with convert_read_errors(location), open_file(location) as file, ParquetFile(file, pre_buffer=False) as parquet:
        yield parquet


def _read_column(part: Part, column: str, start: int) -> Iterator[str]:
    """The texts of a column; dots select fields of structs."""
    import pyarrow as pa
    from pyarrow import compute

    done = start
    with _open_parquet(part.location) as file, convert_read_errors(part.location, lambda: done):
        column_type: Any = pa.struct(file.schema_arrow)
        for name in column.split("."):
            if not pa.types.is_struct(column_type) or column_type.get_field_index(name) < 0:
                columns = ", ".join(f"'{field.name}'" for field in file.schema_arrow)
                raise DataError(
                    str(part.location),
                    f"has no column '{column}', only {columns}",
                    "look at `column:` in the data set's description",
                )
            column_type = column_type.field(name).type
        if not (
            pa.types.is_string(column_type)
            or pa.types.is_large_string(column_type)
            or pa.types.is_string_view(column_type)
        ):
            raise DataError(
                str(part.location), f"the column '{column}' is {column_type}, not text", "name a column of strings"
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
