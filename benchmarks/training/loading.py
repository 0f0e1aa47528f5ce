"""Data loading in training: the share of time that training waits for the next batch, and the time that the loader
takes to build one, by array operations and row by row.

    python -m benchmarks.training.loading [--data multi30k-en-de-images] [--data-root FOLDER] [--updates 60]
        [--rounds 3] [--save]

The data set has images and image features. It is prepared first, if it is not yet.
"""

import argparse
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import torch

import training.loop.trainer
from benchmarks.ours import SomeUpdates
from benchmarks.reporting import Report, alone, median, say
from seq2seq.batch import Batch, collate, stack_images
from seq2seq.images.decode import blank_image
from seq2seq.memory_allocator import keep_freed_memory
from training.loop.batches import BatchLoader, Rows
from training.loop.trainer import Trainer
from training.runs.job import create_job

RECIPE = "multimodal_hierarchical"
READ = {
    "texts": ("rnnsearch_star", ()),
    "texts and features of regions": (RECIPE, ("sources.image={kind: image, encoder: grid}",)),
    "texts and pixels": (RECIPE, ()),
}
FIRST = 10  # updates that are not counted, during which the loader starts

NOTES = (
    "`train` in one process with one thread for the mathematics, the loader's thread beside it: reading from the "
    "memory-mapped arrays, collating, and for pictures gathering their rows. *Waiting*: the share of an update's time "
    "that the loop spends in asking for the next batch. *Building*: the loader alone, a batch after the other; *row by "
    "row*: the same batches from a list of ids and an image for each row. Medians over the rounds; the ratio is of "
    "medians.",
)


class TimedLoader(BatchLoader):
    """A loader that records the waiting time of each batch."""

    waits: list[float]  # of the loader that was iterated last, seconds

    def __iter__(self) -> Iterator[tuple[int, list[Batch]]]:
        TimedLoader.waits = []
        batches, asked = super().__iter__(), time.perf_counter()
        for item in batches:
            TimedLoader.waits.append(time.perf_counter() - asked)
            yield item
            asked = time.perf_counter()


class RowByRowLoader(BatchLoader):
    """Builds the same batches from a list of ids and an image for each row."""

    def _collate(self, rows: Rows, all_rows: Rows) -> Batch:
        split = self._split
        texts = {name: [split.ids(name, row) for row in rows] for name in self._sources}
        present = {name: [ids if len(ids) else None for ids in column] for name, column in texts.items()}
        images = {}
        for name, grid in self._images.items():
            values = [split.images[name].model_input(row, grid) for row in rows]
            images[name] = stack_images(values, blank_image(grid), grid.regions)
        return collate(present, [split.ids("target", row) for row in rows], self._multiple, images)


@dataclass(frozen=True)
class LoadingTime:
    """Milliseconds an update, the part spent waiting, and of the loader alone by arrays and row by row."""

    update: float
    waiting: float
    building: float
    row_by_row: float


def build_time(loader: type[BatchLoader], training: Trainer, updates: int) -> float:
    """Milliseconds for which a loader builds the batch of an update."""
    batches = iter(loader(training.data, training.plan(1), training.texts, images=training.model.config.images))
    for _ in range(FIRST):
        next(batches)
    begun = time.perf_counter()
    for _ in range(updates):
        next(batches)
    seconds = time.perf_counter() - begun
    batches.close()  # type: ignore[attr-defined]
    return 1000 * seconds / updates


def measure(what: str, asked: argparse.Namespace, prepared: Path) -> LoadingTime:
    recipe, settings = READ[what]
    with tempfile.TemporaryDirectory() as runs:
        job = create_job(
            recipe, asked.data, settings, data_root=asked.data_root, prepared=prepared / what, runs=Path(runs)
        )
        worker = SomeUpdates(asked.updates)
        training = Trainer(job, worker, [], torch.device("cpu"))
        training.run()
        counted, ended = asked.updates - FIRST, worker.stopwatch.times
        return LoadingTime(
            1000 * (ended[-1] - ended[FIRST - 1]) / counted,
            1000 * sum(TimedLoader.waits[FIRST:]) / counted,
            build_time(BatchLoader, training, counted),
            build_time(RowByRowLoader, training, counted),
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", default="multi30k-en-de-images")
    parser.add_argument("--data-root", type=Path)
    parser.add_argument("--updates", type=int, default=60)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--save", action="store_true", help="keep the result in benchmarks/results/")
    asked = parser.parse_args()
    keep_freed_memory()  # as the command does
    torch.set_num_threads(1)
    training.loop.trainer.BatchLoader = TimedLoader  # type: ignore[misc]
    ran: dict[str, list[LoadingTime]] = {what: [] for what in READ}
    others = 0.0
    with tempfile.TemporaryDirectory() as prepared:
        for _ in range(asked.rounds):
            for what, those in ran.items():
                with alone() as disturbance:
                    those.append(measure(what, asked, Path(prepared)))
                others = max(others, disturbance.share)
                one = those[-1]
                say(
                    f"{what}: {one.update:.0f} ms an update, of which {one.waiting:.2f} waiting; building "
                    f"{one.building:.2f}, row by row {one.row_by_row:.2f}"
                )
    rows = [
        [
            what,
            f"{median([one.update for one in those]):.0f}",
            f"{median([one.waiting for one in those]):.2f}",
            f"{median([one.waiting / one.update for one in those]):.2%}",
            f"{median([one.building for one in those]):.2f}",
            f"{median([one.row_by_row for one in those]):.2f}",
            f"{median([one.row_by_row for one in those]) / median([one.building for one in those]):.1f}",
            f"{others:.0%}",
        ]
        for what, those in ran.items()
    ]
    Report(
        "loading",
        f"Waiting for batches, {asked.data}",
        ["read", "ms an update", "ms waiting", "share", "ms building", "ms row by row", "ratio", "others"],
        rows,
        NOTES,
        {what: [vars(one) for one in those] for what, those in ran.items()},
    ).publish(asked.save)


if __name__ == "__main__":
    main()
