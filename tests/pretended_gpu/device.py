"""A CUDA device without a GPU: tensors on it are torch's FakeTensors, with shapes, types and their device, but without
values; tensors on the CPU are real. So the program's code on the host runs as it does beside a GPU, and every transfer
for which the host waits is seen.

Not modelled: the order of streams, replays of graphs, cuDNN, and what is computed.
"""

import inspect
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode, unset_fake_temporarily
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves, tree_map_only

from seq2seq.devices import capture_stream

ROOT = Path(__file__).parents[2]
PRODUCT = tuple(f"{ROOT / package}/" for package in ("seq2seq", "training", "service", "interlinear"))

aten: Any = torch.ops.aten
# Their shapes depend on values, or their result is on the host.
READS = {
    aten._local_scalar_dense.default, aten.nonzero.default, aten.masked_select.default, aten.equal.default,
    aten.unique_dim.default, aten._unique2.default, aten.repeat_interleave.Tensor,
}  # fmt: skip


class PretendedGpu(TorchDispatchMode):
    """Counts what makes the host wait, by the product's function that asks for it: `waits`.

    A copy from the host waits unless it is asynchronous and from page-locked memory: of other memory the driver may
    wait for the stream. A copy to the host waits unless it is asynchronous; all that it reads is the next of `reads`,
    or 0. Raises RuntimeError for an operation with inputs on both devices, and for a wait within a capture, as a GPU
    does. Counts the streams that are made, and the graphs that are captured.
    """

    def __init__(self) -> None:
        super().__init__()
        self.fake = FakeTensorMode(allow_non_fake_inputs=True)
        self.waits: Counter[str] = Counter()
        self.reads: list[int] = []
        self.streams = self.graphs = 0
        self.capturing = False
        self.pinned: dict[int, Tensor] = {}  # by the address of its memory, which is kept

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if function is torch.ops.prim.device.default:  # asked by torch itself, several times for every operation
            return function(*args)
        with self:  # in inference mode torch hands over operations that consist of others
            found = function.decompose(*args, **kwargs)
        if found is not NotImplemented:
            return found
        tensors = [leaf for leaf in tree_leaves((args, kwargs)) if isinstance(leaf, Tensor)]
        on_device = [tensor for tensor in tensors if isinstance(tensor, FakeTensor)]
        given = self.arguments(function, args, kwargs)
        device = given.get("device")
        if not on_device and (device is None or torch.device(device).type == "cpu"):
            return self.on_host(function, args, kwargs)
        if function in READS or (function is aten.index.Tensor and any(map(is_mask, args[1]))):
            self.wait()
        on_host = [tensor for tensor in tensors if not isinstance(tensor, FakeTensor)]
        if function is aten.copy_.default and on_host:
            return self.copy(args[0], args[1], bool(given["non_blocking"]))
        if function is aten._to_copy.default:
            found = self.to_copy(function, args, kwargs, given)
            if found is not None:
                return found
        elif on_device and function is not aten._pack_padded_sequence.default:
            self.check_devices(function, on_host)
        return self.compute(function, args, kwargs)

    def wait(self) -> None:
        if self.capturing:
            raise RuntimeError(f"{place()} waits for the device within a capture")
        self.waits[place()] += 1

    @staticmethod
    def arguments(function: Any, args: Any, kwargs: Any) -> dict[str, Any]:
        """The arguments of a call by name, with the defaults of its schema."""
        schema = function._schema.arguments
        given = dict(zip([argument.name for argument in schema], args, strict=False)) | kwargs
        return {argument.name: argument.default_value for argument in schema if argument.has_default_value()} | given

    def on_host(self, function: Any, args: Any, kwargs: Any) -> Any:
        """Computed as it is; a CPU build of torch has no page-locked memory, so that it is pretended too."""
        with unset_fake_temporarily():
            if function is aten.is_pinned.default:
                return self.is_pinned(args[0])
            if function is aten._pin_memory.default:
                copy = args[0].clone()
                self.pinned[copy.untyped_storage().data_ptr()] = copy
                return copy
            return function(*args, **kwargs)

    def is_pinned(self, tensor: Tensor) -> bool:
        return not tensor.numel() or tensor.untyped_storage().data_ptr() in self.pinned

    def copy(self, target: Tensor, source: Tensor, non_blocking: bool) -> Tensor:
        """Copy between the devices, in place."""
        to_host = not isinstance(target, FakeTensor)
        if not non_blocking or not (to_host or self.is_pinned(source)):
            self.wait()
        if to_host:
            with unset_fake_temporarily():
                target.fill_(self.next_read())
        return target

    def to_copy(self, function: Any, args: Any, kwargs: Any, given: Any) -> Tensor | None:
        """A copy on the other device; None if it stays on its device."""
        source, device = args[0], given.get("device")
        target = source.device if device is None else torch.device(device)
        if target.type == source.device.type:
            return None
        to_host, dtype = target.type == "cpu", given.get("dtype") or source.dtype
        if not given["non_blocking"] or not (to_host or self.is_pinned(source)):
            self.wait()
        if to_host:
            with unset_fake_temporarily():
                return torch.full(source.shape, self.next_read(), dtype=dtype)
        with self.fake:
            return torch.empty_strided(source.shape, source.stride(), dtype=dtype, device="cuda")

    def next_read(self) -> int:
        return self.reads.pop(0) if self.reads else 0

    @staticmethod
    def check_devices(function: Any, on_host: list[Tensor]) -> None:
        """Numbers on the host, without axes, may be arguments of what a GPU computes."""
        if shapes := [tuple(tensor.shape) for tensor in on_host if tensor.dim()]:
            raise RuntimeError(f"{function} has tensors on both devices; on the CPU: {shapes}, in {place()}")

    def compute(self, function: Any, args: Any, kwargs: Any) -> Any:
        if function is aten._pack_padded_sequence.default:
            with unset_fake_temporarily():
                lengths = args[1].tolist()
                sizes = torch.tensor([sum(length > step for length in lengths) for step in range(max(lengths))])
            with self.fake:
                return args[0].new_empty(sum(lengths), *args[0].shape[2:]), sizes
        args, kwargs = tree_map_only(Tensor, self.as_fake, (args, kwargs))
        with self.fake:
            match function:
                case aten._pack_padded_sequence_backward.default:
                    return args[0].new_empty(args[1])
                case aten._thnn_fused_gru_cell.default:
                    return torch.empty_like(args[2]), args[2].new_empty(args[2].shape[0], 5 * args[2].shape[1])
                case aten._thnn_fused_gru_cell_backward.default:
                    gates, hidden, has_bias = args[0], args[0].shape[1], args[2]
                    of_gates = [gates.new_empty(gates.shape[0], 3 * hidden) for _ in range(2)]
                    biases = [gates.new_empty(3 * hidden) if has_bias else None for _ in range(2)]
                    return *of_gates, torch.empty_like(gates), *biases
            try:
                return function(*args, **kwargs)
            except AssertionError as error:  # FakeTensor would run the kernel of a build with CUDA
                if "CUDA" not in str(error):
                    raise
        return self.on_meta(function, args, kwargs)

    def as_fake(self, tensor: Tensor) -> Tensor:
        return tensor if isinstance(tensor, FakeTensor) else self.fake.from_tensor(tensor)

    def on_meta(self, function: Any, args: Any, kwargs: Any) -> Any:
        """Shapes as the meta device has them."""

        def meta(tensor: Tensor) -> Tensor:
            return torch.empty_strided(tensor.shape, tensor.stride(), dtype=tensor.dtype, device="meta")

        cuda = torch.device("cuda", 0)
        with unset_fake_temporarily():
            args, kwargs = tree_map_only(Tensor, meta, (args, kwargs))
            found = function(*args, **tree_map_only(torch.device, lambda _: torch.device("meta"), kwargs))
            return tree_map_only(Tensor, lambda tensor: FakeTensor(self.fake, tensor, cuda), found)


