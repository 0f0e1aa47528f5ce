"""The source of the word links of a recipe's guide, for a data set."""

import torch

from interlinear.errors import TrainingError
from training.data.dataset import Dataset
from training.data.guide.link_sources import Aligner, LinksFile, LinkSource, ReverseModel
from training.data.prepare.prepared import TARGET
from training.recipe import SELF, Recipe


def link_source(recipe: Recipe, dataset: Dataset, tracking: str | None) -> LinkSource | None:
    """The source of the word links that `training.guide` asks for; None without a guide.

    `tracking`: the MLflow server, for a model by name. Raises DataError for a file that is missing, UsageError for an
    aligner that is not installed, and TrainingError for a model that is not of the opposite direction.
    """
    guide = recipe.training.guide
    if guide is None:
        return None
    if guide.file is not None:
        return LinksFile(guide.file)
    if guide.links != SELF:
        return Aligner(guide.links)
    assert guide.reverse is not None
    return load_reverse(guide.reverse, next(iter(recipe.texts)), dataset, tracking)


def load_reverse(name: str, source: str, dataset: Dataset, tracking: str | None) -> ReverseModel:
    """The model of the opposite direction, on a GPU if there is one. `source`: the first text of the training.

    Raises TrainingError if it reads another language than the data's target, or writes another than its first text.
    """
    from interlinear.bundle import load
    from interlinear.generation.generator import SequenceGenerator
    from interlinear.registry.resolve import fetch_bundle

    bundle = load(fetch_bundle(name, tracking).folder, "cuda" if torch.cuda.is_available() else "cpu")
    card = bundle.card
    theirs = card.languages.get(card.model.first_text), card.languages.get(TARGET)
    ours = dataset.languages.get(source), dataset.languages.get(TARGET)
    if None not in (*theirs, *ours) and theirs != ours[::-1]:
        raise TrainingError(
            f"training.guide.reverse {name}",
            f"it goes from {theirs[0]} to {theirs[1]}, and this training from {ours[0]} to {ours[1]}",
            f"name a model from {ours[1]} to {ours[0]}",
        )
    if bundle.card.model.images or bundle.tokenizers[TARGET].config.operations_on:
        raise TrainingError(
            f"training.guide.reverse {name}", "it does not translate text alone", "name a model that reads text"
        )
    raw = not any(dataset.field("train", field).tokenised for field in (source, TARGET))
    return ReverseModel(SequenceGenerator(bundle, width=1), raw)
