"""The number of operators of a search step and of a training position, which on a GPU are launches of kernels.

A recipe that needs more than today's most expensive one does something in a loop that it should do at once.
"""

import pytest

from benchmarks.launches import search_step, training
from training.recipe.loading import recipe_names

RECIPES = [name for name in recipe_names() if "/" not in name]


@pytest.mark.parametrize("recipe", RECIPES)
def test_a_step_and_a_position_are_few_operators(recipe: str) -> None:
    position, _ = training(recipe)
    assert 0 < search_step(recipe) <= 175
    assert 0 < position <= 155


def test_rnnsearch_has_the_fewest() -> None:
    position, _ = training("rnnsearch")
    assert search_step("rnnsearch") <= 120 and position <= 50
