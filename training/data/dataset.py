"""A data set: a YAML file that says where text lies, read here line by line and never whole."""

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
    """A field of a split whose files have been found.

    `included_lines`: the lines (from 0) that are read, where others lack a picture that the split requires. `encoding`: what
    cleaning does with lines that are not UTF-8; None: the split is not cleaned.
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
        """This text and its further references, each as a field of its own."""
        further = [replace(self, parts=parts, references=()) for parts in self.references]
        return (replace(self, references=()), *further)


@dataclass(frozen=True)
class ImageField:
    """A field of a split that is pictures, its files found. `split`: what the index calls the split."""

    name: str
    images: Path
    index: Path
    split: str
    features: Path | None
    required: bool


class Row(NamedTuple):
    """One line of each of the fields that were asked for; the first line of their files has number 1."""

    number: int
    texts: tuple[str, ...]


class Dataset(Description):
    """A description with a name, and the folders that its relative paths are looked for in, in their order."""

    name: str
    path: Path
    roots: tuple[Path, ...]

    def has_split(self, split: str) -> bool:
        return split in self.splits

    def fields(self, split: str) -> tuple[str, ...]:
        """The names of a split's fields that are text. Raises DataError where there is no such split."""
        if split not in self.splits:
            raise DataError(
                str(self.path),
                f"has no split '{split}', only {quote_names(self.splits)}",
                did_you_mean(split, self.splits) or f"add `{split}:` below `splits:`",
            )
        return tuple(name for name, field in self.splits[split].items() if isinstance(field, FieldFiles))

    def images(self, split: str) -> tuple[str, ...]:
        """The names of a split's fields that are pictures. Raises DataError where there is no such split."""
        texts = self.fields(split)
        return tuple(name for name in self.splits[split] if name not in texts)

    def missing_field_error(self, split: str, name: str, names: Sequence[str], kind: str) -> DataError:
        if name in self.splits[split]:
            problem = f"the field '{name}' of the split '{split}' is not {kind}"
            return DataError(str(self.path), problem, "the recipe's sources must be of the kind that the data has")
        there = f", only {quote_names(names)}" if names else f" of {kind}"
        return DataError(
            str(self.path),
            f"the split '{split}' has no field '{name}'{there}",
            "use one of these names in the recipe, or add the field to the description",
        )

    def image(self, split: str, name: str) -> ImageField:
        """One field of pictures. Raises DataError: no such split, no such field, a file that is not there."""
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
        """The lines (from 0) that have every picture which the split requires; None where all are read."""
        required = [name for name, field in self.splits[split].items() if getattr(field, "required", False)]
        lines = [frozenset(read_index(self.image(split, name))) for name in required]
        return frozenset.intersection(*lines) if lines else None

    def field(self, split: str, name: str) -> TextField:
        """One field with its files found. Raises DataError: no such split, no such field, a file that is not there."""
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
        """The files of a text in their order, those of a pattern by name."""
        return tuple(
            Part(location, file.key, file.column, file.steps)
            for file in files
            for location in self.find_files(file.file)
        )

    def find_file(self, path: str) -> Path:
        """Where one file of this machine lies. Raises DataError."""
        found = [] if is_uri(path) else self.find_files(path)
        if len(found) != 1 or not isinstance(found[0], Path):
            raise DataError(f"data set '{self.name}'", f"{path} is not one file of this machine", "give one path")
        return found[0]

    def find_files(self, path: str) -> Sequence[FileLocation]:
        """Where files lie: a URI, or a path, as it is when absolute, else in the first root that has it.

        Raises DataError.
        """
        if (remote := expand_uri(path)) is not None:
            return remote
        if Path(path).is_absolute():
            if local := expand_path(path):
                return local
            raise DataError(f"data set '{self.name}'", f"there is no file {path}", f"correct its path in {self.path}")
        for root in self.roots:
            if local := expand_path(str(root / path)):
                return local
        have = f"fetch it with `interlinear data get {self.name}`, or " if self.download_source(path) else ""
        raise DataError(
            f"data set '{self.name}'",
            f"{path} was not found in {' or in '.join(str(root) for root in self.roots)}",
            f"{have}say where the corpora lie with --data-root or INTERLINEAR_DATA",
        )

    def fingerprint(self, split: str, names: Sequence[str]) -> str:
        """SHA-256 (hex) over the contents of the named texts' files, the steps that their lines go through, and which
        lines are read."""
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
    """The folder that corpora lie in: the one given, or INTERLINEAR_DATA, or ./data."""
    return root if root is not None else Path(os.environ.get("INTERLINEAR_DATA") or "data")


