"""A data set: a YAML file that says where text lies, read here line by line and never whole."""

import difflib
import gzip
import hashlib
import os
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import chain, zip_longest
from pathlib import Path
from typing import Annotated, Any, BinaryIO, Literal, cast

import pydantic
import yaml
from pydantic import BaseModel, BeforeValidator, ConfigDict, ValidationError, field_validator, model_validator

from seq2seq.errors import DataError, UnknownDataError
from training.rewriting import WORDS, Step, rewriter
from training.shipped import shipped

GENERATED = Path("prepared/generated")

Task = Literal["translation", "summarization", "multimodal", "post-edit"]
RecipeValue = bool | int | float | str | None


class Record(BaseModel):
    """A part of a description: nothing unknown in it, nothing changed after it was read."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class TextFile(Record):
    """A file, and the steps that write each of its lines as the other files of its field are written."""

    file: str
    steps: tuple[Step, ...] = ()

    @model_validator(mode="before")
    @classmethod
    def short_form(cls, value: object) -> object:
        """A path stands for a file that is read as it is."""
        return {"file": value} if isinstance(value, str) else value


def as_list(value: object) -> object:
    """One path may stand where a list of paths may."""
    return [value] if isinstance(value, str) else value


Files = Annotated[tuple[TextFile, ...], BeforeValidator(as_list), pydantic.Field(min_length=1)]


class FieldFiles(Record):
    """One field of one split: its files, read one after the other as one text, and how that text is written."""

    files: Files
    tokenised: bool = False
    case: Literal["natural", "lower"] = "natural"
    segmentation: str | None = None
    unknown: str | None = None
    references: tuple[Files, ...] = ()

    @model_validator(mode="before")
    @classmethod
    def short_form(cls, value: object) -> object:
        """A path, or a list of paths, stands for a field without options."""
        return {"files": value} if isinstance(value, str | list) else value

    @property
    def every_file(self) -> tuple[TextFile, ...]:
        """The files of the text and of its references."""
        return tuple(chain(self.files, *self.references))

    @model_validator(mode="after")
    def steps_lead_to_the_form(self) -> "FieldFiles":
        for file in self.every_file:
            if not self.tokenised and WORDS.intersection(file.steps):
                raise ValueError(f"{file.file} is cut into words, so its field must say `tokenised: true`")
            if self.case != "lower" and "lower" in file.steps:
                raise ValueError(f"{file.file} is put into lower case, so its field must say `case: lower`")
        return self


class Home(Record):
    """The public URL of a file, or (ending in `/`) of a folder of files, and a file's SHA-256 where it is known."""

    url: str
    sha256: str | None = pydantic.Field(default=None, pattern="^[0-9a-f]{64}$")

    @model_validator(mode="before")
    @classmethod
    def short_form(cls, value: object) -> object:
        """A URL stands for a home whose checksum is not known."""
        return {"url": value} if isinstance(value, str) else value

    @field_validator("url")
    @classmethod
    def is_https(cls, url: str) -> str:
        if not url.startswith("https://"):
            raise ValueError("a home's URL begins with https://")
        return url


class Description(Record):
    """What a data set's YAML file says. Its paths are absolute, or relative to the data root or to the file itself."""

    task: Task
    about: str
    licence: str
    languages: dict[str, str]
    splits: dict[str, dict[str, FieldFiles]] = pydantic.Field(min_length=1)
    defaults: dict[str, RecipeValue] = {}
    homes: dict[str, Home] = {}
    generate: Literal["demo", "demo-headline", "demo-image", "demo-postedit"] | None = None

    @model_validator(mode="after")
    def languages_belong_to_fields(self) -> "Description":
        known = {field for fields in self.splits.values() for field in fields}
        for field in self.languages:
            if field not in known:
                raise ValueError(f"languages names the field '{field}', which no split has")
        return self

    def home(self, path: str) -> Home | None:
        """Where a file can be had: its own home, or its place below the home of a folder that holds it."""
        if path in self.homes:
            return self.homes[path]
        for folder, home in self.homes.items():
            if folder.endswith("/") and path.startswith(folder):
                return Home(url=home.url + path.removeprefix(folder))
        return None

    @property
    def paths(self) -> tuple[str, ...]:
        """Every file that the splits name, once, as written."""
        fields = [field for split in self.splits.values() for field in split.values()]
        return tuple(dict.fromkeys(file.file for field in fields for file in field.every_file))


