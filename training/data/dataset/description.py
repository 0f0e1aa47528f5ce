"""The YAML description of a data set, as pydantic models."""

from collections.abc import Mapping
from itertools import chain
from pathlib import Path
from typing import Annotated, Any, Literal
from urllib.parse import urlsplit

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

from interlinear.errors import DataError
from training.data.cleaning import Cleaning
from training.data.normalize import TOKENIZING_STEPS, NormalizationStep
from training.data.uris import is_uri
from training.yaml_files import first_problem, read_mapping

MAX_REPEAT = 1000

Task = Literal["translation", "summarization", "multimodal", "post-edit"]
RecipeValue = bool | int | float | str | None


class StrictModel(BaseModel):
    """Base of the models of a description: immutable, without unknown keys."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class TextFile(StrictModel):
    """A text file, or a pattern for several files. `key` (JSON Lines) or `column` (Parquet) selects the text;
    without them the text is the file's lines. `steps` normalize each line. `repeat`: how often the file is read."""

    file: str
    key: str | None = None
    column: str | None = None
    steps: tuple[NormalizationStep, ...] = ()
    repeat: int = pydantic.Field(1, ge=1, le=MAX_REPEAT)

    @model_validator(mode="before")
    @classmethod
    def expand_short_form(cls, value: object) -> object:
        """Accept a path in place of a mapping."""
        return {"file": value} if isinstance(value, str) else value

    @model_validator(mode="after")
    def check_one_format(self) -> "TextFile":
        if self.key is not None and self.column is not None:
            raise ValueError(f"{self.file} has a `key` (JSON Lines) and a `column` (Parquet): it can be one of the two")
        return self


def as_list(value: object) -> object:
    """Accept one path in place of a list of paths."""
    return [value] if isinstance(value, str) else value


def _listed(value: object) -> list[Any]:
    return value if isinstance(value, list) else [value]


Files = Annotated[tuple[TextFile, ...], BeforeValidator(as_list), pydantic.Field(min_length=1)]


class FieldFiles(StrictModel):
    """A text field of a split: its files, which are concatenated, and how the text is written."""

    files: Files
    tokenised: bool = False
    case: Literal["natural", "lower"] = "natural"
    segmentation: str | None = None
    unknown: str | None = None
    references: tuple[Files, ...] = ()

    @model_validator(mode="before")
    @classmethod
    def expand_short_form(cls, value: object) -> object:
        """Accept a path or a list of paths in place of a mapping, and copy the field's `key` or `column` to its
        files."""
        if isinstance(value, str | list):
            return {"files": value}
        if not isinstance(value, dict) or not {"key", "column"}.intersection(value):
            return value
        selector = {name: value[name] for name in ("key", "column") if name in value}
        files = [{"file": file} if isinstance(file, str) else file for file in _listed(value.get("files", []))]
        options = {name: option for name, option in value.items() if name not in selector}
        return {**options, "files": [{**selector, **file} if isinstance(file, dict) else file for file in files]}

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
    """An image field of a split: an archive or a folder of images, and an index that assigns them to lines. `drawn`:
    the images are drawn from the descriptions of scenes in the index, which is then also `images`."""

    images: str
    index: str
    drawn: bool = False
    split: str | None = None
    features: str | None = None
    required: bool = False

    @property
    def paths(self) -> tuple[str, ...]:
        return tuple(path for path in (self.images, self.index, self.features) if path is not None)


def kind_of(field: object) -> str:
    """Whether a field is an `image` or a `text` field."""
    is_image = isinstance(field, dict) and ("images" in field or "index" in field)
    return "image" if is_image or isinstance(field, ImageFiles) else "text"


AnyField = Annotated[Annotated[FieldFiles, Tag("text")] | Annotated[ImageFiles, Tag("image")], Discriminator(kind_of)]


def expand_rows(split: object) -> object:
    """Expand a split's `rows`: files that hold all of its texts. For each other field, a string is the key or column
    of its text in these files."""
    if not isinstance(split, dict) or "rows" not in split:
        return split
    files = split["rows"]
    first = next(iter(_listed(files)), "")
    name = str(first.get("file") if isinstance(first, dict) else first)
    path = urlsplit(name).path if is_uri(name) else name  # without a URI's options
    selector = "column" if path.lower().endswith(".parquet") else "key"

    def field(value: object) -> object:
        if isinstance(value, str):
            return {"files": files, selector: value}
        if not isinstance(value, dict) or "files" in value or kind_of(value) == "image":
            return value  # it names its own files
        return {"files": files, **value}

    return {name: field(value) for name, value in split.items() if name != "rows"}


