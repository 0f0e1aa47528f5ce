"""Search throughput from text to text: sentences and words a second, latency alone, and the cost of a step."""

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

import numpy as np
import torch

from benchmarks.gpu.cases import Case, Deadline, Part, Row, Setting, describe
from benchmarks.gpu.floor import step_work
from benchmarks.gpu.models import SYSTEMS, System, random_lengths
from benchmarks.gpu.timing import PeakMemory, activity, interleaved
from benchmarks.reporting import median
from interlinear.batch import tensors_of
from interlinear.generation.generator import SequenceGenerator
from interlinear.generation.request import GenerationResult, Request
from interlinear.search.captured import CapturedStep, Value, copy_all
from interlinear.search.compiled import CompiledStep
from interlinear.search.step import SearchStep, search_step

ROUNDS = 4
ALONE = 20  # sentences of a run that are searched one after the other
WORKLOADS = [(32, 5), (1, 5), (512, 5), (128, 5), (32, 1), (1, 1), (512, 1), (128, 1)]  # slots, beam
WARM_UP = 2  # runs: in these the step is compiled, or captured
PROFILED = 2  # sentences alone
COMPILED_WEIGHT = 3  # of a case with a compilation, relative to one without
TYPES = {"fp32": torch.float32, "bf16": torch.bfloat16}


def compiled(device: torch.device) -> SearchStep:
    """On a CPU without the compiler itself, which would take half a minute for each model."""
    return CompiledStep("inductor" if device.type == "cuda" else "eager")


def captured(device: torch.device, step: SearchStep = search_step) -> SearchStep:
    return CapturedStep(step, None if device.type == "cuda" else recomputed)


def recomputed(work: Callable[[], Value], device: torch.device, pool: object) -> tuple[Value, Callable[[], None]]:
    """What stands for a CUDA graph on a CPU: the work itself, done again, and copied to the tensors of its first
    result."""
    result = work()
    return result, lambda: copy_all(tensors_of(result), tensors_of(work()))


MODES: dict[str, Callable[[torch.device], SearchStep]] = {
    "eager": lambda device: search_step,
    "captured": captured,
    "compiled": compiled,
    "compiled and captured": lambda device: captured(device, compiled(device)),
}
# Modes without a compilation come first, and for all systems: so many rows are there early.
WAVES = (("eager", "captured"), ("eager", "compiled", "compiled and captured"))


@dataclass
class Searcher:
    """Searches the same sentences with one generator."""

    generator: SequenceGenerator
    requests: Sequence[Request]
    latencies: list[float] = field(default_factory=list)  # seconds, of sentences alone

    def run(self) -> None:
        """Search all sentences: one after the other where there is one slot, together otherwise."""
        if self.generator.slots > 1:
            self.search(self.requests)
            return
        for request in self.requests:
            begun = time.perf_counter()
            self.search([request])
            self.latencies.append(time.perf_counter() - begun)

    def search(self, requests: Sequence[Request]) -> None:
        for request, answer in zip(requests, self.generator.generate(requests), strict=True):
            assert isinstance(answer, GenerationResult), answer
            assert len(answer.candidates[0].ids) == request.options.min_length

    def activity(self, device: torch.device, seconds: float) -> Row:
        """What the device does in a step, which takes so many seconds. Of a few sentences where they are alone."""
        few, before = self.requests if self.generator.slots > 1 else self.requests[:PROFILED], self.steps
        found = activity(lambda: self.search(few), device)
        return found.as_row(self.steps - before, seconds)

    @property
    def steps(self) -> int:
        """Steps of the table until now."""
        return self.generator.table.step_count


