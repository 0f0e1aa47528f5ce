"""Updates of a recipe's small model on random batches, with and without CUDA graphs. Needs neither Ray nor MLflow."""

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
import torch
from torch import Tensor, nn

from interlinear.batch import Batch, TextInput, collate, stack_images, target_lengths
from interlinear.images.decode import blank_image
from interlinear.models.model import Model
from tests.interlinear.recipes import small
from training.loop.process_group import ProcessGroup, SingleProcess
from training.loop.training_step import Objective, ResultCopy, TrainingStep
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


def with_guide(batch: Batch) -> Batch:
    """The batch with a guide: target piece l is linked with the source pieces l and l + 1, and every third one with
    none."""
    assert batch.target_BL is not None
    source = next(each for each in batch.sources.values() if isinstance(each, TextInput))
    place_L, place_T = (torch.arange(width) for width in (batch.target_BL.shape[1], source.ids_BT.shape[1]))
    offset_LT = place_T - place_L[:, None]
    linked_LT = (offset_LT >= 0) & (offset_LT <= 1) & (place_L[:, None] % 3 < 2)
    pieces_B = [lengths - 1 for lengths in (target_lengths(batch.target_BL), source.lengths_B)]
    there_BLT = (place_L < pieces_B[0][:, None])[..., None] & (place_T < pieces_B[1][:, None])[:, None]
    guide_BLT = (linked_LT & there_BLT).float()
    return replace(batch, guide_BLT=guide_BLT / guide_BLT.sum(-1, keepdim=True).clamp_min(1))


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
