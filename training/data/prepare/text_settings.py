"""Settings of the texts of a data set, and the checks that they suit each other."""

import sys
from collections.abc import Mapping, Sequence
from itertools import combinations
from typing import Literal

from pydantic import ValidationError

from interlinear.errors import DataError, RecipeError
from interlinear.text import TextConfig
from training.data.dataset import Dataset
from training.data.formats import describe_parts
from training.data.prepare.prepared import SPLITS, TARGET

TEXT_TRAITS = ("lowercase", "tokenised", "unknown", "segmentation")  # how a text is written


def text_config(
    dataset: Dataset,
    field: str,
    units: Literal["bpe", "unigram", "words"],
    vocabulary: int,
    lowercase: bool = False,
    operations_on: str | None = None,
) -> TextConfig:
    """The text settings of a field: the recipe's settings, and the data set's description of the text's form.

    Raises DataError if these are not possible, or differ between train and dev; RecipeError for too small a vocabulary.
    """
    where = f"data set '{dataset.name}', field '{field}'"
    train = dataset.field("train", field)
    if dataset.has_split("dev"):
        dev = dataset.field("dev", field)
        for trait in ("tokenised", "lowercase", "unknown", "segmentation"):
            if getattr(train, trait) != getattr(dev, trait):
                raise DataError(where, f"train and dev differ in '{trait}'", "write both alike")
    if train.segmentation is not None and not train.tokenised:
        raise DataError(where, "segmented text must be tokenised", "add `tokenised: true`, or remove `segmentation`")
    try:
        return TextConfig(
            units=units,
            vocabulary=vocabulary,
            lowercase=lowercase or train.lowercase,
            tokenised=train.tokenised,
            language=dataset.languages.get(field),
            unknown=train.unknown,
            segmentation=train.segmentation,
            operations_on=operations_on,
        )
    except ValidationError as error:
        raise RecipeError(field, error.errors()[0]["msg"].removeprefix("Value error, ")) from None


def warn_of_identical_fields(dataset: Dataset, names: Sequence[str]) -> None:
    """Warn on stderr of two fields of a split that are read from the same files: a model would learn to copy."""
    for split in SPLITS:
        for one, other in combinations([dataset.field(split, name) for name in names], 2):
            if one.parts == other.parts:
                where = f"data set '{dataset.name}', split '{split}'"
                print(
                    f"{where}: '{one.name}' and '{other.name}' are one text, {describe_parts(one.parts)}",
                    file=sys.stderr,
                )


def check_same_settings(key: str, fields: Mapping[str, TextConfig], traits: Sequence[str] = TEXT_TRAITS) -> None:
    """Raises RecipeError if texts differ in settings that a recipe's key requires to be equal."""
    target = fields[TARGET]
    for name, config in fields.items():
        for trait in traits:
            if getattr(config, trait) != getattr(target, trait):
                raise RecipeError(
                    key,
                    f"'{name}' and 'target' differ in {trait}: {getattr(config, trait)} and {getattr(target, trait)}",
                    f"make them equal, or leave {key} out",
                )
