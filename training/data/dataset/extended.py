"""A data set with further pairs in its train split; its other splits are unchanged."""

from typing import Any

from seq2seq.errors import DataError
from training.data.dataset.dataset import ALIGNMENT, Dataset
from training.data.dataset.description import FieldFiles, TextFile
from training.data.dataset.written_description import written_description, written_field

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
    """The content of a description: the data set with the lines of a source and a target file after those of train.

    `about`: what they are. The data set must be extendable, see `check_extendable`.
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
