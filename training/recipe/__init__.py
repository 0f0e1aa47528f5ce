"""Recipes: text settings, model, training and search of one system. A recipe is one validated YAML file; `extends`
builds it on another recipe."""

from training.recipe.loading import (
    leaves,
    load_recipe,
    read_recipe_file,
    recipe_names,
    stated_keys,
    validate_recipe,
)
from training.recipe.settings import (
    SELF,
    GuideSettings,
    ImageSettings,
    Recipe,
    TargetSettings,
    TextSettings,
    TrainingSettings,
)

__all__ = [
    "SELF",
    "GuideSettings",
    "ImageSettings",
    "Recipe",
    "TargetSettings",
    "TextSettings",
    "TrainingSettings",
    "leaves",
    "load_recipe",
    "read_recipe_file",
    "recipe_names",
    "stated_keys",
    "validate_recipe",
]
