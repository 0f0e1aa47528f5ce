"""Cost of checkpoints in training: the seconds for which a save blocks the loop, as a share of a minute, and pairs of
runs.

    python -m benchmarks.training.checkpoint_cost [--rounds 3] [--updates 100] [--every 10] [--threads 1] [--on FOLDER]
        [--save]

Each round trains the reference model twice over the same updates, in separate processes: with a state saved every
`--every` updates, and without. The cost at one save a minute must be below 1 %.
"""

import argparse
import os
import signal
import tempfile
import time
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass
from multiprocessing import get_context
from pathlib import Path

import torch

from benchmarks.ours import reference_job
from benchmarks.peers import write_data
from benchmarks.reporting import Report, alone, median, say
from seq2seq.memory_allocator import keep_freed_memory
from training.loop.process_group import SingleProcess
from training.loop.trainer import Trainer

WARM_UP = 20  # updates that are not measured
MINUTE = 60.0

NOTES = (
    "The reference model of benchmarks/reference.yaml in bf16, Adam. *A save* is timed around the loop's own call: "
    "tensors gathered, written, hashed, synced and renamed, older states removed. *Paired* is the difference between "
    "the same updates with saves and without, divided by the saves: it has in it what a save costs the updates after "
    "it. Medians over all saves, and over the rounds. With a storage the state is put there by a thread beside the "
    "training, which is not in these figures.",
)


@dataclass(frozen=True)
class Measured:
    """The seconds of a run's updates after the warm-up, and of each save."""

    seconds: float
    saves: list[float]
    state_bytes: int
    parameters: int


class SaveEvery(SingleProcess):
    """A process group of one that requests a state every so many updates (0: never), and a stop after all of them."""

    def __init__(self, updates: int, every: int) -> None:
        super().__init__()
        self.updates, self.every = updates, every
        self.begun: list[float] = []  # the time of each update

    def stop_requested(self) -> int:
        self.begun.append(time.perf_counter())
        return signal.SIGTERM if len(self.begun) > WARM_UP + self.updates else 0

    def save_requested(self) -> bool:
        return self.every > 0 and len(self.begun) % self.every == 0


class TimedTrainer(Trainer):
    """The loop with timed saves: the start and the seconds of each."""

    saves: list[tuple[float, float]]

    def save(self) -> None:
        begun = time.perf_counter()
        super().save()
        self.saves.append((begun, time.perf_counter() - begun))


def measure(folder: Path, updates: int, every: int, threads: int) -> Measured:
    """Train for so many updates, in this process."""
    torch.set_num_threads(threads)
    keep_freed_memory()  # as the command does
    settings = ["training.precision=bf16", "training.save_minutes=1000", "training.epochs=2"]
    with tempfile.TemporaryDirectory(dir=folder) as runs:
        workers = SaveEvery(updates, every)
        job = reference_job(folder, Path(runs), settings)
        training = TimedTrainer(job, workers, [], torch.device("cpu"))
        training.saves = []
        training.run()
        newest = training.checkpoints.states()[-1]
        size = sum(path.stat().st_size for path in newest.iterdir())
        begin, end = workers.begun[WARM_UP], workers.begun[-1]
        saves = [seconds for at, seconds in training.saves if begin <= at < end]
        return Measured(end - begin, saves, size, training.step.parameter_count)


def measure_in_process(folder: Path, updates: int, every: int, threads: int) -> Measured:
    """The same in a separate process, on an idle machine."""
    with alone(), ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        return pool.submit(measure, folder, updates, every, threads).result()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--updates", type=int, default=100)
    parser.add_argument("--every", type=int, default=10, help="updates between two saves")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--on", type=Path, metavar="FOLDER", help="the disk to save on; else that of temporary files")
    parser.add_argument("--save", action="store_true", help="keep the result in benchmarks/results/")
    asked = parser.parse_args()
    os.environ["OMP_NUM_THREADS"] = str(asked.threads)  # before the processes import torch

    pairs: list[tuple[Measured, Measured]] = []
    with tempfile.TemporaryDirectory(prefix="checkpoint-cost-", dir=asked.on) as scratch:
        folder = Path(scratch)
        write_data.main(folder / "data")
        for number in range(asked.rounds):
            orders = (asked.every, 0) if number % 2 else (0, asked.every)
            done = {every: measure_in_process(folder, asked.updates, every, asked.threads) for every in orders}
            pairs.append((done[asked.every], done[0]))
            say(f"with saves {pairs[-1][0].seconds:.1f} s, without {pairs[-1][1].seconds:.1f} s")

    saves = [seconds for with_saves, _ in pairs for seconds in with_saves.saves]
    paired = [(ours.seconds - bare.seconds) / len(ours.saves) for ours, bare in pairs]
    one = pairs[0][0]
    rows = [
        [f"a save, {one.state_bytes / 1e6:.0f} MB", f"{median(saves):.3f}", f"{min(saves):.3f} - {max(saves):.3f}",
         f"{median(saves) / MINUTE:.2%}"],
        ["paired: with saves less without, a save", f"{median(paired):.3f}", f"{min(paired):.3f} - {max(paired):.3f}",
         f"{median(paired) / MINUTE:.2%}"],
    ]  # fmt: skip
    Report(
        "checkpoint_cost",
        f"What checkpoints cost, {one.parameters / 1e6:.2f} M parameters, {asked.threads} threads",
        ["", "seconds", "range", "share at one a minute"],
        rows,
        NOTES,
        {"pairs": [{"with": asdict(ours), "without": asdict(bare)} for ours, bare in pairs]},
    ).publish(asked.save)


if __name__ == "__main__":
    main()
