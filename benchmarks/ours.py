"""Our side of a comparison: one process that trains or searches with timing, and writes the timings as JSON.

    python -m benchmarks.ours FOLDER OUTPUT train [--updates N] [--workers N] [--set KEY=VALUE ...]
    python -m benchmarks.ours FOLDER OUTPUT learn [--updates N] [--set KEY=VALUE ...]     train, and keep the bundle
    python -m benchmarks.ours FOLDER OUTPUT search [--precision bf16] [--slots 32] [--compiled]   search with it

Training is the program's own loop on the comparison's text files, stopped as by SIGTERM; search is `SequenceGenerator`,
from text to text.
"""

import argparse
import json
import multiprocessing
import signal
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal

import torch

import seq2seq
from benchmarks.peers.stopwatch import Stopwatch
from seq2seq.bundle import with_compiled_search, write_bundle
from seq2seq.generate import SequenceGenerator
from seq2seq.generation_request import GenerationResult, Request
from seq2seq.memory_allocator import keep_freed_memory
from seq2seq.search import SearchOptions
from training.events import TrainingJob
from training.loop.process_group import SingleProcess, TorchProcessGroup
from training.loop.trainer import Trainer
from training.runs.job import create_job

HERE = Path(__file__).parent
WORDS = 20  # words of every output
SLOTS = 32  # sentences that are searched together, unless stated otherwise
PASSES = 4  # passes over the test set


@dataclass(frozen=True)
class Record:
    """Timings: seconds a step or a batch."""

    seconds: list[float]
    parameters: int
    threads: int


class SomeUpdates(SingleProcess):
    """A process group of one that requests a stop after the stopwatch has counted so many updates."""

    def __init__(self, updates: int) -> None:
        super().__init__()
        self.stopwatch, self.updates = Stopwatch(), updates

    def stop_requested(self) -> int:
        return signal.SIGTERM if len(self.stopwatch.times) >= self.updates else 0


class SomeUpdatesTogether(TorchProcessGroup):
    """The same for several processes, at the pace of this one."""

    def __init__(self, updates: int) -> None:
        super().__init__()
        self.stopwatch, self.updates = Stopwatch(), updates

    def stop_requested(self) -> int:
        return signal.SIGTERM if len(self.stopwatch.times) >= self.updates else 0


def reference_job(folder: Path, runs: Path, settings: Sequence[str]) -> TrainingJob:
    """A training job of the reference model on the files in `folder`/data, which are prepared if they are not yet."""
    return create_job(
        str(HERE / "reference.yaml"),
        str(HERE / "reference-data.yaml"),
        settings,
        data_root=folder / "data",
        prepared=folder / "interlinear" / "prepared",
        runs=runs,
    )


def train(folder: Path, updates: int, settings: Sequence[str], keep: bool) -> Record:
    """The first updates of a training."""
    with tempfile.TemporaryDirectory() as runs:
        workers = SomeUpdates(updates)
        training = Trainer(reference_job(folder, Path(runs), settings), workers, [], torch.device("cpu"))
        training.run()
        if keep:
            bundle = folder / "interlinear" / "bundle"
            write_bundle(bundle, training.model, training.prepared.tokenizers, training.evaluator.card)
    return Record(workers.stopwatch.windows(), training.step.parameter_count, torch.get_num_threads())


def train_together(folder: Path, updates: int, settings: Sequence[str], workers: int) -> Record:
    """The same by several processes of one thread each, which share every update's sentences."""
    context = multiprocessing.get_context("spawn")
    with tempfile.TemporaryDirectory() as scratch, context.Pool(workers) as pool:
        job = reference_job(folder, Path(scratch) / "runs", settings)
        meeting = f"file://{scratch}/meeting"
        ranks = [(rank, workers, meeting, job, updates) for rank in range(workers)]
        return pool.starmap(train_rank, ranks, chunksize=1)[0]


def train_rank(rank: int, workers: int, meeting: str, job: TrainingJob, updates: int) -> Record:
    torch.set_num_threads(1)
    keep_freed_memory()
    torch.distributed.init_process_group("gloo", init_method=meeting, rank=rank, world_size=workers)
    group = SomeUpdatesTogether(updates)
    training = Trainer(job, group, [], torch.device("cpu"))
    training.run()
    torch.distributed.destroy_process_group()
    return Record(group.stopwatch.windows(), training.step.parameter_count, torch.get_num_threads())


def search(folder: Path, precision: Literal["fp32", "bf16", "int8"], slots: int, compiled: bool) -> Record:
    """Seconds for as many sentences as there are slots, for each of several passes over the test set, from text to
    text. The first pass is a warm-up."""
    bundle = seq2seq.load(folder / "interlinear" / "bundle", precision=precision)
    if compiled:
        bundle = with_compiled_search(bundle)
    options = SearchOptions(beam=5, length_penalty="average", min_length=WORDS, max_length=WORDS)
    lines = (folder / "data" / "test.source").read_text().splitlines()
    seconds = []
    for _ in range(PASSES + 1):
        begun = time.perf_counter()
        requests = (Request({"source": line}, options, tokenised=frozenset({"source", "target"})) for line in lines)
        for answer in SequenceGenerator(bundle, slots=slots, width=options.beam).generate(requests):
            assert isinstance(answer, GenerationResult)
            assert len(answer.candidates[0].ids) == WORDS
        seconds.append((time.perf_counter() - begun) / len(lines) * slots)
    parameters = sum(parameter.numel() for parameter in bundle.model.parameters())
    return Record(seconds[1:], parameters, torch.get_num_threads())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("output", type=Path)
    parser.add_argument("verb", choices=["train", "learn", "search"])
    parser.add_argument("--updates", type=int, default=120)
    parser.add_argument("--workers", type=int, default=1, help="of `train`: with several, one thread each")
    parser.add_argument("--set", action="append", default=[], dest="settings", metavar="KEY=VALUE")
    parser.add_argument("--precision", choices=["fp32", "bf16", "int8"], default="fp32")
    parser.add_argument("--slots", type=int, default=SLOTS)
    parser.add_argument("--compiled", action="store_true")
    keep_freed_memory()  # as the command does
    asked = parser.parse_args()
    if asked.verb == "search":
        record = search(asked.folder, asked.precision, asked.slots, asked.compiled)
    elif asked.workers > 1:
        record = train_together(asked.folder, asked.updates, asked.settings, asked.workers)
    else:
        record = train(asked.folder, asked.updates, asked.settings, keep=asked.verb == "learn")
    asked.output.write_text(json.dumps(asdict(record)))


if __name__ == "__main__":
    main()