@dataclass(frozen=True)
class Field:
    """A field of a split whose files have been found. `steps`: what the lines of some of them go through."""

    name: str
    files: tuple[Path, ...]
    steps: Mapping[Path, tuple[Step, ...]]
    language: str | None
    tokenised: bool
    lowercase: bool
    unknown: str | None
    segmentation: str | None
    references: tuple[tuple[Path, ...], ...]

    def streams(self) -> "tuple[Field, ...]":
        """This text and its further references, each as a field of its own."""
        further = [replace(self, files=files, references=()) for files in self.references]
        return (replace(self, references=()), *further)


@dataclass(frozen=True)
class Row:
    """One line of each of the fields that were asked for; the first line has number 1."""

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
        """The names of a split's fields. Raises DataError where there is no such split."""
        if split not in self.splits:
            raise DataError(
                str(self.where),
                f"has no split '{split}', only {quoted(self.splits)}",
                f"add `{split}:` below `splits:`",
            )
        return tuple(self.splits[split])

    def field(self, split: str, name: str) -> Field:
        """One field with its files found. Raises DataError: no such split, no such field, a file that is not there."""
        if name not in self.fields(split):
            raise DataError(
                str(self.where),
                f"the split '{split}' has no field '{name}', only {quoted(self.fields(split))}",
                "use one of these names in the recipe, or add the field to the description",
            )
        described = self.splits[split][name]
        return Field(
            name=name,
            files=self.found(described.files),
            steps={self.find(file.file): file.steps for file in described.every_file if file.steps},
            language=self.languages.get(name),
            tokenised=described.tokenised,
            lowercase=described.case == "lower",
            unknown=described.unknown,
            segmentation=described.segmentation,
            references=tuple(self.found(files) for files in described.references),
        )

    def found(self, files: Sequence[TextFile]) -> tuple[Path, ...]:
        return tuple(self.find(file.file) for file in files)

    def find(self, path: str) -> Path:
        """Where a file lies: as it is when absolute, else in the first root that has it. Raises DataError."""
        for root in self.roots:
            if (root / path).exists():
                return root / path
        have = f"fetch it with `interlinear data get {self.name}`, or " if self.home(path) else ""
        raise DataError(
            f"data set '{self.name}'",
            f"{path} was not found in {' or in '.join(str(root) for root in self.roots)}",
            f"{have}say where the corpora lie with --data-root or INTERLINEAR_DATA",
        )

    def fingerprint(self, split: str, names: Sequence[str]) -> str:
        """SHA-256 (hex) over the contents of the named fields' files, and the steps that their lines go through."""
        digest = hashlib.sha256()
        for name in names:
            digest.update(f"{name}\n".encode())
            field = self.field(split, name)
            for path in field.files:
                facts = path.stat()
                digest.update(contents_hash(path.resolve(), facts.st_size, facts.st_mtime_ns).encode())
                digest.update(" ".join(field.steps.get(path, ())).encode())
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
        raise DataError(str(where), first_problem(error), "docs/datasets.md lists what a description may say") from None


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
    if path.suffix in {".yaml", ".yml"} or len(path.parts) != 1:
        if path.is_file():
            return path
        raise UnknownDataError(
            name_or_path, "there is no such file", "give a data set's name or the path of its YAML file"
        )
    path = shipped("corpora") / f"{name_or_path}.yaml"
    if path.is_file():
        return path
    known = known_datasets()
    close = difflib.get_close_matches(name_or_path, known)
    meant = f"did you mean {' or '.join(close)}? " if close else ""
    raise UnknownDataError(
        f"data set '{name_or_path}'",
        "it does not exist",
        f"{meant}Known are {', '.join(known)}; or give the path of a YAML file",
    )


