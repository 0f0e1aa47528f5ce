"""A data set, and its fields, as YAML for the description of another data set, in another folder."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from interlinear.errors import DataError
from training.data.dataset.dataset import ALIGNMENT, Dataset
from training.data.dataset.description import FieldFiles, ImageFiles, TextFile
from training.data.uris import expand_path, is_uri


def written_description(dataset: Dataset, about: str, splits: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """The content of a description with these splits, whose fields are written; everything else is the data set's."""
    known = {name for fields in splits.values() for name in fields}
    described = {
        "task": dataset.task,
        "about": about,
        "licence": dataset.licence,
        "languages": {name: code for name, code in dataset.languages.items() if name in known},
        "splits": splits,
        "joined": {name: joined.model_dump() for name, joined in dataset.joined.items()},
        "cleaning": dataset.cleaning.model_dump(exclude_defaults=True),
        "defaults": dataset.defaults,
    }
    return {key: value for key, value in described.items() if value != {}}


def written_field(dataset: Dataset, field: FieldFiles | ImageFiles) -> dict[str, Any]:
    """A field as written in a description of another folder."""
    content = field.model_dump(mode="json", exclude_defaults=True)
    if isinstance(field, ImageFiles):
        return content | {
            key: _located(dataset, content[key]) for key in ("images", "index", "features") if key in content
        }
    content["files"] = written_files(dataset, field.files)
    if field.references:
        content["references"] = [written_files(dataset, files) for files in field.references]
    return content


def written_files(dataset: Dataset, files: Sequence[TextFile]) -> list[Any]:
    """Files as written in a description of another folder."""
    contents = [file.model_dump(exclude_defaults=True) | {"file": _located(dataset, file.file)} for file in files]
    return [content["file"] if len(content) == 1 else content for content in contents]


def _located(dataset: Dataset, path: str) -> str:
    """The path as it is found from another folder: unchanged if it is absolute, a URI, or below the data root, which
    every description is searched in; else absolute."""
    if is_uri(path) or Path(path).is_absolute():
        return path
    root = next((root for root in dataset.roots if expand_path(str(root / path))), None)
    return str(root.resolve() / path) if root == dataset.path.parent else path


SIDES = ("source", "target")


def check_extendable(dataset: Dataset) -> None:
    """Raises DataError for a data set whose train split is not raw text with a source and a target only."""
    dataset.fields("train")
    where = f"data set '{dataset.name}'"
    if set(dataset.splits["train"]) - {ALIGNMENT} != set(SIDES):
        names = " and ".join(dataset.splits["train"])
        raise DataError(where, f"its train split has {names}, and pairs have a source and a target", "use another")
    for side in SIDES:
        field = dataset.splits["train"][side]
        if not isinstance(field, FieldFiles) or field.tokenised or field.segmentation:
            raise DataError(where, f"its {side} is not raw text, and the pairs are", "use one of raw text")


def extended_description(dataset: Dataset, files: tuple[str, str], about: str) -> dict[str, Any]:
    """The content of a description: the data set with the lines of a source and a target file appended to train.

    `about`: a description of these lines. The data set must be extendable, see `check_extendable`.
    """
    splits = {
        split: {name: written_field(dataset, field) for name, field in fields.items()}
        for split, fields in dataset.splits.items()
    }
    splits["train"].pop(ALIGNMENT, None)  # the further pairs have none
    for side, file in zip(SIDES, files, strict=True):
        field = dataset.splits["train"][side]
        assert isinstance(field, FieldFiles)
        further = TextFile(file=file, steps=("lower",) if field.case == "lower" else ())
        content = further.model_dump(mode="json", exclude_defaults=True)
        splits["train"][side]["files"].append(content if further.steps else file)
    return written_description(dataset, f"{dataset.about}; and {about}", splits)
