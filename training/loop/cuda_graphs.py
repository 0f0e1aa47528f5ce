"""Gradients of training by CUDA graphs: one launch for a micro-batch instead of one for each of its operations.

    step = TrainingStep(settings, objective, model, SingleProcess(), torch.device("cuda"), cuda_graphs=True)
    for update, batch in enumerate(batches):  # on the host, pinned
        enqueued = step.run([batch], normalizer, rate, update)  # ResultCopy(enqueued).read() waits for its result

A graph repeats recorded operations on fixed memory. So there is one for each shape of a batch, which reads the batch
from buffers of its own and adds to gradients that stay where they are; a new batch is copied into the buffers. Lengths
are data on the device, and no operation may depend on them otherwise (`Batch.without_host_lengths`). Sums over workers,
clipping and the optimizer are not recorded: their kernels are few (torch's `foreach` and fused ones), a recorded Adam
would need its learning rate and step in tensors, which checkpoints do not have, and NCCL keeps its time limit.
"""

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Protocol

import torch
from torch import nn

from interlinear.batch import Batch, tensors_of
from interlinear.devices import capture_stream, collection_paused, end_failed_capture, is_out_of_memory
from interlinear.losses.loss import SUMS, Loss
from training.loop.out_of_memory import error_summary

# An epoch has some 40 shapes (tests/training/loop/test_batches.py), and frequent ones are met first. Further shapes run
# without a graph instead of replacing one, so that no graph is recorded again and again.
MAX_GRAPHS = 64


class CaptureError(RuntimeError):
    """CUDA could not record an update."""


class Graph(Protocol):
    """A recorded computation."""

    def replay(self) -> None:
        """Run it again."""


class Recorder(Protocol):
    """Records computations that have no arguments and no results."""

    def warm_up(self, compute: Callable[[], None]) -> None:
        """Run a computation under the conditions of its recording."""

    def record(self, compute: Callable[[], None]) -> Graph:
        """Record a computation without running it. Raises CaptureError."""

    def synchronize(self) -> None:
        """Wait until the device has run everything that it was given."""


class CudaRecorder:
    """Records CUDA graphs."""

    def __init__(self, device: torch.device) -> None:
        self.device = device
        # Warming up on the stream of the recording makes cuBLAS allocate that stream's workspace outside the recording.
        self.stream = capture_stream(device)
        # One memory pool for all graphs: they run one after the other, and nothing in it is needed after a run.
        self.pool = torch.cuda.graph_pool_handle()

    def warm_up(self, compute: Callable[[], None]) -> None:
        """In order with the current stream."""
        current = torch.cuda.current_stream(self.device)
        self.stream.wait_stream(current)
        with torch.cuda.stream(self.stream):
            compute()
        current.wait_stream(self.stream)

    def record(self, compute: Callable[[], None]) -> torch.cuda.CUDAGraph:
        graph = torch.cuda.CUDAGraph()
        try:
            # Only this thread's calls are restricted: the loader's thread allocates page-locked memory meanwhile.
            with torch.cuda.graph(graph, self.pool, self.stream, capture_error_mode="thread_local"):
                compute()
        except RuntimeError as error:
            end_failed_capture(self.device, self.pool)
            if is_out_of_memory(error):
                raise
            raise CaptureError(error_summary(error)) from error
        return graph

    def synchronize(self) -> None:
        torch.cuda.synchronize(self.device)


@dataclass(frozen=True)
class FunctionCall:
    """A graph where there is no CUDA: the computation itself."""

    replay: Callable[[], None]


class FunctionRecorder:
    """Stands for CUDA graphs on other devices, on which the same computations on the same buffers run as they are."""

    def warm_up(self, compute: Callable[[], None]) -> None:
        compute()

    def record(self, compute: Callable[[], None]) -> Graph:
        return FunctionCall(compute)

    def synchronize(self) -> None:
        """Nothing runs in the background."""


@dataclass
class ShapeBucket:
    """Batches of one shape: the buffers that they are copied to, and the graph once it is recorded."""

    batch: Batch
    warmed_up: bool = False
    graph: Graph | None = None

    def load(self, batch: Batch) -> None:
        """Copy a batch into the buffers, without waiting."""
        for buffer, tensor in zip(tensors_of(self.batch), tensors_of(batch), strict=True):
            buffer.copy_(tensor, non_blocking=True)