def rows(
    system: System,
    precision: str,
    modes: Sequence[str],
    workloads: Sequence[tuple[int, int]],
    setting: Setting,
    deadline: Deadline,
) -> Iterator[Row]:
    """One row for each number of slots with a beam, and each mode."""
    device = setting.device
    model = system.build().to(device, TYPES[precision]).eval()
    steps = {mode: MODES[mode](device) for mode in modes}
    for done, (slots, beam) in enumerate(workloads):
        if done and deadline.passed:
            return
        random = np.random.default_rng(1)
        lengths = random_lengths(2 * slots if slots > 1 else PROFILED if setting.quick else ALONE)
        requests = [
            system.request(model, int(source), int(target), beam, random)
            for source, target in zip(lengths.source, lengths.target, strict=True)
        ]
        searchers: dict[str, Searcher] = {}
        memory: dict[str, float | None] = {}
        for mode, step in list(steps.items()):
            peak = PeakMemory(device)
            searcher = Searcher(
                SequenceGenerator(replace(system.bundle(model), search_step=step), slots, beam), requests
            )
            try:
                for _ in range(1 if setting.quick else WARM_UP):
                    searcher.run()
            except Exception as error:
                del steps[mode]
                yield {"error": f"{slots} slots, beam {beam}, {mode}: {describe(error)}"}
                continue
            searcher.latencies.clear()
            searchers[mode], memory[mode] = searcher, peak.mebibytes()
        before = {mode: each.steps for mode, each in searchers.items()}
        seconds = interleaved({mode: each.run for mode, each in searchers.items()}, device, ROUNDS, deadline.end)
        words, position = int(lengths.target.sum()), round(lengths.source.mean()) + 1
        of_sentence, of_step = step_work(system, position, beam, TYPES[precision].itemsize)
        for mode, searcher in searchers.items():
            per_run, latencies = median(seconds[mode]), list(searcher.latencies)
            taken = (searcher.steps - before[mode]) / len(seconds[mode])  # steps of a run
            active = (words + len(requests)) / taken  # sentences in a step; the end symbol takes one too
            row = {
                "system": system.name,
                "size": system.size,
                "precision": precision,
                "slots": slots,
                "beam": beam,
                "mode": mode,
                "sentences_per_second": len(requests) / per_run,
                "words_per_second": words / per_run,
                "speedup": median(seconds["eager"]) / per_run if "eager" in seconds else None,
                "p50": 1000 * float(np.percentile(latencies, 50)) if latencies else None,
                "p99": 1000 * float(np.percentile(latencies, 99)) if latencies else None,
                "milliseconds": 1000 * per_run / taken,
                "peak_mebibytes": memory[mode],
                "operations": of_step.operations + active * of_sentence.operations,
                "bytes": of_step.bytes + active * of_sentence.bytes,
                "seconds": seconds[mode],
            }
            if device.type == "cuda" or "compiled" not in mode:  # operators of compiled code are not counted
                row |= searcher.activity(device, per_run / taken)
            yield row


def cases(setting: Setting) -> list[Case]:
    """First all that is not compiled."""

    def case(system: System, precision: str, modes: Sequence[str], workloads: Sequence[tuple[int, int]]) -> Case:
        name = f"{system.name}, {system.size}, {precision}, {', '.join(modes[1:])}"
        weight = COMPILED_WEIGHT if "compiled" in modes else 1
        return Case(name, weight, partial(rows, system, precision, modes, workloads))

    if setting.quick:
        text, image = System("rnnsearch", "tiny"), System("multimodal_hierarchical", "tiny")
        return [
            case(text, "fp32", WAVES[0], [(2, 2), (1, 1)]),
            case(image, "bf16", WAVES[0], [(2, 2)]),
            case(text, "fp32", WAVES[1], [(2, 2)]),
        ]
    return [
        case(System(name, size), precision, modes, WORKLOADS)
        for modes in WAVES
        for size in ("reference", "paper")
        for precision in ("fp32", "bf16")
        for name in SYSTEMS
    ]


# fmt: off
PART = Part(
    "search",
    "Search",
    0.27,
    {
        "system": "system", "size": "size", "precision": "precision", "slots": "slots", "beam": "beam", "mode": "mode",
        "sentences_per_second": "sentences/s", "words_per_second": "words/s", "speedup": "over eager",
        "p50": "alone: p50, ms", "p99": "p99, ms", "milliseconds": "ms a step", "floor": "floor, ms",
        "peak_mebibytes": "peak, MiB", "kernels": "kernels", "launches": "launches", "idle": "idle",
    },
    "From text to text, with sentences entering as others end (`SequenceGenerator`), twice as many as there are slots; "
    f"with one slot, {ALONE} sentences one after the other. *ms a step* is the time of all over the steps of the table,"
    " so that reading, encoding and detokenizing are in it. *over eager*: in the same turns. *peak*: "
    "beside the weights.",
    cases,
)
# fmt: on
