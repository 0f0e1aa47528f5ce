"""Data sets: a YAML description says where the files are; the readers stream their rows, line by line."""

import difflib
import hashlib
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import islice, zip_longest
from pathlib import Path
from typing import NamedTuple

from pydantic import ValidationError

from seq2seq.errors import DataError, UnknownDataError
from training.data.cleaning import Encoding
from training.data.description import (
    Description,
    FieldFiles,
    ImageFiles,
    TextFile,
    description_problem,
    read_description_file,
)
from training.data.formats import LineIndex, Part, check_unchanged, count_lines, describe_parts, read_file, read_part
from training.data.uris import FileLocation, expand_path, expand_uri, fingerprint, is_uri
from training.package_files import resource_folder
from training.yaml_files import did_you_mean

GENERATED = Path("prepared/generated")


@dataclass(frozen=True)
class TextField:
    """A text field of a split, with its files resolved.

    `included_lines`: the lines (from 0) that are read, where other lines lack an image that the split requires; None:
    all lines. `encoding`: how cleaning handles lines that are not UTF-8; None: the split is not cleaned.
    """

    name: str
    parts: tuple[Part, ...]
    language: str | None
    tokenised: bool
    lowercase: bool
    unknown: str | None
    segmentation: str | None
    references: tuple[tuple[Part, ...], ...]
    included_lines: frozenset[int] | None = None
    encoding: Encoding | None = None

    @property
    def files(self) -> tuple[FileLocation, ...]:
        return tuple(part.location for part in self.parts)

    def reference_fields(self) -> "tuple[TextField, ...]":
        """This text and its further references, each as a separate field."""
        further = [replace(self, parts=parts, references=()) for parts in self.references]
        return (replace(self, references=()), *further)


@dataclass(frozen=True)
class ImageField:
    """An image field of a split, with its files resolved. `split`: the split's name in the index."""

    name: str
    images: Path
    index: Path
    split: str
    features: Path | None
    required: bool


class Row(NamedTuple):
    """One line of each requested field. `number`: the line's number in the files, from 1."""

    number: int
    texts: tuple[str, ...]


class Dataset(Description):
    """A description with its name, its path, and the folders in which relative paths are searched, in order."""

    name: str
    path: Path
    roots: tuple[Path, ...]

    def has_split(self, split: str) -> bool:
        return split in self.splits

    def fields(self, split: str) -> tuple[str, ...]:
        """The names of a split's text fields. Raises DataError if there is no such split."""
        if split not in self.splits:
            raise DataError(
                str(self.path),
                f"has no split '{split}', only {quote_names(self.splits)}",
                did_you_mean(split, self.splits) or f"add `{split}:` below `splits:`",
            )
        return tuple(name for name, field in self.splits[split].items() if isinstance(field, FieldFiles))

    def images(self, split: str) -> tuple[str, ...]:
        """The names of a split's image fields. Raises DataError if there is no such split."""
        texts = self.fields(split)
        return tuple(name for name in self.splits[split] if name not in texts)

    def missing_field_error(self, split: str, name: str, names: Sequence[str], kind: str) -> DataError:
        """The error for a field that the split does not have, or that is not of the requested kind."""
        if name in self.splits[split]:
            problem = f"the field '{name}' of the split '{split}' is not {kind}"
            return DataError(str(self.path), problem, "the recipe's sources must be of the kind that the data has")
        available = f", only {quote_names(names)}" if names else f" of {kind}"
        return DataError(
            str(self.path),
            f"the split '{split}' has no field '{name}'{available}",
            "use one of these names in the recipe, or add the field to the description",
        )

    def image(self, split: str, name: str) -> ImageField:
        """An image field with its files resolved. Raises DataError: no such split, no such field, a missing file."""
        names = self.images(split)
        described = self.splits[split].get(name)
        if not isinstance(described, ImageFiles):
            raise self.missing_field_error(split, name, names, "pictures")
        return ImageField(
            name=name,
            images=self.find_file(described.images),
            index=self.find_file(described.index),
            split=described.split or split,
            features=None if described.features is None else self.find_file(described.features),
            required=described.required,
        )

    def included_lines(self, split: str) -> frozenset[int] | None:
        """The lines (from 0) that have every image which the split requires; None if all lines are read."""
        required = [name for name, field in self.splits[split].items() if getattr(field, "required", False)]
        lines = [frozenset(read_index(self.image(split, name))) for name in required]
        return frozenset.intersection(*lines) if lines else None

    def field(self, split: str, name: str) -> TextField:
        """A text field with its files resolved. Raises DataError: no such split, no such field, a missing file."""
        names = self.fields(split)
        described = self.splits[split].get(name)
        if not isinstance(described, FieldFiles):
            raise self.missing_field_error(split, name, names, "text")
        return TextField(
            name=name,
            parts=self.resolve_files(described.files),
            language=self.languages.get(name),
            tokenised=described.tokenised,
            lowercase=described.case == "lower",
            unknown=described.unknown,
            segmentation=described.segmentation,
            references=tuple(self.resolve_files(files) for files in described.references),
            included_lines=self.included_lines(split),
            encoding=self.cleaning.encoding if split == "train" else None,
        )

    def resolve_files(self, files: Sequence[TextFile]) -> tuple[Part, ...]:
        """The files of a text in order; those that match a pattern are sorted by name."""
        return tuple(
            Part(location, file.key, file.column, file.steps)
            for file in files
            for location in self.find_files(file.file)
        )

    def find_file(self, path: str) -> Path:
        """The path of a single local file. Raises DataError if there is none, or more than one."""
        matches = [] if is_uri(path) else self.find_files(path)
        if len(matches) != 1 or not isinstance(matches[0], Path):
            raise DataError(f"data set '{self.name}'", f"{path} is not one file of this machine", "give one path")
        return matches[0]

    def find_files(self, path: str) -> Sequence[FileLocation]:
        """The files that a path, pattern or URI stands for. A relative path is searched in the roots; the first root
        that has it is used. Raises DataError if there is no such file."""
        if (remote := expand_uri(path)) is not None:
            return remote
        if Path(path).is_absolute():
            if local := expand_path(path):
                return local
            raise DataError(f"data set '{self.name}'", f"there is no file {path}", f"correct its path in {self.path}")
        for root in self.roots:
            if local := expand_path(str(root / path)):
                return local
        download_hint = f"fetch it with `interlinear data get {self.name}`, or " if self.download_source(path) else ""
        raise DataError(
            f"data set '{self.name}'",
            f"{path} was not found in {' or in '.join(str(root) for root in self.roots)}",
            f"{download_hint}say where the corpora lie with --data-root or INTERLINEAR_DATA",
        )

    def fingerprint(self, split: str, names: Sequence[str]) -> str:
        """SHA-256 (hex) over the contents of the named texts' files, their keys, columns and normalization steps,
        and the included lines."""
        digest = hashlib.sha256()
        for name in names:
            digest.update(f"{name}\n".encode())
            field = self.field(split, name)
            for part in field.parts:
                digest.update(fingerprint(part.location).encode())
                digest.update(part.selector.encode())
                digest.update(" ".join(part.steps).encode())
            if field.included_lines is not None:
                digest.update(str(sorted(field.included_lines)).encode())
        return digest.hexdigest()


