"""The number of operators of a search step and of a training position, which on a GPU are launches of kernels.

A recipe that needs more than today's most expensive one does something in a loop that it should do at once. Counted on
torch's meta device, so that no GPU is needed; of a compiled step, in the program that torch's compiler writes for it.
"""

import ast
from contextlib import suppress
from dataclasses import replace

import pytest
import torch
from torch._inductor import config as inductor_config
from torch._inductor.utils import get_code

from benchmarks.gpu.timing import Operators
from interlinear.batch import Batch, collate, stack_images
from interlinear.images.decode import blank_image
from interlinear.losses.training_loss import training_loss
from interlinear.models.model import Model, build
from interlinear.search import SearchOptions, SearchRequest, SlotTable
from interlinear.search.compiled import CompiledStep
from interlinear.search.step import SearchStep, search_step
from tests.interlinear.recipes import QUICK
from tests.parameters import slow_but
from training.recipe import load_recipe
from training.recipe.loading import recipe_names

SENTENCES, LENGTH, VOCABULARY = 2, 6, 9
RECIPES = [name for name in recipe_names() if "/" not in name]


def sample(recipe: str, target_length: int, device: str = "meta") -> tuple[Model, Batch]:
    """A recipe's model with few words, on a device, and a batch on the host."""
    settings = load_recipe(recipe)
    config = settings.model_for(dict.fromkeys([*settings.sources, "target"], VOCABULARY), {})
    texts: dict[str, list[list[int] | None]] = {name: [[5] * LENGTH] * SENTENCES for name in config.texts}
    images = {
        name: stack_images([blank_image(grid)] * SENTENCES, blank_image(grid), grid.regions)
        for name, grid in config.images.items()
    }
    with torch.device(device):
        model = build(config)
    batch = collate(texts, [[5] * target_length] * SENTENCES, images=images)
    if settings.training.guide:
        batch = replace(batch, guide_BLT=torch.zeros(SENTENCES, target_length + 1, LENGTH + 1))
    return model, batch


def table_of(recipe: str, device: str, search_step: SearchStep = search_step) -> SlotTable:
    """A table with two sentences."""
    model, batch = sample(recipe, LENGTH, device)
    table = SlotTable(model.eval(), 3, sync_interval=4, search_step=search_step)
    options = SearchOptions(beam=3)
    table.admit(Batch(batch.sources), [SearchRequest(row, options, LENGTH) for row in range(batch.rows)])
    return table


def search_operators(recipe: str) -> int:
    """Operators of one step of search."""
    table = table_of(recipe, "meta")
    table.step()
    with Operators() as operators:
        table.step()
    return operators.count


def compiled_kernels(recipe: str) -> int:
    """Calls of kernels in the program that the compiler writes for one step of search; it is not run."""
    table = table_of(recipe, "cpu", CompiledStep())

    def step() -> None:
        with suppress(AssertionError, TypeError):  # there is no program to run
            table.step()

    with inductor_config.patch(force_disable_caches=True):  # else a program of an earlier call is not written again
        program = "\n".join(get_code(step))
    called = [ast.unparse(node.func) for node in ast.walk(ast.parse(program)) if isinstance(node, ast.Call)]
    return sum(name.startswith(("cpp_fused_", "extern_kernels.", "torch.ops.", "aten.")) for name in called)


def update(recipe: str, target_length: int) -> int:
    """Operators of the loss and its backward pass."""
    model, batch = sample(recipe, target_length)
    batch = batch.to("meta")
    with Operators() as operators:
        training_loss(model.train(), batch).objective.backward()  # type: ignore[no-untyped-call]
    return operators.count


def training(recipe: str) -> tuple[float, float]:
    """Operators of one target position, and of an update without its positions."""
    short, long = update(recipe, LENGTH), update(recipe, 2 * LENGTH)
    position = (long - short) / LENGTH
    return position, short - position * (LENGTH + 1)  # the end symbol has a position too


@pytest.mark.parametrize("recipe", slow_but(["contextual_gates"], RECIPES))
def test_a_step_and_a_position_are_few_operators(recipe: str) -> None:
    """A Transformer's training has few operators of a position (an SSRU's recurrence), or none; a step of search has
    some 30 in each of its layers."""
    position, _ = training(recipe)
    of_transformer = load_recipe(recipe).model.kind == "transformer"
    assert 0 < search_operators(recipe) <= (275 if of_transformer else 175)
    assert position <= 4 if of_transformer else 0 < position <= 155


def test_rnnsearch_has_the_fewest() -> None:
    position, _ = training("rnnsearch")
    assert search_operators("rnnsearch") <= 120 and position <= 50


@pytest.mark.slow
@pytest.mark.parametrize("recipe", QUICK)  # some 20 s each
def test_a_compiled_step_has_a_third_of_the_kernels(recipe: str) -> None:
    assert 0 < compiled_kernels(recipe) <= search_operators(recipe) / 3
