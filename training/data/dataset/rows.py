"""Streams the rows of a split: the lines of one text, or of several texts in parallel."""

from collections.abc import Iterator, Sequence
from itertools import islice, zip_longest
from typing import NamedTuple

from interlinear.errors import DataError
from interlinear.text import join_subwords
from training.data.dataset.dataset import Dataset
from training.data.dataset.fields import TextField
from training.data.dataset.image_index import missing_line_error
from training.data.dataset.joined import joined_texts
from training.data.formats import LineIndex, check_unchanged, count_lines, describe_parts, read_part


class Row(NamedTuple):
    """One line of each requested field. `number`: the line's number in the files, from 1; of several joined lines the
    first one's."""

    number: int
    texts: tuple[str, ...]


def read_lines(field: TextField) -> Iterator[str]:
    """The included or joined lines of a field, without line ends; its files are concatenated.

    Raises DataError: no lines, bytes that are not UTF-8, a damaged or unreadable file, a missing key or column (each
    with file and row), a step whose program is not installed.
    """
    if field.join is not None:
        yield from joined_texts(read_all_lines(field), field.join.groups())
        return
    for number, line in enumerate(read_all_lines(field)):
        if field.included_lines is None or number in field.included_lines:
            yield line


def read_references(dataset: Dataset, split: str, first: Sequence[str]) -> tuple[tuple[str, ...], ...]:
    """All references of a split's target, one line per row, in whole words: a model's output has no subwords.

    `first`: the lines of the target itself. Raises DataError, also where further references differ in their number of
    lines.
    """
    target = dataset.field(split, "target")
    own, *further = target.reference_fields()
    columns = [tuple(first), *(tuple(read_lines(field)) for field in further)]
    for field, lines in zip(further, columns[1:], strict=True):
        if len(lines) != len(first):
            raise line_count_error(
                dataset, split, [own, field], [[count_lines(part) for part in each.parts] for each in (own, field)]
            )
    return tuple(tuple(join_subwords(line, target.segmentation) for line in lines) for lines in columns)


def read_all_lines(field: TextField, start: int = 0, line_indexes: Sequence[LineIndex] | None = None) -> Iterator[str]:
    """All lines of a field from line `start` on (from 0), also lines without a required image.

    `line_indexes`: an index of each of its files, which makes it possible to skip files and to seek; the files must not
    have changed since. Raises the errors of read_lines.
    """
    empty = True
    for number, part in enumerate(field.parts):
        line_index = line_indexes[number] if line_indexes else None
        if line_index is not None and start >= line_index.lines:
            start -= line_index.lines
            continue
        if line_index is not None:
            check_unchanged(part, line_index)
        for line in read_part(part, field.encoding, start, line_index, field.language, field.unknown):
            empty = False
            yield line
        start = 0
    if empty and line_indexes is None:
        raise DataError(describe_parts(field.parts), f"the text of '{field.name}' has no lines")


def read_rows(dataset: Dataset, split: str, names: Sequence[str]) -> Iterator[Row]:
    """The rows of several texts in parallel. A row keeps its line number if rows before it are excluded.

    Raises DataError, also if the fields differ in their number of lines, or if a required image belongs to a later
    line.
    """
    fields = [dataset.field(split, name) for name in names]
    if fields[0].join is not None:
        yield from read_joined_rows(dataset, split, fields)
        return
    included_lines, number = fields[0].included_lines, 0
    for number, texts in enumerate(zip_longest(*map(read_all_lines, fields)), 1):
        if None in texts:
            raise line_count_error(
                dataset, split, fields, [[count_lines(part) for part in field.parts] for field in fields]
            )
        if included_lines is None or number - 1 in included_lines:
            yield Row(number, texts)
    check_required_images(dataset, split, included_lines, number)


def read_joined_rows(dataset: Dataset, split: str, fields: Sequence[TextField]) -> Iterator[Row]:
    """The rows of a split whose lines are joined. Raises DataError."""
    join = fields[0].join
    assert join is not None
    if not (groups := list(join.groups())):
        raise DataError(
            f"data set '{dataset.name}', split '{split}'",
            f"no lines of one file make a sentence of over {join.over} words",
            f"set joined.{split}.over to a smaller number",
        )
    counts = [[count_lines(part) for part in field.parts] for field in fields]
    if len({sum(index.lines for index in indexes) for indexes in counts}) > 1:
        raise line_count_error(dataset, split, fields, counts)
    columns = [joined_texts(read_all_lines(field), groups) for field in fields]
    for group, texts in zip(groups, zip(*columns, strict=True), strict=True):
        yield Row(group.start + 1, texts)


def read_range(
    fields: Sequence[TextField], line_indexes: Sequence[Sequence[LineIndex]], start: int, end: int
) -> Iterator[Row]:
    """The included rows from line `start` to before line `end` (from 0), of several texts in parallel."""
    readers = [read_all_lines(field, start, indexes) for field, indexes in zip(fields, line_indexes, strict=True)]
    for number, texts in enumerate(islice(zip(*readers, strict=False), end - start), start + 1):
        if fields[0].included_lines is None or number - 1 in fields[0].included_lines:
            yield Row(number, texts)


def line_count_error(
    dataset: Dataset, split: str, fields: Sequence[TextField], line_indexes: Sequence[Sequence[LineIndex]]
) -> DataError:
    """The error for texts that differ in their number of lines. It names the first files that differ if all texts
    have the same number of files, else all files."""
    where, remedy = f"data set '{dataset.name}', split '{split}'", "line i of each file must belong together"
    files = [[str(part.location) for part in field.parts] for field in fields]
    lines = [[index.lines for index in indexes] for indexes in line_indexes]
    if len({len(names) for names in files}) == 1:
        first = next(i for i, counts in enumerate(zip(*lines, strict=True)) if len(set(counts)) > 1)
        mismatches = [f"{names[first]} has {counts[first]:,} lines" for names, counts in zip(files, lines, strict=True)]
    else:
        mismatches = [
            f"{describe_parts(field.parts)} has {sum(n):,} lines" for field, n in zip(fields, lines, strict=True)
        ]
    return DataError(where, ", ".join(mismatches), remedy)


def check_required_images(dataset: Dataset, split: str, included_lines: frozenset[int] | None, lines: int) -> None:
    """Raises DataError if a required image belongs to a line after the last one."""
    if included_lines and max(included_lines) >= lines:
        required = next(field for name in dataset.images(split) if (field := dataset.image(split, name)).required)
        raise missing_line_error(required, max(included_lines), lines)
