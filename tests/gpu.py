"""Parametrisation, models and batches of tests that compare a GPU with the CPU.

Their code also runs with the CPU in the place of the GPU, for one recipe, in every run of the tests. They import only
what `benchmarks/gpu/requirements.txt` names.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import numpy as np
import pytest
import torch

from benchmarks.gpu.models import random_image
from interlinear.batch import Batch, collate, stack_images
from interlinear.images.decode import blank_image
from interlinear.models.model import Model, build
from training.recipe import load_recipe
from training.recipe.loading import recipe_names

GPU = "cuda:0"
ON_GPU = (
    pytest.mark.gpu,
    pytest.mark.timeout(600),
    pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU that torch can use"),
)
RECIPES = recipe_names()
SENTENCES, LONGEST, VOCABULARY, SIZE = 6, 14, 60, 32


def on_devices(recipes: Sequence[str] = RECIPES, on_cpu: str | None = "contextual_gates") -> pytest.MarkDecorator:
    """Parametrises a test with `device` and `recipe`: every recipe on a GPU, and one on the CPU."""
    cases = [pytest.param(GPU, recipe, marks=ON_GPU) for recipe in recipes]
    return pytest.mark.parametrize(("device", "recipe"), [*([("cpu", on_cpu)] if on_cpu else []), *cases])


def sample(recipe: str, size: int = SIZE, vocabulary: int = VOCABULARY) -> Model:
    """A recipe's model without dropout, its sizes reduced, with weights far from zero, in fp32 on the CPU."""
    settings = load_recipe(recipe)
    changes = {
        "embedding": size, "hidden": size, "attention_size": None, "combination_size": None, "dropout": 0.0,
        "output_dropout": None, "word_dropout": None, "state_dropout": None, "source_dropout": None,
        "initialization": "uniform", "initialization_scale": 0.5,
    }  # fmt: skip
    settings = settings.model_copy(update={"model": settings.model.model_copy(update=changes)})
    torch.manual_seed(11)
    return build(settings.model_for(dict.fromkeys([*settings.sources, "target"], vocabulary), {}))


def sample_batch(model: Model, sentences: int = SENTENCES) -> Batch:
    """Random sentences of random lengths, with targets. If there are several sources, each is absent in one row."""
    random = np.random.default_rng(5)
    config = model.config

    def rows(vocabulary: int) -> list[list[int]]:
        return [random.integers(4, vocabulary, length).tolist() for length in random.integers(2, LONGEST, sentences)]

    texts: dict[str, list[list[int] | None]] = {
        name: [*rows(source.vocabulary)] for name, source in config.texts.items()
    }
    images: dict[str, list[np.ndarray | None]] = {
        name: [random_image(grid, random) for _ in range(sentences)] for name, grid in config.images.items()
    }
    if len(config.sources) > 1:
        for row, values in enumerate([*texts.values(), *images.values()]):
            values[row] = None
    stacked = {
        name: stack_images(images[name], blank_image(grid), grid.regions) for name, grid in config.images.items()
    }
    return collate(texts, rows(config.target.vocabulary), images=stacked)


@contextmanager
def waits_raised() -> Iterator[None]:
    """A context in which torch raises where the host would wait for a GPU."""
    torch.cuda.set_sync_debug_mode("error")
    try:
        yield
    finally:
        torch.cuda.set_sync_debug_mode("default")
