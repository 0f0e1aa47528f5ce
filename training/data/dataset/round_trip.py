"""The data set that round trips write (Junczys-Dowmunt and Grundkiewicz 2016): artificial post-edits beside real ones.

Its folder NAME has translations.source and translations.mt, the models' outputs for every line of the text;
NAME.train.source.gz, .mt.gz and .target.gz, the triples that were selected; NAME.yaml; and round_trip.json, which
records their origin.
"""

import gzip
import io
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from interlinear.errors import DataError, UsageError
from training.data.arrays import write_atomically
from training.data.dataset.dataset import Dataset
from training.data.dataset.description import MAX_REPEAT, FieldFiles
from training.data.dataset.generated_folder import GeneratedFolder
from training.data.dataset.written_description import written_description, written_field

SOURCE, MT, TARGET = FIELDS = ("source", "mt", "target")


@dataclass(frozen=True)
class RoundTripFolder(GeneratedFolder):
    """The folder of artificial post-edits, by its absolute path.

    Its record also has the key `selection`, the settings of the selection; other triples are selected in the same
    folder without translating again.
    """

    record_name = "round_trip.json"
    kind = "data set of round trips"
    recorded: ClassVar[Mapping[str, str]] = {
        "to_source": "was made by other models into the source language",
        "to_target": "was made by other models into the target language",
        "search": "was made with other search options",
        "precision": "was made in another precision",
        "data": "was made from other text",
        "form": "was made for post-edits that are written in another form",
    }

    def translations(self, name: str) -> Path:
        """The models' outputs for every line: `source` or `mt`."""
        return self.path / f"translations.{name}"

    def train_file(self, name: str) -> Path:
        """A field of the selected triples."""
        return self.path / f"{self.path.name}.train.{name}.gz"

    def write_train_file(self, name: str, lines: Iterable[str]) -> None:
        """Write a field of the selected triples: the same bytes for the same lines."""
        content = io.BytesIO()
        with gzip.GzipFile(filename="", mode="wb", fileobj=content, mtime=0) as file:
            file.writelines(f"{line}\n".encode() for line in lines)
        write_atomically(self.train_file(name), content.getvalue())


def check_post_edits(dataset: Dataset, repeat: int) -> None:
    """Raises DataError for a data set without post-edits for training and dev, or whose text is cut into subwords, and
    UsageError where its pairs cannot be repeated."""
    for split in ("train", "dev"):
        for name in FIELDS:
            if marker := dataset.field(split, name).segmentation:
                problem = f"its {name} is cut into subwords (marked {marker}), and a model's outputs are words"
                raise DataError(f"data set '{dataset.name}'", problem, "describe the text as it was before")
    if repeat > 1 and dataset.cleaning.duplicates == "drop":
        problem = f"{dataset.name} is cleaned with `duplicates: drop`, which would leave repeated post-edits out"
        raise UsageError("--repeat", problem, "give 1, or keep duplicates in its description")
    fields = [dataset.splits["train"][name] for name in FIELDS]
    most = max(file.repeat for field in fields if isinstance(field, FieldFiles) for file in field.files)
    if most * repeat > MAX_REPEAT:
        problem = f"{dataset.name} reads its post-edits {most} times already, and {MAX_REPEAT} times are the most"
        raise UsageError("--repeat", problem, f"give {MAX_REPEAT // most} at most")


def round_trip_description(dataset: Dataset, files: Mapping[str, str], about: str, repeat: int) -> dict[str, Any]:
    """The content of a description: train is the artificial triples in `files`, followed by the triples of `dataset`,
    `repeat` times; its other splits are unchanged.

    about: a description of the artificial triples.
    """
    splits = {
        split: {name: written_field(dataset, field) for name, field in fields.items()}
        for split, fields in dataset.splits.items()
    }
    train = {name: splits["train"][name] for name in FIELDS}
    for name, content in train.items():
        content["files"] = [files[name], *(repeated(file, repeat) for file in content["files"])]
    splits["train"] = train
    return written_description(dataset, f"{dataset.about}; and {about}", splits)


def repeated(file: str | dict[str, Any], times: int) -> str | dict[str, Any]:
    """A file's entry in a description, with its `repeat` multiplied."""
    content: dict[str, Any] = {"file": file} if isinstance(file, str) else file
    times *= int(content.get("repeat", 1))
    return file if times == 1 else {**content, "repeat": times}
