"""The step of a search as CUDA graphs: a GPU is given one launch for a step, instead of one for every operator.

A graph computes from fixed tensors to fixed tensors, for one size of table. So the tensors of a step are copied in and
out, in a few launches, and its rows are padded to one of a few counts (`round_up_rows`); `SlotTable` rounds the other
sizes up.

Axes: N sentences in the table (rows).
"""

import logging
import threading
import weakref
from collections import OrderedDict
from collections.abc import Callable, Hashable, Sequence
from typing import Any, Protocol, TypeVar

import torch
from torch import Tensor

from interlinear.batch import Mapped, tensors_of
from interlinear.devices import capture_stream, collection_paused, end_failed_capture, is_out_of_memory
from interlinear.models.memory import Memory
from interlinear.models.protocol import EncoderDecoder
from interlinear.search.compiled import CompiledStep, has_compiler, message_of
from interlinear.search.state import SlotState
from interlinear.search.step import SearchStep, StepResult, search_step

MIN_ROWS = 8
MAX_GRAPHS = 128

# Lengths that are captured before a service is ready: the shortest and the longest source of each size of table. Both,
# since they may differ in the size for their outputs.
COMMON_LENGTHS = sorted([*range(1, 58, 8), *range(8, 65, 8)])

log = logging.getLogger("interlinear.search")


Value = TypeVar("Value", bound=Mapped)


class Capture(Protocol):
    """Captures the work of a function without arguments on a device. Returns its result, and a function that repeats
    the work: it reads the same tensors and writes into the result's. pool: the memory pool that all captures share."""

    def __call__(
        self, work: Callable[[], Value], device: torch.device, pool: Any
    ) -> tuple[Value, Callable[[], None]]: ...


class CapturedStep:
    """A step (`search_step`, or a compiled one) that is captured once for each size of table.

    A size is captured when it occurs for the second time, so that none is captured for one step. Steps of a size that
    cannot be captured run as they are; the first time a warning is logged. For one device; several threads may call it.
    """

    def __init__(self, step: SearchStep = search_step, capture: Capture | None = None) -> None:
        self.step = step
        self._capture = capture or capture_cuda_graph
        self._graphs: OrderedDict[Hashable, StepGraph] = OrderedDict()  # the least recently used first
        self._seen: set[Hashable] = set()
        self._pool: object = None  # memory pool of all graphs: one runs at a time, and its result is copied
        self._lock = threading.Lock()
        self._given_up: set[Hashable] = set()  # sizes that cannot be captured

    def __call__(self, model: EncoderDecoder, memory: Memory, rows: SlotState) -> StepResult:
        size = (
            *(id(model), round_up_rows(memory.rows), *rows.written_NKL.shape[1:]),
            *(*memory.capacity.items(), memory.score_dtype),
            *((type(processor), processor.size) for processor in rows.processors),
        )
        with self._lock:
            graph = self._graphs.get(size)
            if graph is None and size in self._seen and size not in self._given_up:
                graph = self._captured(size, model, memory, rows)
            if graph is None:
                self._seen.add(size)
                return self.step(model, memory, rows)
            self._graphs.move_to_end(size)
            return graph.run(memory, rows)

    def _captured(self, size: Hashable, model: EncoderDecoder, memory: Memory, rows: SlotState) -> "StepGraph | None":
        if self._pool is None and memory.first.padding_BT.is_cuda:
            self._pool = torch.cuda.graph_pool_handle()
        try:
            with collection_paused():
                graph = StepGraph(self.step, self._capture, self._pool, model, memory, rows)
        except RuntimeError as error:  # a CUDA error, out of memory too
            if not self._given_up:
                log.warning("a size of search is not captured as a CUDA graph, and slower: %s", message_of(error))
            self._given_up.add(size)
            if is_out_of_memory(error):  # graphs may hold the missing memory; other sizes are captured again
                self._graphs.clear()
            return None
        self._graphs[size] = graph
        if len(self._graphs) > MAX_GRAPHS:
            self._graphs.popitem(last=False)
        return graph


