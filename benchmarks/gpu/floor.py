"""The work that an update and a step of search cannot avoid: operations of their matrix products, and bytes of memory.

Counted on torch's meta device. A device's rates (`timing.product_rate`, `copy_rate`) turn them into a time.
"""

from dataclasses import dataclass
from functools import cache

import torch
from torch.utils.flop_counter import FlopCounterMode

from benchmarks.gpu.models import System
from interlinear.batch import Batch, collate, stack_images
from interlinear.images.decode import blank_image
from interlinear.losses.training_loss import training_loss
from interlinear.models.model import Model
from interlinear.search import SearchOptions, SearchRequest, SlotTable

# An update with Adam in fp32 reads the weights forward and backward, writes and reads their gradients, and reads and
# writes the weights and two moments: ten times four bytes a parameter.
UPDATE_BYTES = 40
ROWS = 2
SHORT, LONG = (2, 4), (4, 6)  # source and target positions at which an update's operations are counted


@dataclass(frozen=True)
class Work:
    """Operations of matrix products, and bytes read and written."""

    operations: float
    bytes: float

    def seconds(self, operations_rate: float, bytes_rate: float) -> float:
        """The shortest time, if operations and memory overlap wholly."""
        return max(self.operations / operations_rate, self.bytes / bytes_rate)


@cache
def on_meta(system: System) -> Model:
    return system.build().to("meta")


def batch_of(model: Model, source: int, target: int) -> Batch:
    """A batch of two rows with these positions, end symbols included, on the host."""
    config = model.config
    texts: dict[str, list[list[int] | None]] = {name: [[5] * (source - 1)] * ROWS for name in config.texts}
    images = {
        name: stack_images([blank_image(grid)] * ROWS, blank_image(grid), grid.regions)
        for name, grid in config.images.items()
    }
    return collate(texts, [[5] * (target - 1)] * ROWS, images=images)


@cache
def update_operations(system: System, source: int, target: int) -> float:
    """Operations of an update's loss and gradients for one sentence, counted."""
    model = on_meta(system).train()
    batch = batch_of(model, source, target).to("meta")
    with FlopCounterMode(display=False) as counter:
        training_loss(model, batch).objective.backward()  # type: ignore[no-untyped-call]
    return float(counter.get_total_flops() / ROWS)


def update_work(system: System, shapes: list[tuple[int, int, int]]) -> Work:
    """An update's work, the mean over batches of these rows, source and target positions.

    Operations are linear in either number of positions, so they are counted for few and short ones.
    """
    corners = [[update_operations(system, source, target) for target in LONG] for source in SHORT]

    def operations(source: int, target: int) -> float:
        by_source = [low + (high - low) * (target - LONG[0]) / (LONG[1] - LONG[0]) for low, high in corners]
        return by_source[0] + (by_source[1] - by_source[0]) * (source - SHORT[0]) / (SHORT[1] - SHORT[0])

    padded = [(rows, source, max(source, target) if pads_target(system) else target) for rows, source, target in shapes]
    total = sum(rows * operations(source, target) for rows, source, target in padded)
    parameters = sum(parameter.numel() for parameter in on_meta(system).parameters())
    return Work(total / len(shapes), UPDATE_BYTES * parameters)


def pads_target(system: System) -> bool:
    """Whether targets are padded to the length of their sources."""
    return on_meta(system).alignment is not None


@cache
def step_work(system: System, source: int, beam: int, bytes_a_number: int) -> tuple[Work, Work]:
    """A step of search: the work for each sentence of so many positions, and that which does not depend on their
    number, which is the reading of the weights."""
    model = on_meta(system).eval()
    options = SearchOptions(beam=beam, max_length=8)
    table = SlotTable(model, beam, sync_interval=4)
    batch = Batch(batch_of(model, source, 1).sources)
    table.admit(batch, [SearchRequest(row, options, 8) for row in range(ROWS)])
    with FlopCounterMode(display=False) as counter, torch.inference_mode():
        table.step()
    assert table.memory is not None
    memory = sum(view.keys_BTA.numel() + view.values_BTD.numel() for view in table.memory.views.values())
    weights = {id(p): p.numel() for part in (model.decoder, model.output) for p in part.parameters()}
    return (
        Work(counter.get_total_flops() / ROWS, memory / ROWS * bytes_a_number),
        Work(0.0, sum(weights.values()) * bytes_a_number),
    )