def is_mask(index: object) -> bool:
    return isinstance(index, Tensor) and index.dtype in (torch.bool, torch.uint8)


def place() -> str:
    """The innermost function of the product that is running, with its file."""
    frame = inspect.currentframe()
    while frame is not None and not frame.f_code.co_filename.startswith(PRODUCT):
        frame = frame.f_back
    if frame is None:
        return "outside the product"
    return f"{Path(frame.f_code.co_filename).relative_to(ROOT)} {frame.f_code.co_qualname}"


class PretendedStream:
    """A stream, and every event."""

    def __init__(self, gpu: PretendedGpu) -> None:
        self.gpu = gpu

    def record_event(self) -> "PretendedStream":
        return self

    def wait_stream(self, other: "PretendedStream") -> None:
        """A stream of the device waits, and not the host."""

    def synchronize(self) -> None:
        self.gpu.wait()


class PretendedGraph:
    """A graph that does nothing when it is replayed."""

    def __init__(self, gpu: PretendedGpu) -> None:
        self.gpu = gpu

    def capture_begin(self, **options: object) -> None:
        self.gpu.capturing = True

    def capture_end(self) -> None:
        self.gpu.capturing = False
        self.gpu.graphs += 1

    def replay(self) -> None:
        """Nothing is computed."""


@contextmanager
def pretended_gpu() -> Iterator[PretendedGpu]:
    """Inside, `cuda` is a pretended device."""
    gpu = PretendedGpu()
    torch._C._ensureCUDADeviceGuardSet()  # of a build for CUDA, where there is no GPU
    current = PretendedStream(gpu)

    def new_stream(device: torch.device) -> PretendedStream:
        gpu.streams += 1
        return PretendedStream(gpu)

    @contextmanager
    def recording(graph: PretendedGraph, *given: object, **options: object) -> Iterator[None]:
        graph.capture_begin()
        try:
            yield
        finally:
            graph.capture_end()

    patches = {
        "device_count": lambda: 1,
        "is_bf16_supported": lambda including_emulation=True: True,
        "graph_pool_handle": lambda: (0, 1),
        "current_stream": lambda device=None: current,
        "synchronize": lambda device=None: gpu.wait(),
        "Stream": new_stream,
        "stream": lambda stream: nullcontext(),
        "CUDAGraph": lambda: PretendedGraph(gpu),
        "graph": recording,
    }
    capture_stream.cache_clear()
    with pytest.MonkeyPatch.context() as patch:
        for name, value in patches.items():
            patch.setattr(torch.cuda, name, value)
        patch.setattr("torch.cuda.amp.common.amp_definitely_not_available", lambda: False)
        patch.setattr(torch.backends.cudnn, "enabled", False)
        overwrite = torch.__future__.get_overwrite_module_params_on_conversion()
        torch.__future__.set_overwrite_module_params_on_conversion(True)
        try:
            with torch.autograd.set_multithreading_enabled(False), gpu.fake, gpu:
                yield gpu
        finally:
            torch.__future__.set_overwrite_module_params_on_conversion(overwrite)
