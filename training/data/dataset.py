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
from training.data.description import Description, FieldFiles, ImageFiles, TextFile, parse, problem_of
from training.data.formats import Counted, Part, check_same, count, named, read_file, read_part
from training.data.uris import Place, fingerprint, is_uri, matching, named_by
from training.package_files import shipped
from training.yaml_files import did_you_mean

GENERATED = Path("prepared/generated")


@dataclass(frozen=True)
class Field:
    """A field of a split whose files have been found.

    `kept`: the lines (from 0) that are read, where others lack a picture that the split requires. `encoding`: what
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
    kept: frozenset[int] | None = None
    encoding: Encoding | None = None

    @property
    def files(self) -> tuple[Place, ...]:
        return tuple(part.place for part in self.parts)

    def streams(self) -> "tuple[Field, ...]":
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
    where: Path
    roots: tuple[Path, ...]

    def has(self, split: str) -> bool:
        return split in self.splits

    def fields(self, split: str) -> tuple[str, ...]:
        """The names of a split's fields that are text. Raises DataError where there is no such split."""
        if split not in self.splits:
            raise DataError(
                str(self.where),
                f"has no split '{split}', only {quoted(self.splits)}",
                did_you_mean(split, self.splits) or f"add `{split}:` below `splits:`",
            )
        return tuple(name for name, field in self.splits[split].items() if isinstance(field, FieldFiles))

    def images(self, split: str) -> tuple[str, ...]:
        """The names of a split's fields that are pictures. Raises DataError where there is no such split."""
        texts = self.fields(split)
        return tuple(name for name in self.splits[split] if name not in texts)

    def no_field(self, split: str, name: str, names: Sequence[str], kind: str) -> DataError:
        if name in self.splits[split]:
            problem = f"the field '{name}' of the split '{split}' is not {kind}"
            return DataError(str(self.where), problem, "the recipe's sources must be of the kind that the data has")
        there = f", only {quoted(names)}" if names else f" of {kind}"
        return DataError(
            str(self.where),
            f"the split '{split}' has no field '{name}'{there}",
            "use one of these names in the recipe, or add the field to the description",
        )

    def image(self, split: str, name: str) -> ImageField:
        """One field of pictures. Raises DataError: no such split, no such field, a file that is not there."""
        names = self.images(split)
        described = self.splits[split].get(name)
        if not isinstance(described, ImageFiles):
            raise self.no_field(split, name, names, "pictures")
        return ImageField(
            name=name,
            images=self.find(described.images),
            index=self.find(described.index),
            split=described.split or split,
            features=None if described.features is None else self.find(described.features),
            required=described.required,
        )

    def kept(self, split: str) -> frozenset[int] | None:
        """The lines (from 0) that have every picture which the split requires; None where all are read."""
        required = [name for name, field in self.splits[split].items() if getattr(field, "required", False)]
        lines = [frozenset(read_index(self.image(split, name))) for name in required]
        return frozenset.intersection(*lines) if lines else None

    def field(self, split: str, name: str) -> Field:
        """One field with its files found. Raises DataError: no such split, no such field, a file that is not there."""
        names = self.fields(split)
        described = self.splits[split].get(name)
        if not isinstance(described, FieldFiles):
            raise self.no_field(split, name, names, "text")
        return Field(
            name=name,
            parts=self.found(described.files),
            language=self.languages.get(name),
            tokenised=described.tokenised,
            lowercase=described.case == "lower",
            unknown=described.unknown,
            segmentation=described.segmentation,
            references=tuple(self.found(files) for files in described.references),
            kept=self.kept(split),
            encoding=self.cleaning.encoding if split == "train" else None,
        )

    def found(self, files: Sequence[TextFile]) -> tuple[Part, ...]:
        """The files of a text in their order, those of a pattern by name."""
        return tuple(
            Part(place, file.key, file.column, file.steps) for file in files for place in self.find_all(file.file)
        )

    def find(self, path: str) -> Path:
        """Where one file of this machine lies. Raises DataError."""
        found = [] if is_uri(path) else self.find_all(path)
        if len(found) != 1 or not isinstance(found[0], Path):
            raise DataError(f"data set '{self.name}'", f"{path} is not one file of this machine", "give one path")
        return found[0]

    def find_all(self, path: str) -> Sequence[Place]:
        """Where files lie: a URI, or a path, as it is when absolute, else in the first root that has it.

        Raises DataError.
        """
        if (remote := named_by(path)) is not None:
            return remote
        if Path(path).is_absolute():
            if local := matching(path):
                return local
            raise DataError(f"data set '{self.name}'", f"there is no file {path}", f"correct its path in {self.where}")
        for root in self.roots:
            if local := matching(str(root / path)):
                return local
        have = f"fetch it with `interlinear data get {self.name}`, or " if self.home(path) else ""
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
                digest.update(fingerprint(part.place).encode())
                digest.update(part.same.encode())
                digest.update(" ".join(part.steps).encode())
            if field.kept is not None:
                digest.update(str(sorted(field.kept)).encode())
        return digest.hexdigest()


