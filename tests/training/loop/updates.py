"""Updates of a recipe's small model on random batches, with and without CUDA graphs. Needs neither Ray nor MLflow."""

from collections.abc import Callable, Sequence

import numpy as np
import torch
from torch import Tensor, nn

from seq2seq.batch import Batch, collate, stack_images
from seq2seq.images.inputs import blank_image
from seq2seq.model.model import Model
from tests.seq2seq.model.test_precision import small
from training.loop.objective import Objective
from training.loop.process_group import ProcessGroup, SingleProcess
from training.loop.training_step import ResultCopy, TrainingStep
from training.recipe import load_recipe

SHAPES = ((5, 6), (3, 3))  # rows, and words of the longest text


def batches_of(model: Model, count: int = 8) -> list[Batch]:
    """Random batches of two shapes in turn, so that every buffer is used again for other lengths; sources and images
    that may be missing are missing in some rows."""
    random = np.random.default_rng(5)

    def ids(longest: int) -> list[int]:
        return random.integers(4, 9, random.integers(1, longest + 1)).tolist()

    batches = []
    for number in range(count):
        rows, longest = SHAPES[number % len(SHAPES)]
        texts: dict[str, list[list[int] | None]] = {
            name: [ids(longest) for _ in range(rows)] for name in model.config.texts
        }
        images = {}
        for name, grid in model.config.images.items():
            blank = blank_image(grid)
            values = [np.full_like(blank, random.integers(1, 9)) for _ in range(rows)]
            present = [value if random.random() < 0.6 else None for value in values]
            images[name] = stack_images(present, blank, grid.regions)
        for name in list(texts)[1:]:
            texts[name] = [row if random.random() < 0.6 else None for row in texts[name]]
        batches.append(collate(texts, [ids(longest) for _ in range(rows)], multiple=8, images=images))
    return batches


def step_of(
    recipe: str,
    cuda_graphs: bool,
    device: torch.device,
    dtype: torch.dtype = torch.float64,
    precision: str = "fp32",
    warn: Callable[[str], None] = print,
    workers: ProcessGroup | None = None,
) -> TrainingStep:
    """The updates of a recipe's small model.

    There is no dropout between an encoder's layers where torch draws other numbers for it without graphs: for packed
    sequences, and in cuDNN.
    """
    model, _ = small(recipe)
    model = model.to(device, dtype)
    for module in model.modules():
        if isinstance(module, nn.RNNBase) and (device.type == "cuda" or model.config.first_state == "sum"):
            module.dropout = 0.0
    settings = load_recipe(recipe).training.model_copy(update={"precision": precision})
    return TrainingStep(settings, Objective(settings), model, workers or SingleProcess(), device, cuda_graphs, warn)


def updates(step: TrainingStep, batches: Sequence[Batch], rate: float = 0.01) -> Tensor:
    """Run one update on each batch together with the one before it; returns all results."""
    results = [
        ResultCopy(step.run([batch, batches[number - 1]], 2 * batch.rows, rate, number)).numbers_7
        for number, batch in enumerate(batches)
    ]
    if step.device.type == "cuda":
        torch.cuda.synchronize(step.device)
    return torch.stack(results)


def weights_of(step: TrainingStep) -> list[Tensor]:
    return [parameter.detach().cpu() for parameter in step.parameters]