def parse(where: Path) -> Mapping[str, Any]:
    """A YAML file's mapping. Raises DataError."""
    try:
        content = yaml.safe_load(where.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise DataError(str(where), f"cannot be read as YAML: {' '.join(str(error).split())}") from None
    if not isinstance(content, dict):
        raise DataError(str(where), "is not a data set's description", "docs/datasets.md shows one")
    return content


def first_problem(error: ValidationError) -> str:
    """The first thing that is wrong with a description, as `key: what`."""
    first = error.errors()[0]
    key = ".".join(str(part) for part in first["loc"])
    if first["type"] == "extra_forbidden":
        return f"unknown key '{key}'"
    if first["type"] == "missing":
        return f"the key '{key}' is missing"
    what = first["msg"].removeprefix("Value error, ")
    return f"{key}: {what}" if key else what


def quoted(names: Sequence[str] | Mapping[str, object]) -> str:
    return ", ".join(f"'{name}'" for name in names)


@lru_cache(maxsize=1024)
def contents_hash(path: Path, size: int, modified_ns: int) -> str:
    """SHA-256 of a file, computed once for each size and time of change."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def read_lines(field: Field) -> Iterator[str]:
    """The lines of a field, without their line ends; its files follow each other, each rewritten by its steps.

    Files are plain or gzip, strict UTF-8. Raises DataError: nothing in it, bytes that are not UTF-8 (file and line), a
    damaged or unreadable file, a step whose program is not installed.
    """
    empty = True
    for path in field.files:
        lines = read_file(path)
        if steps := field.steps.get(path):
            lines = map(rewriter(steps, field.language, field.unknown), lines)
        for line in lines:
            empty = False
            yield line
    if empty:
        raise DataError(" + ".join(str(path) for path in field.files), f"the text of '{field.name}' has no lines")


def read_file(path: Path) -> Iterator[str]:
    """The lines of one file, without their line ends. Raises DataError."""
    try:
        with path.open("rb") as file:
            compressed = file.peek(2)[:2] == b"\x1f\x8b"
            lines = cast(BinaryIO, gzip.GzipFile(fileobj=file)) if compressed else file
            for number, line in enumerate(lines, 1):
                try:
                    text = line.decode("utf-8-sig" if number == 1 else "utf-8")
                except UnicodeDecodeError as error:
                    raise DataError(
                        f"{path}, line {number}",
                        f"is not valid UTF-8 (byte 0x{line[error.start]:02x} at position {error.start})",
                        "convert the file to UTF-8",
                    ) from None
                yield text.removesuffix("\n").removesuffix("\r")
    except (OSError, EOFError, zlib.error) as error:
        raise DataError(str(path), f"cannot be read: {error}") from None


def read_rows(dataset: Dataset, split: str, names: Sequence[str]) -> Iterator[Row]:
    """The lines of several fields in step. Raises DataError, also where one field has more lines than another."""
    fields = [dataset.field(split, name) for name in names]
    readers = [read_lines(field) for field in fields]
    for number, texts in enumerate(zip_longest(*readers), 1):
        if None in texts:
            counts = [
                number - 1 + (text is not None) + sum(1 for _ in reader)
                for text, reader in zip(texts, readers, strict=True)
            ]
            said = ", ".join(
                f"{' + '.join(str(path) for path in field.files)} has {count:,} lines"
                for field, count in zip(fields, counts, strict=True)
            )
            raise DataError(
                f"data set '{dataset.name}', split '{split}'", said, "line i of each file must belong together"
            )
        yield Row(number, texts)
