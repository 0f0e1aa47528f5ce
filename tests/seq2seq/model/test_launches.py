"""The number of operators of a search step and of a training position, which on a GPU are launches of kernels.

A recipe that needs more than today's most expensive one does something in a loop that it should do at once.
"""

import pytest

from benchmarks.launches import compiled_kernels, search_operators, training
from tests.parameters import slow_but
from training.recipe.loading import recipe_names

RECIPES = [name for name in recipe_names() if "/" not in name]


@pytest.mark.parametrize("recipe", slow_but(["contextual_gates"], RECIPES))
def test_a_step_and_a_position_are_few_operators(recipe: str) -> None:
    position, _ = training(recipe)
    assert 0 < search_operators(recipe) <= 175
    assert 0 < position <= 155


def test_rnnsearch_has_the_fewest() -> None:
    position, _ = training("rnnsearch")
    assert search_operators("rnnsearch") <= 120 and position <= 50


@pytest.mark.slow
@pytest.mark.parametrize(
    "recipe", [pytest.param(name, marks=pytest.mark.ci) if name == "rnnsearch" else name for name in RECIPES]
)
def test_a_compiled_step_has_a_third_of_the_kernels(recipe: str) -> None:
    assert 0 < compiled_kernels(recipe) <= search_operators(recipe) / 3
