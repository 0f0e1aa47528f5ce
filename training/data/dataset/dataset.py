"""Data sets: a YAML description with the places of its files."""

import difflib
import hashlib
import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from pydantic import ValidationError

from interlinear.errors import DataError, UnknownDataError
from interlinear.installation import shell_command
from training.data.dataset.description import (
    Description,
    FieldFiles,
    ImageFiles,
    TextFile,
    description_problem,
    read_description_file,
)
from training.data.dataset.fields import ImageField, TextField, quote_names
from training.data.dataset.image_index import read_index
from training.data.dataset.joined import LineJoin
from training.data.formats import Part
from training.data.uris import FileLocation, expand_path, expand_uri, fingerprint, is_uri
from training.yaml_files import did_you_mean, is_yaml_file, resource_folder

ALIGNMENT = "alignment"  # the field of gold word alignments


class Dataset(Description):
    """A description with its name, its path, and the folders in which relative paths are searched, in order."""

    name: str
    path: Path
    roots: tuple[Path, ...]

    @property
    def split_names(self) -> tuple[str, ...]:
        """The names of all splits, splits with joined lines last."""
        return (*self.splits, *self.joined)

    def has_split(self, split: str) -> bool:
        return split in self.split_names

    def described_fields(self, split: str) -> Mapping[str, FieldFiles | ImageFiles]:
        """The fields of a split by name. A joined split has the texts of the other one, without images and gold
        alignments, which belong to single lines. Raises DataError if there is no such split."""
        if split in self.joined:
            fields = self.splits[self.joined[split].split]
            return {
                name: field for name, field in fields.items() if isinstance(field, FieldFiles) and name != ALIGNMENT
            }
        if split not in self.splits:
            raise DataError(
                str(self.path),
                f"has no split '{split}', only {quote_names(self.split_names)}",
                did_you_mean(split, self.split_names) or f"add `{split}:` below `splits:`",
            )
        return self.splits[split]

    def fields(self, split: str) -> tuple[str, ...]:
        """The names of a split's text fields. Raises DataError if there is no such split."""
        return tuple(name for name, field in self.described_fields(split).items() if isinstance(field, FieldFiles))

    def images(self, split: str) -> tuple[str, ...]:
        """The names of a split's image fields. Raises DataError if there is no such split."""
        texts = self.fields(split)
        return tuple(name for name in self.described_fields(split) if name not in texts)

    def missing_field_error(self, split: str, name: str, names: Sequence[str], kind: str) -> DataError:
        """The error for a field that the split does not have, or that is not of the requested kind."""
        if name in self.described_fields(split):
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
        described = self.described_fields(split).get(name)
        if not isinstance(described, ImageFiles):
            raise self.missing_field_error(split, name, names, "pictures")
        return ImageField(
            name=name,
            images=self.find_file(described.images),
            index=self.find_file(described.index),
            split=described.split or split,
            features=None if described.features is None else self.find_file(described.features),
            required=described.required,
            drawn=described.drawn,
        )

    def included_lines(self, split: str) -> frozenset[int] | None:
        """The lines (from 0) that have every image which the split requires; None if all lines are read."""
        required = [name for name, field in self.described_fields(split).items() if getattr(field, "required", False)]
        lines = [frozenset(read_index(self.image(split, name))) for name in required]
        return frozenset.intersection(*lines) if lines else None

    def field(self, split: str, name: str) -> TextField:
        """A text field with its files resolved. Raises DataError: no such split, no such field, a missing file."""
        names = self.fields(split)
        described = self.described_fields(split).get(name)
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
            join=self.line_join(split),
        )

    def line_join(self, split: str) -> LineJoin | None:
        """How the lines of a split are joined; None if they are not."""
        if split not in self.joined:
            return None
        joined = self.joined[split]
        source = self.field(joined.split, "source")
        return LineJoin(source.parts, source.language, source.unknown, joined.over, joined.up_to, joined.seed)

    def resolve_files(self, files: Sequence[TextFile]) -> tuple[Part, ...]:
        """The files of a text in order, each as often as it is repeated; files that match a pattern are sorted by name,
        and repeated together."""
        return tuple(
            Part(location, file.key, file.column, file.steps)
            for file in files
            for location in [*self.find_files(file.file)] * file.repeat
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
        get = shell_command("data", "get", self.name)
        download_hint = f"fetch it with `{get}`, or " if self.download_source(path) else ""
        raise DataError(
            f"data set '{self.name}'",
            f"{path} was not found in {' or in '.join(str(root) for root in self.roots)}",
            f"{download_hint}say where the corpora lie with --data-root or INTERLINEAR_DATA",
        )

    def has_file(self, path: str) -> bool:
        """Whether the files of a path or pattern are on this machine. A URI counts as present, without a connection."""
        return is_uri(path) or any(expand_path(str(root / path)) for root in self.roots)

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
            if field.join is not None:
                digest.update(f"{field.join.over} {field.join.up_to} {field.join.seed}".encode())
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


def open_dataset(name_or_path: str, root: Path | None = None) -> Dataset:
    """A data set by the name of a shipped description or by the path of a YAML file; its files need not exist.

    `root`: the folder of the corpora (default: INTERLINEAR_DATA, else ./data). Raises UnknownDataError (with the known
    names) and DataError.
    """
    name, yaml_path, description = read_description(name_or_path)
    values = {key: getattr(description, key) for key in Description.model_fields}
    return Dataset(name=name, path=yaml_path, roots=(data_root(root), yaml_path.parent), **values)


def description_path(name_or_path: str) -> Path:
    """The YAML file of a data set that is given by name or by path. Raises UnknownDataError."""
    path = Path(name_or_path)
    is_yaml = is_yaml_file(name_or_path)
    if len(path.parts) == 1 and (shipped := resource_folder("corpora") / f"{name_or_path}.yaml").is_file():
        return shipped  # takes precedence over a local file or folder, such as the one of `make demo`
    if path.is_dir() or (path.is_file() and not is_yaml):
        kind = "a folder" if path.is_dir() else "a text"
        raise UnknownDataError(
            name_or_path,
            f"is {kind}, and a data set is described by a YAML file that says where its texts lie",
            "see docs/your-own-data.md: instead of --data, --source names text itself",
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