class JoinedSplit(StrictModel):
    """A split of long sentences: consecutive lines of the split `split`, joined until the source has a minimum number
    of words.

    This number is drawn for each sentence, uniformly from `over` + 1 to `up_to`, by `seed`. Words are separated by
    spaces. Lines of different files are never joined.
    """

    split: str
    over: int = pydantic.Field(ge=0)
    up_to: int
    seed: int

    @model_validator(mode="after")
    def check_lengths(self) -> "JoinedSplit":
        if self.up_to <= self.over:
            raise ValueError(f"up_to is {self.up_to}, and must be more than over, {self.over}")
        return self


class DownloadSource(StrictModel):
    """The public URL of a file, or of a folder of files if it ends in `/`. `sha256`: the checksum of a file, if
    known."""

    url: str
    sha256: str | None = pydantic.Field(default=None, pattern="^[0-9a-f]{64}$")

    @model_validator(mode="before")
    @classmethod
    def expand_short_form(cls, value: object) -> object:
        """Accept a URL in place of a mapping; the checksum is then unknown."""
        return {"url": value} if isinstance(value, str) else value

    @field_validator("url")
    @classmethod
    def check_https(cls, url: str) -> str:
        if not url.startswith("https://"):
            raise ValueError("a home's URL begins with https://")
        return url


class Description(StrictModel):
    """The content of a description. Paths are absolute, or relative to the data root or to the YAML file."""

    task: Task
    about: str
    licence: str
    languages: dict[str, str]
    splits: dict[str, Annotated[dict[str, AnyField], BeforeValidator(expand_rows)]] = pydantic.Field(min_length=1)
    joined: dict[str, JoinedSplit] = {}
    cleaning: Cleaning = Cleaning()
    defaults: dict[str, RecipeValue] = {}
    homes: dict[str, DownloadSource] = {}

    @model_validator(mode="after")
    def check_languages(self) -> "Description":
        known = {field for fields in self.splits.values() for field in fields}
        for field in self.languages:
            if field not in known:
                raise ValueError(f"languages names the field '{field}', which no split has")
        return self

    @model_validator(mode="after")
    def check_repeats(self) -> "Description":
        for split, fields in self.splits.items():
            texts = [field for field in fields.values() if isinstance(field, FieldFiles)]
            for file in (file for field in texts for file in field.all_files if file.repeat > 1):
                if split != "train":
                    raise ValueError(f"{file.file} is repeated in {split}, and only texts of train can be")
                if self.cleaning.duplicates == "drop":
                    raise ValueError(f"{file.file} is repeated, and cleaning with `duplicates: drop` would undo that")
        return self

    @model_validator(mode="after")
    def check_joined(self) -> "Description":
        for name, joined in self.joined.items():
            if name in self.splits or name in ("train", "dev"):
                raise ValueError(f"joined names '{name}', which is a split of its own; give it another name")
            if not isinstance(self.splits.get(joined.split, {}).get("source"), FieldFiles):
                raise ValueError(f"joined.{name}: there is no split '{joined.split}' with a text 'source'")
        return self

    def download_source(self, path: str) -> DownloadSource | None:
        """The URL of a file: its own entry in `homes`, or one derived from the entry of a folder that holds it; None
        if there is neither."""
        if path in self.homes:
            return self.homes[path]
        for folder, download_source in self.homes.items():
            if folder.endswith("/") and path.startswith(folder):
                return DownloadSource(url=download_source.url + path.removeprefix(folder))
        return None

    @property
    def paths(self) -> tuple[str, ...]:
        """Every file that the splits name, as written, without repetition."""
        fields = [field for split in self.splits.values() for field in split.values()]
        return tuple(dict.fromkeys(path for field in fields for path in field.paths))


def read_description_file(where: Path) -> Mapping[str, Any]:
    """The mapping in a YAML file. Raises DataError."""
    return read_mapping(where, DataError, str(where), "docs/datasets.md")


def description_problem(error: ValidationError) -> str:
    """The first validation error of a description, as `key: problem`."""
    location = error.errors()[0]["loc"]
    return first_problem(error, omitted_index=3 if location[:1] == ("splits",) and len(location) > 3 else None)