class CapturedGradients:
    """Adds up the gradients of micro-batches, each of them with one launch of a CUDA graph.

    The first batch of a shape warms up libraries and caches, at the second its computation is recorded.
    """

    def __init__(
        self,
        loss: Callable[[Batch], Loss],
        parameters: Sequence[nn.Parameter],
        device: torch.device,
        wait: Callable[[], None],
    ) -> None:
        """`loss`: of a batch without lengths on the host. The parameters keep their memory as long as this object.

        `wait` waits for other workers, with a time limit. A recording begins by waiting for the device, which may be
        waiting for a worker that is lost.
        """
        self.loss, self.parameters, self.device, self.wait = loss, parameters, device, wait
        self.gradients = [torch.zeros_like(parameter) for parameter in parameters]
        self.sums_4 = torch.zeros(SUMS, device=device)  # of `Loss.sums`
        self.scale = torch.ones((), device=device, dtype=torch.promote_types(parameters[0].dtype, torch.float32))
        self.buckets: dict[Hashable, ShapeBucket] = {}
        self.given_up: set[Hashable] = set()  # shapes that have no graph
        self.recorder: Recorder = CudaRecorder(device) if device.type == "cuda" else FunctionRecorder()

    def reset(self) -> None:
        """Set gradients and sums to zero, and give the gradients to the parameters."""
        torch._foreach_zero_([*self.gradients, self.sums_4])
        for parameter, gradient in zip(self.parameters, self.gradients, strict=True):
            parameter.grad = gradient

    def add(self, batch: Batch, normalizer: int, graph: bool = True) -> None:
        """Add a batch's gradients of objective / normalizer, and its sums (`Loss.sums`) to `sums_4`. `graph`: by one.

        Raises CaptureError, torch's out-of-memory errors, and the errors of `wait`; gradients and sums are then
        undefined.
        """
        self.scale.fill_(1 / normalizer)
        bucket = self.bucket(batch) if graph else None
        if bucket is None:
            self.compute(batch.to(self.device))
            return
        bucket.load(batch)
        compute = partial(self.compute, bucket.batch)
        if not bucket.warmed_up:
            self.recorder.warm_up(compute)
            bucket.warmed_up = True
            return
        if bucket.graph is None:
            self.wait()
            with collection_paused():
                bucket.graph = self.recorder.record(compute)
        bucket.graph.replay()

    def bucket(self, batch: Batch) -> ShapeBucket | None:
        """The bucket of a batch's shape; None where there are too many shapes, or this one is given up."""
        key = shape_of(batch)
        if key not in self.buckets and key not in self.given_up and len(self.buckets) < MAX_GRAPHS:
            buffers = batch.map(lambda tensor: torch.empty_like(tensor, device=self.device))
            self.buckets[key] = ShapeBucket(buffers.without_host_lengths())
        return self.buckets.get(key)

    def compute(self, batch: Batch) -> None:
        """Compute a batch on the device and add its gradients and sums. This is what graphs record."""
        loss = self.loss(batch)
        # torch.autograd.grad, since a parameter's own accumulation may belong to the stream of an earlier batch
        found = torch.autograd.grad(loss.objective, self.parameters, self.scale, allow_unused=True)
        used = [(total, new) for total, new in zip(self.gradients, found, strict=True) if new is not None]
        torch._foreach_add_([total for total, _ in used], [new for _, new in used])
        sums = loss.sums()
        self.sums_4[: len(sums)] += sums

    def give_up(self, batch: Batch) -> bool:
        """Compute batches of this shape without a graph from now on; False if they are already.

        All graphs and buffers are freed, when the device has run its enqueued graphs: memory may be what is missing,
        and after a recording that failed, graphs would draw the numbers of the generator's former state. Graphs of
        other shapes are recorded again.
        """
        if (key := shape_of(batch)) in self.given_up:
            return False
        self.given_up.add(key)
        self.wait()
        self.recorder.synchronize()
        self.buckets.clear()
        return True


def shape_of(batch: Batch) -> Hashable:
    """The key that batches of one graph share."""
    return (*batch.sources, *((tensor.shape, tensor.dtype) for tensor in tensors_of(batch)))
