"""The service's engine under open load: the highest rate of sentences at which the 99th percentile of the latency stays
under a limit.

What is measured is the search thread that the service runs for each GPU (`service.engine.search_thread`), with its
queue and continuous batching, without HTTP.
"""

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

import numpy as np

from benchmarks.gpu.cases import Case, Deadline, Part, Row, Setting
from benchmarks.gpu.models import Size, System
from benchmarks.gpu.search import MODES, TYPES
from benchmarks.gpu.timing import release_memory
from interlinear.generation.bundle_translator import BundleTranslator
from interlinear.generation.request import EncodedRequest
from service.engine.protocol import Abort, Add, EngineOutputs, EngineRequest, Event, SearchFailed, WorkerLost
from service.engine.search_thread import SearchThread, shorten_pauses

LIMIT = 0.2  # seconds, of the 99th percentile
WORDS, BEAM = 20, 5
SLOTS = 64
PROBE_SECONDS = 2.5
PROBES = 5


@dataclass
class Load:
    """Sends sentences to a search thread and collects when their answers come."""

    encode: Callable[[], EncodedRequest]
    patience: float = LIMIT  # seconds after the last arrival, for the answers that are still missing then
    answered: dict[int, float] = field(default_factory=dict)  # time by number
    failure: str | None = None
    changed: threading.Condition = field(default_factory=threading.Condition)
    sent: int = 0

    def __post_init__(self) -> None:
        self.thread = SearchThread(self.on_event, threads=None, warm_up_texts=1)

    def on_event(self, event: Event) -> None:
        """Called in the search's thread."""
        now = time.perf_counter()
        with self.changed:
            if isinstance(event, EngineOutputs):
                self.answered.update((number, now) for number, _ in event.answers)
            elif isinstance(event, SearchFailed | WorkerLost):
                self.failure = str(event)
            self.changed.notify_all()

    def send(self, count: int) -> range:
        """Send so many sentences; returns their numbers."""
        numbers = range(self.sent, self.sent + count)
        self.sent = numbers.stop
        self.thread.send(Add(tuple(EngineRequest(number, 0, self.encode(), False) for number in numbers)))
        return numbers

    def wait(self, numbers: Sequence[int], until: float) -> None:
        """Wait until all have answers, or until `until` (time.perf_counter). Raises RuntimeError if a search fails."""
        with self.changed:
            self.changed.wait_for(
                lambda: self.failure or all(number in self.answered for number in reversed(numbers)),
                max(0.0, until - time.perf_counter()),
            )
        if self.failure:
            raise RuntimeError(self.failure)

    def open_load(self, rate: float, seconds: float, random: np.random.Generator) -> np.ndarray:
        """Latencies of Poisson arrivals at a rate, in seconds from when each was due; infinite where there is no
        answer."""
        arrivals = np.cumsum(random.exponential(1 / rate, max(1, int(rate * seconds))))
        first, begun = self.sent, time.perf_counter()
        for arrival in arrivals:
            if (early := begun + arrival - time.perf_counter()) > 0:
                time.sleep(early)
            self.send(1)
        numbers = range(first, self.sent)
        self.wait(numbers, begun + arrivals[-1] + self.patience)
        self.thread.send(Abort(frozenset(numbers)))
        with self.changed:
            answered = [self.answered.get(number, np.inf) for number in numbers]
        return np.array(answered) - begun - arrivals


def highest_rate(holds: Callable[[float], bool], capacity: float, probes: int) -> float:
    """The highest rate that holds, by bisection below `capacity`; 0 if none did."""
    low, high = 0.0, capacity
    for _ in range(probes):
        rate = (low + high) / 2
        if holds(rate):
            low = rate
        else:
            high = rate
    return low


def rows(system: System, precision: str, mode: str, setting: Setting, deadline: Deadline) -> Iterator[Row]:
    """One row: capacity, and the highest rate that holds the limit."""
    device, random = setting.device, np.random.default_rng(3)
    model = system.build().to(device, TYPES[precision]).eval()
    bundle = replace(system.bundle(model), search_step=MODES[mode](device))
    slots, words = (4, 5) if setting.quick else (SLOTS, WORDS)
    seconds, probes = (0.3, 2) if setting.quick else (PROBE_SECONDS, PROBES)
    requests = [system.request(model, words, words, BEAM, random) for _ in range(100)]

    encoder = BundleTranslator(bundle, slots, BEAM)

    def encode() -> EncodedRequest:
        return encoder.encode(requests[int(random.integers(len(requests)))])

    shorten_pauses()  # as a worker process of the service does
    load = Load(encode)
    begun = time.perf_counter()
    load.thread.load(0, BundleTranslator(bundle, slots, BEAM))
    loaded = time.perf_counter() - begun
    load.thread.start()
    try:
        batches = []
        for _ in range(2):  # the first warms up
            begun = time.perf_counter()
            load.wait(load.send(4 * slots), begun + 60)
            batches.append(time.perf_counter() - begun)
        capacity = 4 * slots / batches[-1]
        probed: list[tuple[float, float, float]] = []

        def holds(rate: float) -> bool:
            if probed and deadline.passed:
                return False
            latencies = load.open_load(rate, seconds, random)
            p50, p99 = (float(np.percentile(latencies, share, method="higher")) for share in (50, 99))
            probed.append((rate, p50, p99))
            return p99 < LIMIT

        best = highest_rate(holds, capacity, probes)
        at_best = next((probe for probe in probed if probe[0] == best), (0.0, None, None))
        yield {
            "system": system.name,
            "size": system.size,
            "precision": precision,
            "mode": mode,
            "slots": slots,
            "load_seconds": loaded,
            "capacity": capacity,
            "tried": len(probed),
            "rate": best,
            "p50": None if at_best[1] is None else 1000 * at_best[1],
            "p99": None if at_best[2] is None else 1000 * at_best[2],
            "probes": [[rate, *(value if np.isfinite(value) else None for value in times)] for rate, *times in probed],
        }
    finally:
        load.thread.stop(5)
        release_memory(device)


def cases(setting: Setting) -> list[Case]:
    size: Size = "tiny" if setting.quick else "reference"
    precisions = ["fp32"] if setting.quick else ["fp32", "bf16"]
    return [
        Case(f"{precision}, {mode}", 1, partial(rows, System("rnnsearch", size), precision, mode))
        for precision in precisions
        for mode in MODES
    ]


# fmt: off
PART = Part(
    "engine",
    "The service's engine under open load",
    0.15,
    {
        "system": "system", "size": "size", "precision": "precision", "mode": "mode", "slots": "slots",
        "load_seconds": "loading, s", "capacity": "sentences/s together", "tried": "rates tried",
        "rate": "sentences/s at the limit", "p50": "p50, ms", "p99": "p99, ms",
    },
    f"Poisson arrivals of sentences of {WORDS} words a side at beam {BEAM}: the highest rate at which the 99th "
    f"percentile of the latency is under {1000 * LIMIT:.0f} ms, by bisection over {PROBES} rates of {PROBE_SECONDS} s, "
    "fewer if the time is over; 0: at none of them. "
    "Latency is counted from when a sentence was due. *Together*: four times as many as slots, sent at once.",
    cases,
)
# fmt: on
