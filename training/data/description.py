"""A data set's description: what its YAML file may say."""

from collections.abc import Mapping
from itertools import chain
from pathlib import Path
from typing import Annotated, Any, Literal

import pydantic
from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Discriminator,
    Tag,
    ValidationError,
    field_validator,
    model_validator,
)

from seq2seq.errors import DataError
from training.data.cleaning import Cleaning
from training.data.normalize import TOKENIZING_STEPS, NormalizationStep
from training.yaml_files import first_problem, read_mapping

Task = Literal["translation", "summarization", "multimodal", "post-edit"]
RecipeValue = bool | int | float | str | None


class StrictModel(BaseModel):
    """A part of a description: nothing unknown in it, nothing changed after it was read."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class TextFile(StrictModel):
    """A file, or a pattern that stands for several: what in it is the text (a key of JSON Lines, a column of Parquet,
    else its lines), and the steps that write each line as the other files of its field are written."""

    file: str
    key: str | None = None
    column: str | None = None
    steps: tuple[NormalizationStep, ...] = ()

    @model_validator(mode="before")
    @classmethod
    def expand_short_form(cls, value: object) -> object:
        """A path stands for a file that is read as it is."""
        return {"file": value} if isinstance(value, str) else value

    @model_validator(mode="after")
    def check_one_format(self) -> "TextFile":
        if self.key is not None and self.column is not None:
            raise ValueError(f"{self.file} has a `key` (JSON Lines) and a `column` (Parquet): it can be one of the two")
        return self


def as_list(value: object) -> object:
    """One path may stand where a list of paths may."""
    return [value] if isinstance(value, str) else value


def _listed(value: object) -> list[Any]:
    return value if isinstance(value, list) else [value]


Files = Annotated[tuple[TextFile, ...], BeforeValidator(as_list), pydantic.Field(min_length=1)]


class FieldFiles(StrictModel):
    """One field of one split: its files, read one after the other as one text, and how that text is written."""

    files: Files
    tokenised: bool = False
    case: Literal["natural", "lower"] = "natural"
    segmentation: str | None = None
    unknown: str | None = None
    references: tuple[Files, ...] = ()

    @model_validator(mode="before")
    @classmethod
    def expand_short_form(cls, value: object) -> object:
        """A path, or a list of paths, stands for a field without options; its key or column is that of its files."""
        if isinstance(value, str | list):
            return {"files": value}
        if not isinstance(value, dict) or not {"key", "column"}.intersection(value):
            return value
        within = {name: value[name] for name in ("key", "column") if name in value}
        files = [{"file": file} if isinstance(file, str) else file for file in _listed(value.get("files", []))]
        rest = {name: one for name, one in value.items() if name not in within}
        return {**rest, "files": [{**within, **file} if isinstance(file, dict) else file for file in files]}

    @property
    def all_files(self) -> tuple[TextFile, ...]:
        """The files of the text and of its references."""
        return tuple(chain(self.files, *self.references))

    @property
    def paths(self) -> tuple[str, ...]:
        return tuple(file.file for file in self.all_files)

    @model_validator(mode="after")
    def check_steps(self) -> "FieldFiles":
        for file in self.all_files:
            if not self.tokenised and TOKENIZING_STEPS.intersection(file.steps):
                raise ValueError(f"{file.file} is cut into words, so its field must say `tokenised: true`")
            if self.case != "lower" and "lower" in file.steps:
                raise ValueError(f"{file.file} is put into lower case, so its field must say `case: lower`")
        return self


class ImageFiles(StrictModel):
    """One field of one split that is pictures: an archive or a folder, and an index that says whose each of them is."""

    images: str
    index: str
    split: str | None = None
    features: str | None = None
    required: bool = False

    @property
    def paths(self) -> tuple[str, ...]:
        return tuple(path for path in (self.images, self.index, self.features) if path is not None)


def kind_of(field: object) -> str:
    """Whether a field is pictures or text."""
    pictures = isinstance(field, dict) and ("images" in field or "index" in field)
    return "image" if pictures or isinstance(field, ImageFiles) else "text"


AnyField = Annotated[Annotated[FieldFiles, Tag("text")] | Annotated[ImageFiles, Tag("image")], Discriminator(kind_of)]


def expand_rows(split: object) -> object:
    """A split's `rows` are files that have all of its texts: each other text names its key there, or its column."""
    if not isinstance(split, dict) or "rows" not in split:
        return split
    files = split["rows"]
    first = next(iter(_listed(files)), "")
    name = first.get("file") if isinstance(first, dict) else first
    within = "column" if str(name).endswith(".parquet") else "key"

    def field(value: object) -> object:
        if isinstance(value, str):
            return {"files": files, within: value}
        if not isinstance(value, dict) or "files" in value or kind_of(value) == "image":
            return value  # it has files of its own
        return {"files": files, **value}

    return {name: field(value) for name, value in split.items() if name != "rows"}


class DownloadSource(StrictModel):
    """The public URL of a file, or (ending in `/`) of a folder of files, and a file's SHA-256 where it is known."""

    url: str
    sha256: str | None = pydantic.Field(default=None, pattern="^[0-9a-f]{64}$")

    @model_validator(mode="before")
    @classmethod
    def expand_short_form(cls, value: object) -> object:
        """A URL stands for a home whose checksum is not known."""
        return {"url": value} if isinstance(value, str) else value

    @field_validator("url")
    @classmethod
    def check_https(cls, url: str) -> str:
        if not url.startswith("https://"):
            raise ValueError("a home's URL begins with https://")
        return url


class Description(StrictModel):
    """What a data set's YAML file says. Its paths are absolute, or relative to the data root or to the file itself."""

    task: Task
    about: str
    licence: str
    languages: dict[str, str]
    splits: dict[str, Annotated[dict[str, AnyField], BeforeValidator(expand_rows)]] = pydantic.Field(min_length=1)
    cleaning: Cleaning = Cleaning()
    defaults: dict[str, RecipeValue] = {}
    homes: dict[str, DownloadSource] = {}
    generate: Literal["demo", "demo-headline", "demo-image", "demo-postedit"] | None = None

    @model_validator(mode="after")
    def check_languages(self) -> "Description":
        known = {field for fields in self.splits.values() for field in fields}
        for field in self.languages:
            if field not in known:
                raise ValueError(f"languages names the field '{field}', which no split has")
        return self

    def download_source(self, path: str) -> DownloadSource | None:
        """Where a file can be had: its own home, or its place below the home of a folder that holds it."""
        if path in self.homes:
            return self.homes[path]
        for folder, download_source in self.homes.items():
            if folder.endswith("/") and path.startswith(folder):
                return DownloadSource(url=download_source.url + path.removeprefix(folder))
        return None

    @property
    def paths(self) -> tuple[str, ...]:
        """Every file that the splits name, once, as written."""
        fields = [field for split in self.splits.values() for field in split.values()]
        return tuple(dict.fromkeys(path for field in fields for path in field.paths))


def read_description_file(where: Path) -> Mapping[str, Any]:
    """A YAML file's mapping. Raises DataError."""
    return read_mapping(where, DataError, str(where), "docs/datasets.md")


def description_problem(error: ValidationError) -> str:
    """The first thing that is wrong with a description, as `key: what`."""
    place = error.errors()[0]["loc"]
    return first_problem(error, omitted_index=3 if place[:1] == ("splits",) and len(place) > 3 else None)