def data_root(root: Path | None = None) -> Path:
    """The folder of the corpora: `root` if set, else INTERLINEAR_DATA, else ./data."""
    return root if root is not None else Path(os.environ.get("INTERLINEAR_DATA") or "data")


def dataset_names() -> tuple[str, ...]:
    """The names of the descriptions that are shipped with the program."""
    return tuple(sorted(path.stem for path in resource_folder("corpora").glob("*.yaml")))


def read_description(name_or_path: str) -> tuple[str, Path, Description]:
    """A data set's name, the path of its YAML file, and its description. Raises UnknownDataError, or DataError for
    an invalid file."""
    yaml_path = description_path(name_or_path)
    content = read_description_file(yaml_path)
    try:
        return yaml_path.stem, yaml_path, Description.model_validate(content)
    except ValidationError as error:
        raise DataError(
            str(yaml_path), description_problem(error), "see docs/datasets.md for what it may say"
        ) from None


def locate(name_or_path: str, root: Path | None = None) -> Dataset:
    """A data set whose files need not exist: its description and search folders. Raises the errors of
    read_description."""
    name, yaml_path, description = read_description(name_or_path)
    values = {key: getattr(description, key) for key in Description.model_fields}
    return Dataset(name=name, path=yaml_path, roots=(data_root(root), yaml_path.parent), **values)


def open_dataset(name_or_path: str, root: Path | None = None, generated: Path = GENERATED) -> Dataset:
    """Open a data set by the name of a shipped description or by the path of a YAML file.

    Data that the description asks to generate are generated if they do not exist. `root`: the folder of the corpora
    (default: INTERLINEAR_DATA, else ./data). `generated`: the folder for generated data. Raises UnknownDataError (with
    the known names) and DataError.
    """
    dataset = locate(name_or_path, root)
    if dataset.generate is None:
        return dataset
    from training.demo import generate

    return dataset.model_copy(update={"roots": (generate(dataset.generate, generated),)})


