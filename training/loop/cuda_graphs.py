"""Gradients of training by CUDA graphs: one launch for each micro-batch instead of one for each of its operations.

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

import torch
from torch import nn

from seq2seq.batch import Batch
from seq2seq.losses.cross_entropy import Loss
from training.loop.out_of_memory import error_summary

# An epoch has some 40 shapes (tests/training/loop/test_batches.py). Those that are met twice first are also the most
# frequent ones; further shapes run without a graph, so that no graph is recorded again and again.
MAX_GRAPHS = 64


class CaptureError(RuntimeError):
    """CUDA could not record an update."""


@dataclass
class ShapeBucket:
    """Batches of one shape: the buffers that they are copied to, and the graph once it is recorded."""

    batch: Batch
    warmed_up: bool = False
    graph: torch.cuda.CUDAGraph | None = None

    def load(self, batch: Batch) -> None:
        """Copy a batch into the buffers, without waiting."""
        for buffer, tensor in zip(self.batch.tensors, batch.tensors, strict=True):
            buffer.copy_(tensor, non_blocking=True)


class CapturedGradients:
    """Adds up the gradients of micro-batches, each of them with one launch of a CUDA graph.

    The first batch of a shape is computed as it is, on the stream on which the second is recorded. On a device without
    CUDA every batch is computed as it is, from the same buffers by the same operations.
    """

    def __init__(self, loss: Callable[[Batch], Loss], parameters: Sequence[nn.Parameter], device: torch.device) -> None:
        """`loss`: of a batch without lengths on the host. The parameters keep their memory as long as this object."""
        self.loss, self.parameters, self.device = loss, parameters, device
        self.gradients = [torch.zeros_like(parameter) for parameter in parameters]
        self.sums_2 = torch.zeros(2, device=device)  # objective and nats
        self.scale = torch.ones((), device=device, dtype=torch.promote_types(parameters[0].dtype, torch.float32))
        self.buckets: dict[Hashable, ShapeBucket] = {}
        # Warming up on the stream of the recording makes cuBLAS allocate that stream's workspace outside the recording.
        self.stream = torch.cuda.Stream(device) if device.type == "cuda" else None  # type: ignore[no-untyped-call]
        # One memory pool for all graphs: they run one after the other, and nothing in it is needed after a run.
        self.pool = torch.cuda.graph_pool_handle() if device.type == "cuda" else None

    def reset(self) -> None:
        """Set gradients and sums to zero, and give the gradients to the parameters."""
        torch._foreach_zero_([*self.gradients, self.sums_2])
        for parameter, gradient in zip(self.parameters, self.gradients, strict=True):
            parameter.grad = gradient

    def add(self, batch: Batch, normalizer: int) -> None:
        """Add a batch's gradients of objective / normalizer, and its objective and nats to `sums_2`.

        Raises CaptureError, and torch's errors for lack of memory; gradients and sums are then undefined.
        """
        self.scale.fill_(1 / normalizer)
        bucket = self.bucket(batch)
        if bucket is None:
            self.compute(batch.to(self.device))
            return
        bucket.load(batch)
        if self.stream is None:
            self.compute(bucket.batch)
        elif bucket.warmed_up:
            bucket.graph = bucket.graph or self.capture(bucket.batch)
            bucket.graph.replay()
        else:
            self.warm_up(bucket.batch, self.stream)
            bucket.warmed_up = True

    def bucket(self, batch: Batch) -> ShapeBucket | None:
        """The bucket of a batch's shape; None where there are too many shapes."""
        key = (*batch.sources, *((tensor.shape, tensor.dtype) for tensor in batch.tensors))
        if key not in self.buckets and len(self.buckets) < MAX_GRAPHS:
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
        self.sums_2 += torch.stack([loss.objective.detach(), loss.nats])

    def warm_up(self, batch: Batch, stream: torch.cuda.Stream) -> None:
        """Compute a batch on the stream of recordings, in order with the current stream."""
        current = torch.cuda.current_stream(self.device)
        stream.wait_stream(current)
        with torch.cuda.stream(stream):
            self.compute(batch)
        current.wait_stream(stream)

    def capture(self, batch: Batch) -> torch.cuda.CUDAGraph:
        """Record the computation of a batch's buffers, without running it. Raises CaptureError."""
        graph = torch.cuda.CUDAGraph()
        try:
            # Only this thread's calls are restricted: the loader's thread allocates page-locked memory meanwhile.
            with torch.cuda.graph(graph, self.pool, self.stream, capture_error_mode="thread_local"):
                self.compute(batch)
        except RuntimeError as error:
            # The generator may still expect a recording: give it a new state, which the next update seeds.
            index = torch.cuda.current_device() if self.device.index is None else self.device.index
            generator = torch.cuda.default_generators[index]
            generator.graphsafe_set_state(torch.Generator(self.device).graphsafe_get_state())
            raise CaptureError(error_summary(error)) from error
        return graph

    def release(self) -> None:
        """Free the graphs and buffers, when the device has run those that it was given."""
        if self.stream is not None:
            torch.cuda.synchronize(self.device)
        self.buckets.clear()
