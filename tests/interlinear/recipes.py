"""Every recipe as a small model with a batch, and those of a covering set. Imports only what tests for a GPU may."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
import torch

from interlinear.batch import Batch, collate, stack_images
from interlinear.images.decode import blank_image
from interlinear.models.model import Model, build
from tests.parameters import slow_but
from training.recipe import load_recipe

SOURCES, TARGETS = [[5, 6, 7], [8]], [[6, 7], [5]]
RECIPES = [str(path.relative_to("recipes").with_suffix("")) for path in sorted(Path("recipes").rglob("*.yaml"))]
# Each order of a step and each extension once, several texts, an image: what `make test` has.
QUICK = (
    "contextual_gates", "interactive_attention", "coverage_linguistic", "uam", "rnnsearch_low_resource",
    "multimodal_flat", "postedit_hierarchical", "transformer", "transformer_ssru",
)  # fmt: skip
EACH_ORDER = ("contextual_gates", "interactive_attention", "uam", "multimodal_flat")  # for what takes seconds a recipe


def each_recipe(recipes: Sequence[str] = RECIPES, quick: Sequence[str] = QUICK) -> pytest.MarkDecorator:
    """A test of each recipe, slow for those that repeat what a quick one has."""
    return pytest.mark.parametrize("recipe", slow_but([recipe for recipe in quick if recipe in recipes], recipes))


def small(recipe: str) -> tuple[Model, Batch]:
    """A recipe's model at small sizes, in fp32, and a batch in which each source is missing once, if it may be."""
    settings = load_recipe(recipe)
    sizes = {"embedding": 8, "hidden": 8, "attention_size": None, "combination_size": None, "feed_forward": 8}
    own = {key: size for key, size in sizes.items() if key in type(settings.model).model_fields}
    settings = settings.model_copy(update={"model": settings.model.model_copy(update=own)})
    config = settings.model_for(dict.fromkeys([*settings.sources, "target"], 9), {})
    texts: dict[str, list[list[int] | None]] = {name: [list(SOURCES[0]), list(SOURCES[1])] for name in config.texts}
    if len(config.sources) > 1:
        texts[next(iter(texts))][1] = None
    images = {
        name: stack_images([None, np.full_like(blank_image(grid), 7)], blank_image(grid), grid.regions)
        for name, grid in config.images.items()
    }
    torch.manual_seed(3)
    return build(config).train(), collate(texts, TARGETS, images=images)