def data_root(root: Path | None = None) -> Path:
    """The folder that corpora lie in: the one given, or INTERLINEAR_DATA, or ./data."""
    return root if root is not None else Path(os.environ.get("INTERLINEAR_DATA") or "data")


def known_datasets() -> tuple[str, ...]:
    """The names of the descriptions that come with the program."""
    return tuple(sorted(path.stem for path in shipped("corpora").glob("*.yaml")))


def read_description(name_or_path: str) -> tuple[str, Path, Description]:
    """A data set's name, its YAML file, and what that says. Raises UnknownDataError, or DataError for a bad file."""
    where = description_path(name_or_path)
    content = parse(where)
    try:
        return where.stem, where, Description.model_validate(content)
    except ValidationError as error:
        raise DataError(str(where), problem_of(error), "see docs/datasets.md for what it may say") from None


def locate(name_or_path: str, root: Path | None = None) -> Dataset:
    """A data set whose files may be missing: what it says, and where it looks for them. Raises as read_description."""
    name, where, description = read_description(name_or_path)
    said = {key: getattr(description, key) for key in Description.model_fields}
    return Dataset(name=name, where=where, roots=(data_root(root), where.parent), **said)


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
    if len(path.parts) == 1 and (known := shipped("corpora") / f"{name_or_path}.yaml").is_file():
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
    names = known_datasets()
    close = difflib.get_close_matches(name_or_path, names)
    meant = f"did you mean {' or '.join(close)}? " if close else ""
    raise UnknownDataError(
        f"data set '{name_or_path}'",
        "it does not exist",
        f"{meant}Known are {', '.join(names)}; or give the path of a YAML file",
    )


def quoted(names: Sequence[str] | Mapping[str, object]) -> str:
    return ", ".join(f"'{name}'" for name in names)


def read_lines(field: Field) -> Iterator[str]:
    """The lines of a field that are read, without their line ends; its files follow each other.

    Raises DataError: nothing in it, bytes that are not UTF-8, a damaged or unreadable file, a key or column that is not
    there (each with file and row), a step whose program is not installed.
    """
    for number, line in enumerate(every_line(field)):
        if field.kept is None or number in field.kept:
            yield line


def every_line(field: Field, start: int = 0, counted: Sequence[Counted] | None = None) -> Iterator[str]:
    """The lines of a field, those as well that lack a picture which the split requires. Raises as read_lines.

    From line `start` on (from 0), where the lines of its files have been `counted`.
    """
    empty = True
    for number, part in enumerate(field.parts):
        known = counted[number] if counted else None
        if known is not None and start >= known.lines:
            start -= known.lines
            continue
        if known is not None:
            check_same(part, known)
        for line in read_part(part, field.encoding, start, known, field.language, field.unknown):
            empty = False
            yield line
        start = 0
    if empty and counted is None:
        raise DataError(named(field.parts), f"the text of '{field.name}' has no lines")