def dataset_names() -> tuple[str, ...]:
    """The names of the descriptions that come with the program."""
    return tuple(sorted(path.stem for path in resource_folder("corpora").glob("*.yaml")))


def read_description(name_or_path: str) -> tuple[str, Path, Description]:
    """A data set's name, its YAML file, and what that says. Raises UnknownDataError, or DataError for a bad file."""
    where = description_path(name_or_path)
    content = read_description_file(where)
    try:
        return where.stem, where, Description.model_validate(content)
    except ValidationError as error:
        raise DataError(str(where), description_problem(error), "see docs/datasets.md for what it may say") from None


def locate(name_or_path: str, root: Path | None = None) -> Dataset:
    """A data set whose files may be missing: what it says, and where it looks for them. Raises as read_description."""
    name, where, description = read_description(name_or_path)
    said = {key: getattr(description, key) for key in Description.model_fields}
    return Dataset(name=name, path=where, roots=(data_root(root), where.parent), **said)


def open_dataset(name_or_path: str, root: Path | None = None, generated: Path = GENERATED) -> Dataset:
    """A data set by the name of a shipped description or by the path of a YAML file; a generated one is made once.

    `root` is where corpora lie (default: INTERLINEAR_DATA, else ./data), `generated` where generated ones are written.
    Raises UnknownDataError (with the known names) and DataError.
    """
    dataset = locate(name_or_path, root)
    if dataset.generate is None:
        return dataset
    from training.demo import generate

    return dataset.model_copy(update={"roots": (generate(dataset.generate, generated),)})


def description_path(name_or_path: str) -> Path:
    """The YAML file that a name or a path means. Raises UnknownDataError."""
    path = Path(name_or_path)
    described = path.suffix in {".yaml", ".yml"}
    if len(path.parts) == 1 and (known := resource_folder("corpora") / f"{name_or_path}.yaml").is_file():
        return known  # whatever else has that name here, as the folder of `make demo`
    if path.is_dir() or (path.is_file() and not described):
        kind = "a folder" if path.is_dir() else "a text"
        raise UnknownDataError(
            name_or_path,
            f"is {kind}, and a data set is described by a YAML file that says where its texts lie",
            "see docs/your-own-data.md for one of four lines",
        )
    if described or len(path.parts) != 1:
        if path.is_file():
            return path
        raise UnknownDataError(
            name_or_path, "there is no such file", "give a data set's name or the path of its YAML file"
        )
    names = dataset_names()
    close = difflib.get_close_matches(name_or_path, names)
    meant = f"did you mean {' or '.join(close)}? " if close else ""
    raise UnknownDataError(
        f"data set '{name_or_path}'",
        "it does not exist",
        f"{meant}Known are {', '.join(names)}; or give the path of a YAML file",
    )


def quote_names(names: Sequence[str] | Mapping[str, object]) -> str:
    return ", ".join(f"'{name}'" for name in names)


def read_lines(field: TextField) -> Iterator[str]:
    """The lines of a field that are read, without their line ends; its files follow each other.

    Raises DataError: nothing in it, bytes that are not UTF-8, a damaged or unreadable file, a key or column that is not
    there (each with file and row), a step whose program is not installed.
    """
    for number, line in enumerate(read_all_lines(field)):
        if field.included_lines is None or number in field.included_lines:
            yield line