class StepGraph:
    """A captured step for one size of table, with the tensors that it reads and writes."""

    def __init__(
        self,
        step: SearchStep,
        capture: Capture,
        pool: object,
        model: EncoderDecoder,
        memory: Memory,
        rows: SlotState,
    ) -> None:
        n = memory.rows
        # Rows that are not used repeat the first, so that no index is invalid, and are finished.
        index_N = torch.arange(round_up_rows(n), device=rows.token_NK.device)
        index_N = index_N.masked_fill(index_N >= n, 0)
        self._memory = memory.map(lambda tensor: tensor.index_select(0, index_N))
        self._rows = rows.map(Tensor.clone).select(index_N)  # copies, also of tensors that `select` does not change
        self._rows.done_N[n:] = True
        self._copied_memory = weakref.ref(memory)

        def work() -> StepResult:
            # A view caches what is computed from it: without a new view, a replay would not compute it again.
            return step(model, self._memory.map(lambda tensor: tensor), self._rows)

        work()  # a capture must not contain compilation or setup: the first call with one row compiles too
        self._result, self._replay = capture(work, index_N.device, pool)

    def run(self, memory: Memory, rows: SlotState) -> StepResult:
        """The result of a step, as copies."""
        n = memory.rows
        if memory is not self._copied_memory():
            copy_all([tensor[:n] for tensor in tensors_of(self._memory)], tensors_of(memory))
            self._copied_memory = weakref.ref(memory)
        copy_all(tensors_of(self._rows.map_rows(lambda tensor: tensor[:n])), tensors_of(rows))
        self._replay()
        result = self._result.map_rows(lambda tensor: tensor[:n])
        outputs = tensors_of(result)
        copies = [torch.empty(tensor.shape, dtype=tensor.dtype, device=tensor.device) for tensor in outputs]
        copy_all(copies, outputs)
        remaining = iter(copies)
        return result.map(lambda _: next(remaining))


def copy_all(targets: Sequence[Tensor], sources: Sequence[Tensor]) -> None:
    """Copy each source into its target, with one launch for many tensors of a type."""
    by_dtype: dict[torch.dtype, tuple[list[Tensor], list[Tensor]]] = {}
    for target, source in zip(targets, sources, strict=True):
        if target.numel():
            pair = by_dtype.setdefault(target.dtype, ([], []))
            pair[0].append(target)
            pair[1].append(source)
    for pair in by_dtype.values():
        torch._foreach_copy_(*pair)


def fast_step(device: torch.device) -> SearchStep:
    """The step of a compiled search (`resolve_compile`): also captured on a GPU; without a compiler only captured."""
    return captured_on_gpu(device, CompiledStep() if has_compiler(device.type) else search_step)


def captured_on_gpu(device: torch.device, step: SearchStep = search_step) -> SearchStep:
    """The step, captured on a GPU and unchanged elsewhere."""
    return CapturedStep(step) if device.type == "cuda" else step


def round_up_rows(rows: int) -> int:
    """The number of rows that a step is captured for: 8, 16, 32, 64, ..."""
    return max(MIN_ROWS, 1 << (rows - 1).bit_length())


def row_counts(slots: int) -> list[int]:
    """The row counts that a table with this number of slots is captured for."""
    return sorted({round_up_rows(rows) for rows in range(1, slots + 1)})


def capture_cuda_graph(work: Callable[[], Value], device: torch.device, pool: Any) -> tuple[Value, Callable[[], None]]:
    """Capture as a CUDA graph. Raises RuntimeError if `work` does something that a graph cannot record."""
    # A stream of the model's device, which need not be the current one: a graph omits work on another device.
    stream = capture_stream(device)
    stream.wait_stream(torch.cuda.current_stream(device))
    graph = torch.cuda.CUDAGraph()
    # Not torch.cuda.graph(), which begins with a garbage collection of the whole process.
    try:
        with torch.cuda.stream(stream):
            graph.capture_begin(pool=pool, capture_error_mode="thread_local")
            try:
                result = work()
            finally:
                graph.capture_end()
    except RuntimeError:
        end_failed_capture(device, pool)
        raise
    torch.cuda.current_stream(device).wait_stream(stream)
    return result, graph.replay