class Entry(NamedTuple):
    """A picture in an index: its row there, counted from 0, and the file's name in the archive or folder."""

    row: int
    member: str


class Index(NamedTuple):
    """An index's rows in all, and the pictures of each of its splits by line, counted from 0."""

    rows: int
    splits: Mapping[str, Mapping[int, Entry]]


def read_index(field: ImageField) -> Mapping[int, Entry]:
    """The pictures of a split by line. Raises DataError: a row that is none (its number), a line that has two, no row
    for the split."""
    index = whole_index(field.index)
    if field.split not in index.splits:
        raise DataError(
            str(field.index),
            f"has no picture of a split '{field.split}', only of {quoted(index.splits)}",
            f"say with `split:` what the index calls it, or leave the field '{field.name}' out",
        )
    return index.splits[field.split]


def whole_index(path: Path) -> Index:
    """An index; one that has not changed is read once."""
    facts = path.stat()
    return parsed_index(path, facts.st_size, facts.st_mtime_ns)


@lru_cache(maxsize=64)
def parsed_index(path: Path, size: int, modified: int) -> Index:
    splits: dict[str, dict[int, Entry]] = {}
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
        lines[number] = Entry(row, columns[2])
    return Index(row + 1, splits)


def read_rows(dataset: Dataset, split: str, names: Sequence[str]) -> Iterator[Row]:
    """The lines of several texts in step; a row keeps its number where rows before it are left out.

    Raises DataError, also where one field has more lines than another, or pictures that a split requires more rows.
    """
    fields = [dataset.field(split, name) for name in names]
    kept, number = fields[0].kept, 0
    for number, texts in enumerate(zip_longest(*map(every_line, fields)), 1):
        if None in texts:
            raise unequal(dataset, split, fields, [[count(part) for part in field.parts] for field in fields])
        if kept is None or number - 1 in kept:
            yield Row(number, texts)
    check_required(dataset, split, kept, number)


def read_range(fields: Sequence[Field], counted: Sequence[Sequence[Counted]], start: int, end: int) -> Iterator[Row]:
    """Those rows of several texts from line `start` to before line `end` (from 0) that are read, in step."""
    readers = [every_line(field, start, known) for field, known in zip(fields, counted, strict=True)]
    for number, texts in enumerate(islice(zip(*readers, strict=False), end - start), start + 1):
        if fields[0].kept is None or number - 1 in fields[0].kept:
            yield Row(number, texts)


def unequal(dataset: Dataset, split: str, fields: Sequence[Field], counted: Sequence[Sequence[Counted]]) -> DataError:
    """That texts differ in their lines: the first files that do, where each has as many; else all of them."""
    where, remedy = f"data set '{dataset.name}', split '{split}'", "line i of each file must belong together"
    places = [[str(part.place) for part in field.parts] for field in fields]
    lines = [[one.lines for one in known] for known in counted]
    if len({len(names) for names in places}) == 1:
        first = next(i for i, counts in enumerate(zip(*lines, strict=True)) if len(set(counts)) > 1)
        said = [f"{names[first]} has {counts[first]:,} lines" for names, counts in zip(places, lines, strict=True)]
    else:
        said = [f"{named(field.parts)} has {sum(n):,} lines" for field, n in zip(fields, lines, strict=True)]
    return DataError(where, ", ".join(said), remedy)


def check_required(dataset: Dataset, split: str, kept: frozenset[int] | None, lines: int) -> None:
    """Raises DataError where a picture that the split requires belongs to a line that is not there."""
    if kept and max(kept) >= lines:
        required = next(field for name in dataset.images(split) if (field := dataset.image(split, name)).required)
        raise no_such_line(required, max(kept), lines)


def no_such_line(field: ImageField, line: int, lines: int) -> DataError:
    return DataError(
        str(field.index),
        f"has a picture for line {line:,} of '{field.split}', whose lines are 0 to {lines - 1:,}",
        "the index counts lines from 0: look whether it belongs to these files",
    )
