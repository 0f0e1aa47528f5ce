"""Measures a translator in its own process, in the same way for every toolkit: it imports nothing of theirs."""

import json
import resource
import time
from collections.abc import Callable, Sequence
from pathlib import Path

Translate = Callable[[Sequence[str]], list[str]]  # raw lines to raw lines

WARM_UP = 32  # lines


def measure(output: Path, together: Translate, alone: Translate, lines: Sequence[str], count: int) -> None:
    """Translate all lines together, then the first `count` of them one after the other, and write as JSON:

    ready: the time (UNIX) at which the first line had been translated.
    seconds: for all lines together, after a warm-up.
    alone: seconds for each line alone.
    memory_mib: the process's peak of resident memory after both.
    outputs: of all lines.
    """
    alone(lines[:1])
    ready = time.time()
    together(lines[:WARM_UP])
    begun = time.perf_counter()
    outputs = together(lines)
    seconds = time.perf_counter() - begun
    if len(outputs) != len(lines):
        raise ValueError(f"{len(lines)} lines have {len(outputs)} outputs")
    latencies = []
    for line in lines[:count]:
        begun = time.perf_counter()
        alone([line])
        latencies.append(time.perf_counter() - begun)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024  # KiB on Linux
    record = {"ready": ready, "seconds": seconds, "alone": latencies, "memory_mib": peak, "outputs": outputs}
    output.write_text(json.dumps(record), "utf-8")
