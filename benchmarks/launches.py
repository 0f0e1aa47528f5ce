"""Operators that a step of search and a position of training dispatch, for every recipe: on a GPU each is a kernel
launch or more.

    python -m benchmarks.launches [--save]

Counted on torch's meta device, so that no GPU is needed and no time is measured; of a compiled step, in the program
that torch's compiler writes for it.
"""

import argparse
import ast
from contextlib import suppress
from dataclasses import replace
from typing import Any

import torch
from torch._inductor import config as inductor_config
from torch._inductor.utils import get_code
from torch.utils._python_dispatch import TorchDispatchMode

from benchmarks.reporting import Report
from seq2seq.batch import Batch, collate, stack_images
from seq2seq.images.decode import blank_image
from seq2seq.model.model import Model, build
from seq2seq.search import SearchOptions, SearchRequest, SlotTable
from seq2seq.search.compiled import CompiledStep
from seq2seq.search.step import SearchStep, search_step
from training.recipe import load_recipe
from training.recipe.loading import recipe_names

SENTENCES, LENGTH, VOCABULARY = 2, 6, 9

NOTES = (
    "Operators of torch's dispatcher without those that only make a view. *Search, a step*: one step of a table with "
    "two sentences at beam 3, without its read of the results. *Compiled*: calls of kernels in the compiled step's "
    "program, fused ones, products, and others such as top-k. *Training, a position*: loss and backward pass, for one "
    f"target position more; *an update*: everything else of them, at {LENGTH} source positions. The encoder's LSTM "
    "counts by its positions here, as the meta device has no fused one; cuDNN has.",
)


class Operators(TorchDispatchMode):
    """Counts the operators that are dispatched, except for views."""

    def __init__(self) -> None:
        super().__init__()
        self.count = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.count += not (func.is_view or func in (torch.ops.aten.detach.default, torch.ops.aten._unsafe_view.default))
        return func(*args, **(kwargs or {}))


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
        model.train().loss(batch).objective.backward()  # type: ignore[no-untyped-call]
    return operators.count


def training(recipe: str) -> tuple[float, float]:
    """Operators of one target position, and of an update without its positions."""
    short, long = update(recipe, LENGTH), update(recipe, 2 * LENGTH)
    position = (long - short) / LENGTH
    return position, short - position * (LENGTH + 1)  # the end symbol has a position too


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--save", action="store_true", help="keep the result in benchmarks/results/")
    asked = parser.parse_args()
    counts = {
        recipe: (search_operators(recipe), compiled_kernels(recipe), *training(recipe)) for recipe in recipe_names()
    }
    rows = [[recipe, *(f"{count:.0f}" for count in numbers)] for recipe, numbers in counts.items()]
    columns = ["recipe", "search, a step", "compiled", "training, a position", "training, an update"]
    Report("launches", "Operators of every recipe", columns, rows, NOTES, counts).publish(asked.save)


if __name__ == "__main__":
    main()