def description_path(name_or_path: str) -> Path:
    """The YAML file of a data set that is given by name or by path. Raises UnknownDataError."""
    path = Path(name_or_path)
    is_yaml = path.suffix in {".yaml", ".yml"}
    if len(path.parts) == 1 and (shipped := resource_folder("corpora") / f"{name_or_path}.yaml").is_file():
        return shipped  # takes precedence over a local file or folder, such as that of `make demo`
    if path.is_dir() or (path.is_file() and not is_yaml):
        kind = "a folder" if path.is_dir() else "a text"
        raise UnknownDataError(
            name_or_path,
            f"is {kind}, and a data set is described by a YAML file that says where its texts lie",
            "see docs/your-own-data.md for one of four lines",
        )
    if is_yaml or len(path.parts) != 1:
        if path.is_file():
            return path
        raise UnknownDataError(
            name_or_path, "there is no such file", "give a data set's name or the path of its YAML file"
        )
    names = dataset_names()
    similar = difflib.get_close_matches(name_or_path, names)
    suggestion = f"did you mean {' or '.join(similar)}? " if similar else ""
    raise UnknownDataError(
        f"data set '{name_or_path}'",
        "it does not exist",
        f"{suggestion}Known are {', '.join(names)}; or give the path of a YAML file",
    )


def quote_names(names: Sequence[str] | Mapping[str, object]) -> str:
    return ", ".join(f"'{name}'" for name in names)


def read_lines(field: TextField) -> Iterator[str]:
    """The included lines of a field, without line ends; its files are concatenated.

    Raises DataError: no lines, bytes that are not UTF-8, a damaged or unreadable file, a missing key or column (each
    with file and row), a step whose program is not installed.
    """
    for number, line in enumerate(read_all_lines(field)):
        if field.included_lines is None or number in field.included_lines:
            yield line


def read_all_lines(field: TextField, start: int = 0, line_indexes: Sequence[LineIndex] | None = None) -> Iterator[str]:
    """All lines of a field from line `start` on (from 0), also those that lack a required image.

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


class IndexEntry(NamedTuple):
    """An image in an index: its row there, from 0, and its file name in the archive or folder."""

    row: int
    member: str


class ImageIndex(NamedTuple):
    """An image index: its number of rows, and the images of each split by line, from 0."""

    rows: int
    splits: Mapping[str, Mapping[int, IndexEntry]]


def read_index(field: ImageField) -> Mapping[int, IndexEntry]:
    """The images of a split by line. Raises DataError: an invalid row (with its number), a line with two images, no
    row for the split."""
    index = load_index(field.index)
    if field.split not in index.splits:
        raise DataError(
            str(field.index),
            f"has no picture of a split '{field.split}', only of {quote_names(index.splits)}",
            f"say with `split:` what the index calls it, or leave the field '{field.name}' out",
        )
    return index.splits[field.split]


def load_index(path: Path) -> ImageIndex:
    """Parse an index. The result is cached until the file's size or modification time changes."""
    status = path.stat()
    return parse_index(path, status.st_size, status.st_mtime_ns)


@lru_cache(maxsize=64)
def parse_index(path: Path, size: int, modified: int) -> ImageIndex:
    splits: dict[str, dict[int, IndexEntry]] = {}
    row = -1
    for row, line in enumerate(read_file(path)):
        columns = line.split("\t")
        if len(columns) < 3 or not (columns[1].isascii() and columns[1].isdecimal()) or not columns[2]:
            raise DataError(
                f"{path}, row {row + 1}",
                f"is not a split, a line number and a file's name with tabs between them, but {line[:60]!r}",
                "see docs/datasets.md for what an index is",
            )
        lines = splits.setdefault(columns[0], {})
        number = int(columns[1])
        if number in lines:
            raise DataError(
                f"{path}, row {row + 1}",
                f"'{columns[0]}' line {number:,} has a picture already, in row {lines[number].row + 1:,}",
                "a line has one picture: remove one of the two rows",
            )
        lines[number] = IndexEntry(row, columns[2])
    return ImageIndex(row + 1, splits)


def read_rows(dataset: Dataset, split: str, names: Sequence[str]) -> Iterator[Row]:
    """The rows of several texts in parallel. A row keeps its line number if rows before it are excluded.

    Raises DataError, also if the fields differ in their number of lines, or if a required image belongs to a later
    line.
    """
    fields = [dataset.field(split, name) for name in names]
    included_lines, number = fields[0].included_lines, 0
    for number, texts in enumerate(zip_longest(*map(read_all_lines, fields)), 1):
        if None in texts:
            raise line_count_error(
                dataset, split, fields, [[count_lines(part) for part in field.parts] for field in fields]
            )
        if included_lines is None or number - 1 in included_lines:
            yield Row(number, texts)
    check_required_images(dataset, split, included_lines, number)


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


def missing_line_error(field: ImageField, line: int, lines: int) -> DataError:
    """The error for an index that names a line after the last one."""
    return DataError(
        str(field.index),
        f"has a picture for line {line:,} of '{field.split}', whose lines are 0 to {lines - 1:,}",
        "the index counts lines from 0: check that it belongs to these files",
    )
