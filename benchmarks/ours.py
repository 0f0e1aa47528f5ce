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
from dataclasses import asdict
from pathlib import Path

import torch

import interlinear
from benchmarks.contestants import Result
from benchmarks.peers.stopwatch import Stopwatch
from interlinear.bundle import with_compiled_search, write_bundle
from interlinear.generation.generator import SequenceGenerator
from interlinear.generation.request import GenerationResult, Request
from interlinear.memory_allocator import keep_freed_memory
from interlinear.search import SearchOptions
from training.events import TrainingJob
from training.loop.process_group import SingleProcess, TorchProcessGroup
from training.loop.trainer import Trainer
from training.runs.job import create_job

HERE = Path(__file__).parent
WORDS = 20  # words of every output
PASSES = 4  # passes over the test set


class SomeUpdates:
    """A process group that requests a stop after the stopwatch of this process has counted so many updates."""

    stopwatch: Stopwatch
    updates: int

    def stop_requested(self) -> int:
        return signal.SIGTERM if len(self.stopwatch.times) >= self.updates else 0


class SomeUpdatesAlone(SomeUpdates, SingleProcess): ...


class SomeUpdatesTogether(SomeUpdates, TorchProcessGroup): ...


def train(asked: argparse.Namespace, runs: Path) -> Result:
    """The first updates of a training of the reference model on FOLDER/data; of several processes those of the first.

    The data is prepared if it is not yet. Of several processes each has one thread and a share of the sentences.
    """
    prepared = asked.folder / "interlinear" / "prepared"
    recipe, data = str(HERE / "reference.yaml"), str(HERE / "reference-data.yaml")
    job = create_job(recipe, data, asked.settings, data_root=asked.folder / "data", prepared=prepared, runs=runs)
    bundle = asked.folder / "interlinear" / "bundle" if asked.verb == "learn" else None
    if asked.workers == 1:
        return train_with(SomeUpdatesAlone(), job, asked.updates, bundle)
    meeting = f"file://{runs}-meeting"
    with multiprocessing.get_context("spawn").Pool(asked.workers) as pool:
        ranks = [(rank, asked.workers, meeting, job, asked.updates) for rank in range(asked.workers)]
        return pool.starmap(train_rank, ranks, chunksize=1)[0]


def train_rank(rank: int, workers: int, meeting: str, job: TrainingJob, updates: int) -> Result:
    torch.set_num_threads(1)
    keep_freed_memory()
    torch.distributed.init_process_group("gloo", init_method=meeting, rank=rank, world_size=workers)
    result = train_with(SomeUpdatesTogether(), job, updates)
    torch.distributed.destroy_process_group()
    return result


def train_with(
    group: SomeUpdatesAlone | SomeUpdatesTogether, job: TrainingJob, updates: int, bundle: Path | None = None
) -> Result:
    """Train in this process; `bundle`: the folder to write the model to."""
    group.stopwatch, group.updates = Stopwatch(), updates
    training = Trainer(job, group, [], torch.device("cpu"))
    training.run()
    if bundle:
        write_bundle(bundle, training.model, training.prepared.tokenizers, training.evaluator.card)
    return Result(group.stopwatch.windows(), training.step.parameter_count, torch.get_num_threads())


def search(asked: argparse.Namespace) -> Result:
    """Seconds for as many sentences as there are slots, for each of several passes over the test set, from text to
    text. The first pass is a warm-up."""
    bundle = interlinear.load(asked.folder / "interlinear" / "bundle", precision=asked.precision)
    if asked.compiled:
        bundle = with_compiled_search(bundle)
    options = SearchOptions(
        beam=5, length_penalty="average", min_length=WORDS, max_length=WORDS, repetition_guard=False
    )
    lines = (asked.folder / "data" / "test.source").read_text().splitlines()
    seconds = []
    for _ in range(PASSES + 1):
        begun = time.perf_counter()
        requests = (Request({"source": line}, options, tokenised=frozenset({"source", "target"})) for line in lines)
        for answer in SequenceGenerator(bundle, slots=asked.slots, width=options.beam).generate(requests):
            assert isinstance(answer, GenerationResult)
            assert len(answer.candidates[0].ids) == WORDS
        seconds.append((time.perf_counter() - begun) / len(lines) * asked.slots)
    parameters = sum(parameter.numel() for parameter in bundle.model.parameters())
    return Result(seconds[1:], parameters, torch.get_num_threads())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("output", type=Path)
    parser.add_argument("verb", choices=["train", "learn", "search"])
    parser.add_argument("--updates", type=int, default=120)
    parser.add_argument("--workers", type=int, default=1, help="of `train`: with several, one thread each")
    parser.add_argument("--set", action="append", default=[], dest="settings", metavar="KEY=VALUE")
    parser.add_argument("--precision", choices=["fp32", "bf16", "int8"], default="fp32")
    parser.add_argument("--slots", type=int, default=32, help="sentences that are searched together")
    parser.add_argument("--compiled", action="store_true")
    keep_freed_memory()  # as the command does
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        result = search(asked) if asked.verb == "search" else train(asked, Path(scratch) / "runs")
    asked.output.write_text(json.dumps(asdict(result)))


if __name__ == "__main__":
    main()
