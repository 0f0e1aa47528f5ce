"""One training of the reference model, and its speed by its own progress reports.

    python -m benchmarks.training.paced FOLDER OUTPUT HOW [--workers N] [--updates N] [--set KEY=VALUE ...]

HOW is `bare` (the loop in this process), `ray`, `ray+mlflow`, or two processes without Ray with timed gradient sums:
`exchange` through the loop's shared memory, `all-reduce` through gloo. FOLDER/data contains the text. The result is
written to OUTPUT as JSON.
"""

import argparse
import json
import multiprocessing
import signal
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field
from pathlib import Path
from statistics import mean

import torch
from torch import Tensor

from benchmarks.ours import reference_job
from seq2seq.memory_allocator import keep_freed_memory
from training.events import EpochReport, Observer, Outcome, StartReport, StepReport, TrainingJob
from training.loop.process_group import Collective, SingleProcess, TorchProcessGroup
from training.loop.trainer import train

WARM_UP = 30  # updates that are not measured: the first of each shape compiles its kernels


@dataclass
class Pace:
    """An observer that records every report's seconds an update and tokens a second, and stops the training in time.

    The loop measures them in the worker, from one report to the next, including everything between them.
    """

    updates: int
    seconds: list[float] = field(default_factory=list)
    tokens: list[float] = field(default_factory=list)
    enough: bool = False

    def started(self, job: TrainingJob, start: StartReport) -> None: ...

    def step(self, report: StepReport) -> None:
        if report.update > WARM_UP and not self.enough:
            self.seconds.append(report.eta_seconds / (report.updates - report.update))
            self.tokens.append(report.tokens_per_second)
        if report.update >= self.updates and not self.enough:
            self.enough = True
            signal.raise_signal(signal.SIGTERM)  # like a user's Ctrl-C: the training saves its state and ends

    def epoch(self, report: EpochReport) -> None: ...

    def warned(self, message: str) -> None: ...

    def finished(self, outcome: Outcome) -> None: ...


@dataclass(frozen=True)
class PaceResult:
    """The numbers in a training's reports."""

    seconds: list[float]  # per update
    tokens: list[float]  # per second


@dataclass(frozen=True)
class Exchange(PaceResult):
    """Measurements of rank 0: means over its updates of the seconds that it waits for the other rank, and that the sums
    take."""

    waiting: float
    sum: float


def keep_pace(job: TrainingJob, how: str, workers: int, updates: int, tracking: str) -> PaceResult:
    pace = Pace(updates)
    with ExitStack() as stack:
        observers: list[Observer] = [pace]
        if how == "ray+mlflow":
            from training.tracking.run import Tracker

            observers.append(stack.enter_context(Tracker(tracking)))
        if how == "bare":
            train(job, SingleProcess().install_signal_handlers(), observers)
        else:
            from training.ray.cluster import WorkerGroupConfig
            from training.ray.driver import train_on_ray

            train_on_ray(job, WorkerGroupConfig(workers, workers), observers)
    return PaceResult(pace.seconds, pace.tokens)


class TimedGroup(TorchProcessGroup):
    """A process group that records the duration of its sums, and of waiting for the other ranks before them."""

    def __init__(self, updates: int, shares_memory: bool) -> None:
        super().__init__()
        self.updates, self.shares_memory = updates, shares_memory
        self.waiting: list[float] = []
        self.sums: list[float] = []

    def buffer(self, count: int, device: torch.device) -> Tensor:
        return super().buffer(count, device) if self.shares_memory else torch.empty(count, device=device)

    def all_reduce(self, tensor: Tensor, enqueue: bool = False) -> Collective | None:
        begun = time.perf_counter()
        torch.distributed.barrier()
        met = time.perf_counter()
        collective = super().all_reduce(tensor, enqueue)
        self.waiting.append(met - begun)
        self.sums.append(time.perf_counter() - met)
        return collective

    def stop_requested(self) -> int:
        return signal.SIGTERM if len(self.sums) >= self.updates else 0


def exchange(job: TrainingJob, updates: int, shares_memory: bool, output: Path) -> None:
    """Two processes, one thread each."""
    context = multiprocessing.get_context("spawn")
    with tempfile.TemporaryDirectory() as meeting:
        both = [
            context.Process(
                target=exchange_rank, args=(rank, f"file://{meeting}/place", job, updates, shares_memory, output)
            )
            for rank in range(2)
        ]
        for process in both:
            process.start()
        for process in both:
            process.join()


def exchange_rank(rank: int, meeting: str, job: TrainingJob, updates: int, shares_memory: bool, output: Path) -> None:
    torch.set_num_threads(1)
    keep_freed_memory()
    torch.distributed.init_process_group("gloo", init_method=meeting, rank=rank, world_size=2)
    workers, pace = TimedGroup(updates, shares_memory), Pace(sys.maxsize)
    train(job, workers, [pace])
    if rank == 0:
        record = Exchange(pace.seconds, pace.tokens, mean(workers.waiting[WARM_UP:]), mean(workers.sums[WARM_UP:]))
        output.write_text(json.dumps(asdict(record)))
    torch.distributed.destroy_process_group()


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("output", type=Path)
    parser.add_argument("how", choices=["bare", "ray", "ray+mlflow", "exchange", "all-reduce"])
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--updates", type=int, default=80)
    parser.add_argument("--set", action="append", default=[], dest="settings", metavar="KEY=VALUE")
    keep_freed_memory()  # as the command does
    asked = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as scratch:
        job = reference_job(asked.folder, Path(scratch) / "runs", asked.settings)
        if asked.how in ("exchange", "all-reduce"):
            exchange(job, asked.updates, asked.how == "exchange", asked.output)
            return
        tracking = f"sqlite:///{scratch}/mlflow.db"
        kept = keep_pace(job, asked.how, asked.workers, asked.updates, tracking)
        asked.output.write_text(json.dumps(asdict(kept)))


if __name__ == "__main__":
    main()
