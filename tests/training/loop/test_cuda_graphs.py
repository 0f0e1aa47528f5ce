"""Updates from fixed buffers, which CUDA graphs repeat, equal those of the batches themselves.

Without a GPU the recorded function runs as it is, on the same buffers; tests/training/loop/test_gpu_graphs.py runs the
graphs.
"""

from collections.abc import Sequence

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from seq2seq.batch import Batch, collate, stack_images
from seq2seq.images.inputs import blank_image
from seq2seq.model.model import Model
from tests.seq2seq.model.test_precision import RECIPES, small
from training.loop.objective import Objective
from training.loop.process_group import SingleProcess
from training.loop.training_step import ResultCopy, TrainingStep
from training.recipe import TrainingSettings, load_recipe

CPU = torch.device("cpu")


def settings_of(recipe: str) -> TrainingSettings:
    return load_recipe(recipe).training.model_copy(update={"precision": "fp32"})


def batches_of(model: Model, count: int = 8) -> list[Batch]:
    """Random batches of two shapes in turn, so that every buffer is used again for other lengths; sources and images
    that may be missing are missing in some rows."""
    random = np.random.default_rng(5)

    def ids(longest: int) -> list[int]:
        return random.integers(4, 9, random.integers(1, longest + 1)).tolist()

    batches = []
    for number in range(count):
        rows, longest = ((5, 6), (3, 3))[number % 2]
        texts: dict[str, list[list[int] | None]] = {
            name: [ids(longest) for _ in range(rows)] for name in model.config.texts
        }
        images = {}
        for name, grid in model.config.images.items():
            blank = blank_image(grid)
            values = [
                np.full_like(blank, random.integers(1, 9)) if random.random() < 0.6 else None for _ in range(rows)
            ]
            images[name] = stack_images(values, blank, grid.regions)
        for name in list(texts)[1:]:
            texts[name] = [row if random.random() < 0.6 else None for row in texts[name]]
        targets = [ids(longest) for _ in range(rows)]
        batches.append(collate(texts, targets, multiple=8, images=images))
    return batches


def train_on(
    recipe: str, batches: Sequence[Batch], cuda_graphs: bool, dtype: torch.dtype
) -> tuple[Tensor, list[Tensor]]:
    """Results of all updates, and the weights after them."""
    model, _ = small(recipe)
    model = model.to(dtype)
    for module in model.modules():
        if isinstance(module, nn.RNNBase):  # between its layers dropout draws other numbers for a packed sequence
            module.dropout = 0.0
    settings = settings_of(recipe)
    step = TrainingStep(settings, Objective(settings), model, SingleProcess(), CPU, cuda_graphs)
    results = [
        ResultCopy(step.run([batch, batches[update - 1]], 2 * batch.rows, 0.01, update)).numbers_5
        for update, batch in enumerate(batches)
    ]
    return torch.stack(results), [parameter.detach() for parameter in step.parameters]


@pytest.mark.parametrize("recipe", RECIPES)
def test_updates_from_buffers_equal_those_of_the_batches(recipe: str) -> None:
    """Of every recipe, with its dropout, over batches of two shapes and many lengths: nothing is left in the buffers
    from the batch before, and each half of an update adds its own gradients."""
    batches = batches_of(small(recipe)[0])
    assert len({tuple(tensor.shape for tensor in batch.tensors) for batch in batches}) == 2
    expected, expected_weights = train_on(recipe, batches, False, torch.float64)
    found, weights = train_on(recipe, batches, True, torch.float64)
    torch.testing.assert_close(found, expected, rtol=1e-6, atol=0)
    for own, other in zip(weights, expected_weights, strict=True):
        torch.testing.assert_close(own, other, rtol=0, atol=1e-8)
