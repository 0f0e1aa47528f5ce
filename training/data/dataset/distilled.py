"""The data set that sequence-level distillation writes (Kim and Rush 2016): the outputs of a model are the targets of
its train split.

Its folder NAME has three files: NAME.yaml, the description, without which the data set is not complete;
NAME.train.target, one output a line; and distillation.json, which records where the outputs come from. While a model
translates, the outputs are in NAME.train.target.part.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, ClassVar

from interlinear.errors import DataError, UsageError
from training.data.dataset.dataset import Dataset
from training.data.dataset.description import FieldFiles, TextFile
from training.data.dataset.generated_folder import GeneratedFolder, complete_lines, open_lines
from training.data.dataset.written_description import written_description, written_field, written_files


@dataclass(frozen=True)
class DistilledFolder(GeneratedFolder):
    """The folder of a distilled data set, by its absolute path."""

    record_name = "distillation.json"
    kind = "distilled data set"
    recorded: ClassVar[Mapping[str, str]] = {
        "models": "was made by other models, or by other shortlists of them",
        "search": "was made with other search options",
        "precision": "was made in another precision",
        "data": "was made from other data",
        "originals": "was made with another choice of --with-originals",
    }

    @property
    def outputs(self) -> Path:
        # The data root is searched before this folder, so that a name like `train.target` could be another's text.
        return self.path / f"{self.path.name}.train.target"

    def open_outputs(self) -> tuple[BinaryIO, int]:
        """The file of outputs, to be continued, and its number of lines."""
        return open_lines(self.outputs)

    def finish(self, content: Mapping[str, Any]) -> None:
        """Give the outputs their final name and write the description, which completes the data set."""
        complete_lines(self.outputs)
        self.write_description(content)


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
    return written_description(dataset, f"{dataset.about}; the targets of train are outputs of {models}", splits)
