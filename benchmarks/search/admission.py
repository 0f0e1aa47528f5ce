"""Cost of admitting texts one by one as slots become free, compared with admitting them in groups.

    python -m benchmarks.search.admission --model BUNDLE --texts FILE [--slots 32] [--requests 400] [--rounds 5]
        [--save]

BUNDLE is a folder; FILE has one text a line in its source language, of all lengths to be mixed.
"""

import argparse
import itertools
import random
import time
from collections import defaultdict
from dataclasses import asdict, dataclass
from pathlib import Path

import torch

import seq2seq
from benchmarks.reporting import Report, median, say
from benchmarks.serving.servers import read_texts
from seq2seq.bundle import Bundle
from seq2seq.generation_request import Request
from seq2seq.memory_allocator import keep_freed_memory
from seq2seq.model.model import Model
from service.engine.protocol import EngineOutputs, EngineRequest, Event, Scheduled
from service.engine.scheduler import MAX_HELD_STEPS, BatchScheduler
from service.engine.search_thread import SearchThread

PATIENCE = {"one by one": 0, "together": MAX_HELD_STEPS}
LOADS = (None, 0.3, 0.8)  # arrival rates as shares of the one-by-one throughput with all texts queued, which is None

NOTES = (
    "Processor time of the search's thread, on one thread, and latencies on its own clock, which stands still while "
    "other programs have the processor: the search alone, without HTTP. *All at once*: the queue is never empty. Else "
    "texts come at random moments (Poisson), at a share of what is answered one by one when all come at once.",
    "*One by one*: whoever waits enters with the next step that has a free slot. *Together*: once somebody waited, "
    f"when a quarter of the slots is free, or after {MAX_HELD_STEPS} steps. In turns; medians over the rounds.",
)


@dataclass(frozen=True)
class Measurement:
    """Milliseconds of processor time and of latency per text, and the number of admissions."""

    cpu: float
    p50: float
    p99: float
    entered: int


class SteppedSearch(SearchThread):
    """A search that is stepped explicitly; its clock is the thread's processor time, and idle times are skipped."""

    def __init__(self, bundle: Bundle[Model], slots: int, max_held_steps: int) -> None:
        super().__init__(self.heard, None, 1)
        self.scheduler = self.schedulers[0] = BatchScheduler(0, bundle, slots, bundle.card.search.beam, max_held_steps)
        self.answered: list[int] = []
        self.entered = 0

    def heard(self, event: Event) -> None:
        if isinstance(event, Scheduled):
            self.entered += 1
        if isinstance(event, EngineOutputs):
            self.answered += [number for number, _ in event.answers]

    def measure(self, texts: list[str], rate: float | None, source: str) -> Measurement:
        options = self.scheduler.bundle.card.search
        rows = [self.scheduler.generation.encode(Request({source: text}, options)) for text in texts]
        draw, skipped = random.Random(1), 0.0
        gaps = [draw.expovariate(rate) if rate else 0.0 for _ in rows]
        due = list(itertools.accumulate(gaps))
        begun, came, latencies = time.thread_time(), 0, []
        while len(latencies) < len(rows):
            now = time.thread_time() - begun + skipped
            if came < len(rows) and not self.scheduler.busy:
                skipped += max(0.0, due[came] - now)
                now = max(now, due[came])
            while came < len(rows) and due[came] <= now:
                self.scheduler.add(EngineRequest(came, 0, rows[came], streamed=False))
                came += 1
            self._run_round()
            now = time.thread_time() - begun + skipped
            latencies += [1000 * (now - due[number]) for number in self.answered]
            self.answered.clear()
        latencies.sort()
        cpu = 1000 * (time.thread_time() - begun) / len(rows)
        return Measurement(cpu, latencies[len(rows) // 2], latencies[int(0.99 * len(rows))], self.entered)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", type=Path, required=True, metavar="BUNDLE")
    parser.add_argument("--texts", type=Path, required=True, metavar="FILE")
    parser.add_argument("--slots", type=int, default=32)
    parser.add_argument("--requests", type=int, default=400)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--save", action="store_true", help="keep the result in benchmarks/results/")
    asked = parser.parse_args()
    keep_freed_memory()
    torch.set_num_threads(1)
    bundle, lines = seq2seq.load(asked.model), read_texts(asked.texts)
    source = next(iter(bundle.card.model.texts))
    texts = random.Random(1).choices(lines, k=asked.requests)

    def measure(max_held_steps: int, rate: float | None) -> Measurement:
        return SteppedSearch(bundle, asked.slots, max_held_steps).measure(texts, rate, source)

    capacity = 1000 / min(measure(0, None).cpu for _ in range(3))
    seen: dict[tuple[float | None, str], list[Measurement]] = defaultdict(list)
    for _ in range(asked.rounds):
        for share, (name, max_held_steps) in itertools.product(LOADS, PATIENCE.items()):
            seen[share, name].append(measure(max_held_steps, share and share * capacity))
            say(f"{share or 'all at once'}, {name}: {seen[share, name][-1].cpu:.2f} ms a text")

    rows = []
    for (share, name), several in seen.items():
        before = median([one.cpu for one in seen[share, "one by one"]])
        cpu, p50, p99 = (median([getattr(one, what) for one in several]) for what in ("cpu", "p50", "p99"))
        load = "all at once" if share is None else f"{share:.0%}"
        figures = [f"{cpu:.2f}", f"{before / cpu:.2f}", f"{p50:.1f}", f"{p99:.1f}"]
        rows.append([load, name, *figures, f"{median([float(one.entered) for one in several]):.0f}"])
    columns = ["load", "", "ms of processor a text", "x one by one", "p50 ms", "p99 ms", "times that texts entered"]
    kept = {f"{share}, {name}": [asdict(one) for one in several] for (share, name), several in seen.items()}
    Report("admission", f"How texts enter {asked.slots} slots", columns, rows, NOTES, kept).publish(asked.save)


if __name__ == "__main__":
    main()