def read_all_lines(field: TextField, start: int = 0, line_indexes: Sequence[LineIndex] | None = None) -> Iterator[str]:
    """The lines of a field, those as well that lack a picture which the split requires. Raises as read_lines.

    From line `start` on (from 0), where the lines of its files have been `line_indexes`.
    """
    empty = True
    for number, part in enumerate(field.parts):
        known = line_indexes[number] if line_indexes else None
        if known is not None and start >= known.lines:
            start -= known.lines
            continue
        if known is not None:
            check_unchanged(part, known)
        for line in read_part(part, field.encoding, start, known, field.language, field.unknown):
            empty = False
            yield line
        start = 0
    if empty and line_indexes is None:
        raise DataError(describe_parts(field.parts), f"the text of '{field.name}' has no lines")


class IndexEntry(NamedTuple):
    """A picture in an index: its row there, counted from 0, and the file's name in the archive or folder."""

    row: int
    member: str


class ImageIndex(NamedTuple):
    """An index's rows in all, and the pictures of each of its splits by line, counted from 0."""

    rows: int
    splits: Mapping[str, Mapping[int, IndexEntry]]


def read_index(field: ImageField) -> Mapping[int, IndexEntry]:
    """The pictures of a split by line. Raises DataError: a row that is none (its number), a line that has two, no row
    for the split."""
    index = load_index(field.index)
    if field.split not in index.splits:
        raise DataError(
            str(field.index),
            f"has no picture of a split '{field.split}', only of {quote_names(index.splits)}",
            f"say with `split:` what the index calls it, or leave the field '{field.name}' out",
        )
    return index.splits[field.split]


def load_index(path: Path) -> ImageIndex:
    """An index; one that has not changed is read once."""
    facts = path.stat()
    return parse_index(path, facts.st_size, facts.st_mtime_ns)


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
    """The lines of several texts in step; a row keeps its number where rows before it are left out.

    Raises DataError, also where one field has more lines than another, or pictures that a split requires more rows.
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
    """Those rows of several texts from line `start` to before line `end` (from 0) that are read, in step."""
    readers = [read_all_lines(field, start, known) for field, known in zip(fields, line_indexes, strict=True)]
    for number, texts in enumerate(islice(zip(*readers, strict=False), end - start), start + 1):
        if fields[0].included_lines is None or number - 1 in fields[0].included_lines:
            yield Row(number, texts)


def line_count_error(
    dataset: Dataset, split: str, fields: Sequence[TextField], line_indexes: Sequence[Sequence[LineIndex]]
) -> DataError:
    """That texts differ in their lines: the first files that do, where each has as many; else all of them."""
    where, remedy = f"data set '{dataset.name}', split '{split}'", "line i of each file must belong together"
    places = [[str(part.location) for part in field.parts] for field in fields]
    lines = [[one.lines for one in known] for known in line_indexes]
    if len({len(names) for names in places}) == 1:
        first = next(i for i, counts in enumerate(zip(*lines, strict=True)) if len(set(counts)) > 1)
        said = [f"{names[first]} has {counts[first]:,} lines" for names, counts in zip(places, lines, strict=True)]
    else:
        said = [f"{describe_parts(field.parts)} has {sum(n):,} lines" for field, n in zip(fields, lines, strict=True)]
    return DataError(where, ", ".join(said), remedy)


def check_required_images(dataset: Dataset, split: str, included_lines: frozenset[int] | None, lines: int) -> None:
    """Raises DataError where a picture that the split requires belongs to a line that is not there."""
    if included_lines and max(included_lines) >= lines:
        required = next(field for name in dataset.images(split) if (field := dataset.image(split, name)).required)
        raise missing_line_error(required, max(included_lines), lines)


def missing_line_error(field: ImageField, line: int, lines: int) -> DataError:
    return DataError(
        str(field.index),
        f"has a picture for line {line:,} of '{field.split}', whose lines are 0 to {lines - 1:,}",
        "the index counts lines from 0: look whether it belongs to these files",
    )
