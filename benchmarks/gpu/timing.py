"""Times, memory and activity of a device, and the rates that bound them."""

import gc
import json
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch.profiler import ProfilerActivity, profile
from torch.utils._python_dispatch import TorchDispatchMode

from benchmarks.gpu.cases import Row

DEVICE_WORK = ("kernel", "gpu_memcpy", "gpu_memset")  # categories of a trace's events: what a GPU does
HOST_CALLS = ("cuda_runtime", "cuda_driver")
PRODUCT_SIZE, COPY_BYTES = 8192, 2**30  # of the measured matrix product and copy


class Operators(TorchDispatchMode):
    """Counts the operators that are dispatched, except for views."""

    def __init__(self) -> None:
        super().__init__()
        self.count = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.count += not (func.is_view or func in (torch.ops.aten.detach.default, torch.ops.aten._unsafe_view.default))
        return func(*args, **(kwargs or {}))


@dataclass(frozen=True)
class Activity:
    """What a device did: kernels and copies; calls of the host that start one of them, or a graph of many; seconds in
    which at least one ran. On a CPU: operators, and nothing else. None: unknown, of a GPU without a profiler."""

    kernels: int | None
    launches: int | None = None
    busy_seconds: float | None = None

    def as_row(self, count: int, seconds: float) -> Row:
        """What the report shows, for each of `count` updates or steps, of which each took `seconds` without a profile:
        the idle share is of that time."""
        return {
            "kernels": None if self.kernels is None else self.kernels / count,
            "launches": None if self.launches is None else self.launches / count,
            "idle": None if self.busy_seconds is None else 1 - self.busy_seconds / count / seconds,
        }


def synchronize(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def release_memory(device: torch.device) -> None:
    """Free what earlier measurements held, compiled code too."""
    if "torch._dynamo" in sys.modules:  # its import takes seconds
        torch._dynamo.reset()
    gc.collect()
    if device.type == "cuda":
        torch.cuda.empty_cache()


def interleaved(
    runs: Mapping[str, Callable[[], object]], device: torch.device, rounds: int, until: float
) -> dict[str, list[float]]:
    """Seconds of each run by name. The runs take turns, for some rounds, but one only after `until` (monotonic)."""
    seconds: dict[str, list[float]] = {name: [] for name in runs}
    for done in range(rounds):
        if done and time.monotonic() > until:
            break
        for name, run in runs.items():
            synchronize(device)
            begun = time.perf_counter()
            run()
            synchronize(device)
            seconds[name].append(time.perf_counter() - begun)
    return seconds


class PeakMemory:
    """The device memory that something takes from its creation on."""

    def __init__(self, device: torch.device) -> None:
        self.device = device
        if device.type == "cuda":
            torch.cuda.reset_peak_memory_stats(device)
            self.before = torch.cuda.memory_allocated(device)

    def mebibytes(self) -> float | None:
        """The most that was allocated since; None on a CPU."""
        if self.device.type != "cuda":
            return None
        return (torch.cuda.max_memory_allocated(self.device) - self.before) / 2**20


def activity(run: Callable[[], object], device: torch.device) -> Activity:
    """What a device does in a run."""
    if device.type != "cuda":
        with Operators() as operators:
            run()
        return Activity(operators.count)
    synchronize(device)
    with profile(activities=[ProfilerActivity.CUDA]) as profiler:  # with the host's calls of CUDA
        run()
        synchronize(device)
    return activity_of(trace_events(profiler))


def prepare_profiler(device: torch.device) -> None:
    """Load the profiler of a GPU before any graph is captured, and keep it: unloading it fails where there are CUDA
    graphs (pytorch/pytorch#75504)."""
    if device.type == "cuda":
        os.environ |= {"TEARDOWN_CUPTI": "0", "DISABLE_CUPTI_LAZY_REINIT": "1"}
        activity(lambda: torch.ones(1, device=device), device)


def trace_events(profiler: profile) -> list[dict[str, Any]]:
    """The events of a profile as its trace has them."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "trace.json"
        profiler.export_chrome_trace(str(path))
        events: list[dict[str, Any]] = json.loads(path.read_text())["traceEvents"]
    return events


def activity_of(events: Iterable[Mapping[str, Any]]) -> Activity:
    """The activity in a trace's events. Annotations, which also have times on the device, do not count."""
    intervals, launches = [], 0
    for event in events:
        category = event.get("cat")
        if category in DEVICE_WORK:
            intervals.append((float(event["ts"]), float(event["ts"]) + float(event["dur"])))
        elif category in HOST_CALLS:
            launches += any(part in event["name"] for part in ("Launch", "Memcpy", "Memset"))
    if not intervals:
        return Activity(None)
    return Activity(len(intervals), launches, union(intervals) / 1e6)


def union(intervals: Iterable[tuple[float, float]]) -> float:
    """The length of a union of intervals."""
    covered, end = 0.0, float("-inf")
    for first, last in sorted(intervals):
        covered += max(0.0, last - max(first, end))
        end = max(end, last)
    return covered


def product_rate(device: torch.device, dtype: torch.dtype, size: int = PRODUCT_SIZE) -> float:
    """Operations a second of a large matrix product."""
    left, right = (torch.randn(size, size, device=device, dtype=dtype) for _ in range(2))
    return 2 * size**3 / best_seconds(lambda: left @ right, device)


def copy_rate(device: torch.device, size: int = COPY_BYTES) -> float:
    """Bytes a second that a device reads and writes when it copies its memory."""
    source, target = (torch.zeros(size // 4, device=device) for _ in range(2))
    return 2 * size / best_seconds(lambda: target.copy_(source), device)


def best_seconds(run: Callable[[], object], device: torch.device, rounds: int = 10) -> float:
    run()
    return min(interleaved({"": run}, device, rounds, time.monotonic() + 5)[""])
