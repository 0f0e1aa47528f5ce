"""Data loading in training: the share of time that training waits for the next batch.

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
from seq2seq.batch import Batch
from seq2seq.memory_allocator import keep_freed_memory
from training.loop.batches import BatchLoader
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
    "that the loop spends in asking for the next batch. Medians over the rounds.",
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


@dataclass(frozen=True)
class WaitingTime:
    """Milliseconds an update, and the part spent waiting."""

    update: float
    waiting: float


def measure(what: str, asked: argparse.Namespace, prepared: Path) -> WaitingTime:
    recipe, settings = READ[what]
    with tempfile.TemporaryDirectory() as runs:
        job = create_job(
            recipe, asked.data, settings, data_root=asked.data_root, prepared=prepared / what, runs=Path(runs)
        )
        worker = SomeUpdates(asked.updates)
        Trainer(job, worker, [], torch.device("cpu")).run()
    counted, ended = asked.updates - FIRST, worker.stopwatch.times
    return WaitingTime(1000 * (ended[-1] - ended[FIRST - 1]) / counted, 1000 * sum(TimedLoader.waits[FIRST:]) / counted)


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
    ran: dict[str, list[WaitingTime]] = {what: [] for what in READ}
    others = 0.0
    with tempfile.TemporaryDirectory() as prepared:
        for _ in range(asked.rounds):
            for what, those in ran.items():
                with alone() as disturbance:
                    those.append(measure(what, asked, Path(prepared)))
                others = max(others, disturbance.share)
                say(f"{what}: {those[-1].update:.0f} ms an update, of which {those[-1].waiting:.2f} waiting")
    rows = [
        [
            what,
            f"{median([one.update for one in those]):.0f}",
            f"{median([one.waiting for one in those]):.2f}",
            f"{median([one.waiting / one.update for one in those]):.2%}",
            f"{others:.0%}",
        ]
        for what, those in ran.items()
    ]
    Report(
        "loading",
        f"Waiting for batches, {asked.data}",
        ["read", "ms an update", "ms waiting", "share", "others"],
        rows,
        NOTES,
        {what: [vars(one) for one in those] for what, those in ran.items()},
    ).publish(asked.save)


if __name__ == "__main__":
    main()
