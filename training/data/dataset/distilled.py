"""The data set that sequence-level distillation writes (Kim and Rush 2016): the outputs of a model are the targets of
its train split.

Its folder NAME has three files: NAME.yaml, the description, without which the data set is not complete;
NAME.train.target, one output a line; and distillation.json, which records where the outputs come from. While a model
translates, the outputs are in NAME.train.target.part.
"""

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import yaml

from seq2seq.bundle.checksums import CHECKSUM_KEY, content_checksum, read_checked_json
from seq2seq.errors import DataError, UsageError
from training.data.arrays import write_atomically
from training.data.dataset.dataset import Dataset
from training.data.dataset.description import FieldFiles, TextFile
from training.data.dataset.written_fields import written_field, written_files

RECORD = "distillation.json"
CHUNK = 1 << 20  # bytes read at a time

# What a record says, and the message where it differs. Outputs belong to one data set if all are equal.
RECORDED = {
    "models": "was made by other models, or by other shortlists of them",
    "search": "was made with other search options",
    "precision": "was made in another precision",
    "data": "was made from other data",
    "originals": "was made with another choice of --with-originals",
}


@dataclass(frozen=True)
class DistilledFolder:
    """The folder of a distilled data set, by its absolute path."""

    path: Path

    @property
    def description(self) -> Path:
        return self.path / f"{self.path.name}.yaml"

    @property
    def outputs(self) -> Path:
        # The data root is searched before this folder, so that a name like `train.target` could be another's text.
        return self.path / f"{self.path.name}.train.target"

    @property
    def partial(self) -> Path:
        return self.outputs.with_name(f"{self.outputs.name}.part")

    @property
    def complete(self) -> bool:
        return self.description.is_file()

    def check(self, record: Mapping[str, Any]) -> bool:
        """Whether the folder holds outputs with this record; False: it is free.

        Raises UsageError for a folder with other files, or with outputs of other models, options or data.
        """
        new_folder = "name a folder that does not exist with --output"
        if not self.path.exists():
            return False
        if not self.path.is_dir():
            raise UsageError(str(self.path), "is a file", new_folder)
        if not (self.path / RECORD).is_file():
            if any(not path.name.startswith(".") for path in self.path.iterdir()):
                raise UsageError(str(self.path), "is there already, and is no distilled data set", new_folder)
            return False
        try:
            recorded = read_checked_json(self.path / RECORD)
        except ValueError as error:
            raise UsageError(str(self.path / RECORD), f"is damaged: {error}", new_folder) from None
        for key, difference in RECORDED.items():
            if _identity(recorded.get(key)) != _identity(record[key]):
                raise UsageError(str(self.path), difference, f"{new_folder}, or remove this one")
        return True

    def create(self, record: Mapping[str, Any]) -> None:
        """Create the folder with its record, which has the keys of RECORDED."""
        self.path.mkdir(parents=True, exist_ok=True)
        content = {**record, CHECKSUM_KEY: content_checksum(record)}
        text = json.dumps(content, indent=2, ensure_ascii=False) + "\n"
        write_atomically(self.path / RECORD, text.encode())

    def open_outputs(self) -> tuple[BinaryIO, int]:
        """The file of outputs, to be continued, and its number of lines. A line without its end is removed."""
        if self.outputs.is_file():  # they were complete, and the description was not written
            self.outputs.rename(self.partial)
        lines = end = position = 0
        file = self.partial.open("ab+", buffering=0)
        file.seek(0)
        while chunk := file.read(CHUNK):
            lines += chunk.count(b"\n")
            if b"\n" in chunk:
                end = position + chunk.rindex(b"\n") + 1
            position += len(chunk)
        file.truncate(end)
        return file, lines

    def finish(self, content: Mapping[str, Any]) -> None:
        """Give the outputs their final name and write the description, which completes the data set."""
        with self.partial.open("rb") as file:
            os.fsync(file.fileno())
        self.partial.rename(self.outputs)
        text = yaml.safe_dump(dict(content), sort_keys=False, allow_unicode=True, width=120)
        write_atomically(self.description, text.encode())


def _identity(recorded: object) -> object:
    """A record's value without names, which may change: weights and data are compared by their checksums."""
    if isinstance(recorded, list):
        return [_identity(each) for each in recorded]
    if isinstance(recorded, Mapping):
        return {key: value for key, value in recorded.items() if key != "name"}
    return recorded


def check_distillable(dataset: Dataset, sources: Sequence[str], images: Sequence[str], originals: bool) -> None:
    """Raises DataError where the data set lacks train, dev, or a target that outputs can replace, and UsageError where
    originals cannot stand beside the outputs."""
    for split in ("train", "dev"):
        dataset.fields(split)
    for name in (*sources, "target"):
        dataset.field("train", name)
    if marker := dataset.field("train", "target").segmentation:
        raise DataError(
            f"data set '{dataset.name}'",
            f"its target is cut into subwords (marked {marker}), and a model's outputs are words",
            "describe the text as it was before",
        )
    if originals and images:
        raise UsageError(
            "--with-originals",
            f"each image belongs to one line of {dataset.name}, and the original targets would need it again",
            "leave it out",
        )


def distilled_description(
    dataset: Dataset, sources: Sequence[str], outputs: str, models: str, originals: bool
) -> dict[str, Any]:
    """The content of the description.

    The train split has the fields `sources`, texts and images, and the file `outputs` as target, followed with
    `originals` by the pairs as they were. All other splits are unchanged.
    """
    splits = {
        split: {name: written_field(dataset, field) for name, field in fields.items()}
        for split, fields in dataset.splits.items()
        if split != "train"
    }
    train = {name: written_field(dataset, dataset.splits["train"][name]) for name in sources}
    original = dataset.splits["train"]["target"]
    assert isinstance(original, FieldFiles)
    target = original.model_copy(update={"files": (TextFile(file=outputs),), "references": ()})
    content = written_field(dataset, target)
    if originals:
        for name in sources:
            train[name]["files"] += written_field(dataset, dataset.splits["train"][name])["files"]
        content["files"] += written_files(dataset, original.files)
    splits = {"train": {**train, "target": content}, **splits}
    known = {name for fields in splits.values() for name in fields}
    described = {
        "task": dataset.task,
        "about": f"{dataset.about}; the targets of train are outputs of {models}",
        "licence": dataset.licence,
        "languages": {name: code for name, code in dataset.languages.items() if name in known},
        "splits": splits,
        "joined": {name: joined.model_dump() for name, joined in dataset.joined.items()},
        "cleaning": dataset.cleaning.model_dump(exclude_defaults=True),
        "defaults": dataset.defaults,
    }
    return {key: value for key, value in described.items() if value != {}}
