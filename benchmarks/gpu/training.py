"""Training throughput: target words a second of each system's update, beside its cost on the device."""

import copy
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Literal

import numpy as np
import torch

from benchmarks.gpu.cases import Case, Deadline, Part, Row, Setting, describe
from benchmarks.gpu.floor import update_work
from benchmarks.gpu.models import SYSTEMS, Size, System, random_image, random_lengths
from benchmarks.gpu.timing import PeakMemory, activity, interleaved, release_memory
from benchmarks.reporting import median
from interlinear.batch import Batch, collate, stack_images
from interlinear.images.decode import blank_image
from interlinear.models.model import Model
from interlinear.text import SPECIAL
from training.loop.batches import LENGTH_MULTIPLE
from training.loop.process_group import SingleProcess
from training.loop.training_step import Objective, ResultCopy, TrainingStep
from training.recipe import TrainingSettings

Precision = Literal["fp32", "bf16"]

RATE = 1e-4
BATCHES = 4  # a run is an update of each: from short sentences to long ones
ROUNDS = 5
WARM_UP = 3  # runs: what the first ones need more, a capture for example, is done then


def update_step(
    settings: TrainingSettings, model: Model, device: torch.device, cuda_graphs: bool = False
) -> TrainingStep:
    return TrainingStep(settings, Objective(settings), model, SingleProcess(), device, cuda_graphs)


MODES: dict[str, Callable[[TrainingSettings, Model, torch.device], TrainingStep]] = {
    "eager": update_step,
    "captured": partial(update_step, cuda_graphs=True),
}


def random_batches(system: System, model: Model, sentences: int) -> list[Batch]:
    """Batches of similar lengths, as training makes them, evenly spread from the shortest to the longest."""
    lengths, random = random_lengths(2 * BATCHES * sentences), np.random.default_rng(1)
    order = np.lexsort((lengths.source, lengths.target)).reshape(2 * BATCHES, sentences)[1::2]
    return [random_batch(system, model, lengths.source[rows], lengths.target[rows], random) for rows in order]


def random_batch(
    system: System, model: Model, source: np.ndarray, target: np.ndarray, random: np.random.Generator
) -> Batch:
    """A batch of random words with these lengths."""

    def words(lengths: np.ndarray) -> list[np.ndarray]:
        return [random.integers(len(SPECIAL), system.vocabulary, length) for length in lengths]

    images = {
        name: stack_images([random_image(grid, random) for _ in source], blank_image(grid), grid.regions)
        for name, grid in model.config.images.items()
    }
    texts = {name: words(source) for name in model.config.texts}
    return collate(texts, words(target), multiple=LENGTH_MULTIPLE, images=images)


def updater(step: TrainingStep, batches: Sequence[Batch]) -> Callable[[], None]:
    """A run: an update with each batch. The results are read at its end, so that the host waits once."""
    step.model.train()

    def run() -> None:
        copies = [
            ResultCopy(step.run([batch], target_words(batch), RATE, update)) for update, batch in enumerate(batches)
        ]
        for each in copies:
            result = each.read()
            assert result.is_finite, f"an update is not finite: {result}"
            assert not result.splits, "a batch did not fit into memory"

    return run


def rows(
    system: System, precision: Precision, sizes: Sequence[int], setting: Setting, deadline: Deadline
) -> Iterator[Row]:
    """One row for each number of sentences and each mode."""
    settings = system.recipe.training.model_copy(update={"precision": precision})
    model = system.build()
    about = {"system": system.name, "size": system.size, "precision": precision}
    for done, sentences in enumerate(sizes):
        if done and deadline.passed:
            return
        batches = random_batches(system, model, sentences)
        work = update_work(system, [shape_of(batch, model) for batch in batches])
        for row in measure(settings, model, batches, setting, deadline):
            if "error" in row:
                yield {"error": f"{sentences} sentences, {row['error']}"}
            else:
                yield about | {"batch": sentences} | row | {"operations": work.operations, "bytes": work.bytes}
        release_memory(setting.device)


def measure(
    settings: TrainingSettings, model: Model, batches: Sequence[Batch], setting: Setting, deadline: Deadline
) -> Iterator[Row]:
    """One row for each mode, which all train on the same batches."""
    device = setting.device
    if device.type == "cuda":
        batches = [batch.pin_memory() for batch in batches]  # as the loader does
    tokens = sum(target_words(batch) for batch in batches)
    runs: dict[str, Callable[[], None]] = {}
    memory: dict[str, float | None] = {}
    for mode, create in MODES.items():
        peak = PeakMemory(device)
        try:
            run = updater(create(settings, copy.deepcopy(model).to(device), device), batches)
            for _ in range(1 if setting.quick else WARM_UP):
                run()
        except Exception as error:
            yield {"error": f"{mode}: {describe(error)}"}
            continue
        runs[mode], memory[mode] = run, peak.mebibytes()
    seconds = interleaved(runs, device, 2 if setting.quick else ROUNDS, deadline.end)
    for mode, run in runs.items():
        per_run = median(seconds[mode])
        yield {
            "mode": mode,
            "tokens_per_second": tokens / per_run,
            "speedup": median(seconds["eager"]) / per_run if "eager" in seconds else None,
            "milliseconds": 1000 * per_run / BATCHES,
            "peak_mebibytes": memory[mode],
            **activity(run, device).as_row(BATCHES, per_run / BATCHES),
            "seconds": seconds[mode],
        }


def target_words(batch: Batch) -> int:
    """The number of target words, end symbols included."""
    assert batch.target_lengths is not None
    return sum(batch.target_lengths)


def shape_of(batch: Batch, model: Model) -> tuple[int, int, int]:
    """Rows, source and target positions."""
    assert batch.target_BL is not None
    return batch.rows, batch.text(model.config.first_text).ids_BT.shape[1], batch.target_BL.shape[1]


def cases(setting: Setting) -> list[Case]:
    """The reference size first, in each precision; then the papers' sizes."""
    if setting.quick:
        return [
            Case("rnnsearch", 1, partial(rows, System("rnnsearch", "tiny"), "fp32", [4])),
            Case("uam", 1, partial(rows, System("uam", "tiny"), "bf16", [4])),
            Case("multimodal_hierarchical", 1, partial(rows, System("multimodal_hierarchical", "tiny"), "fp32", [4])),
        ]
    sizes: list[Size] = ["reference", "paper"]
    precisions: list[Precision] = ["bf16", "fp32"]
    return [
        Case(f"{name}, {size}, {precision}", 1, partial(rows, System(name, size), precision, [32, 512, 128]))
        for size in sizes
        for precision in precisions
        for name in SYSTEMS
    ]


# fmt: off
PART = Part(
    "training",
    "Training",
    0.28,
    {
        "system": "system", "size": "size", "precision": "precision", "batch": "sentences", "mode": "mode",
        "tokens_per_second": "target words/s", "speedup": "over eager", "milliseconds": "ms an update",
        "floor": "floor, ms", "peak_mebibytes": "peak, MiB", "kernels": "kernels", "launches": "launches",
        "idle": "idle",
    },
    f"An update: loss, backward, clipping and optimizer of {BATCHES} batches from short to long; its result is read "
    "after the last. *peak*: the most memory since the model was made.",
    cases,
)
# fmt: on
