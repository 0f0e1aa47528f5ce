"""A CUDA device without a GPU: tensors on it have shapes, types and their device, but no values; tensors on the CPU are
real. So the program's code on the host runs as it does beside a GPU, and each transfer for which the host waits is
seen.

Not modelled: the order of streams, replays of graphs, cuDNN, and what is computed.
"""

import inspect
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.utils._mode_utils import no_dispatch
from torch.utils._python_dispatch import TorchDispatchMode

from interlinear.devices import capture_stream

ROOT = Path(__file__).parents[2]
PRODUCT = tuple(f"{ROOT / package}/" for package in ("interlinear", "training", "service"))
META = torch.device("meta")

aten: Any = torch.ops.aten


class OnGpu(Tensor):
    """A tensor on the pretended device. meta: its shape and type."""

    meta: Tensor
    __torch_function__ = torch._C._disabled_torch_function_impl

    @staticmethod
    def __new__(cls, meta: Tensor) -> "OnGpu":
        layout = {"strides": meta.stride(), "storage_offset": meta.storage_offset(), "dtype": meta.dtype}
        tensor: OnGpu = Tensor._make_wrapper_subclass(cls, meta.shape, device="cuda:0", **layout)  # type: ignore[attr-defined]
        tensor.meta = meta
        return tensor

    @classmethod
    def __torch_dispatch__(cls, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        raise RuntimeError(f"{function} of the pretended device after its end")


class PretendedGpu(TorchDispatchMode):
    """Counts what makes the host wait, by the product's function that asks for it: `waits`.

    A copy from the host waits unless it is asynchronous and from page-locked memory: of other memory the driver may
    wait for the stream. A copy to the host waits unless it is asynchronous; all that it reads is the next of `reads`,
    or 0. Raises RuntimeError where the host needs a value of the device, for an operation with inputs on both devices,
    and for a wait within a capture, as a GPU does. Counts the streams that are made, and the graphs that are captured.
    """

    def __init__(self) -> None:
        super().__init__()
        self.waits: Counter[str] = Counter()
        self.reads: list[int] = []
        self.streams = self.graphs = 0
        self.capturing = False
        self.pinned: dict[int, Tensor] = {}  # by the address of its memory, which is kept

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if is_composed(function):  # as in inference mode
            with self:
                return function.decompose(*args, **kwargs)
        tensors: list[Tensor] = []
        collect((args, tuple(kwargs.values())), tensors)
        device = kwargs.get("device")
        on_host = [tensor for tensor in tensors if not isinstance(tensor, OnGpu)]
        if len(on_host) == len(tensors) and not is_cuda(device):
            return self.on_host(function, args, kwargs)
        if function is aten.copy_.default and on_host:
            return self.copy(*args, **kwargs)
        if function is aten._to_copy.default and device is not None and args[0].is_cuda != is_cuda(device):
            return self.to_copy(function, args[0], kwargs)
        if function is aten._pack_padded_sequence.default:
            return pack(*args)
        shapes = [tuple(tensor.shape) for tensor in on_host if tensor.dim()]  # a number is an argument
        if shapes and len(on_host) < len(tensors):
            raise RuntimeError(f"{function} has tensors on both devices; on the CPU: {shapes}, in {place()}")
        match function:
            case aten._thnn_fused_gru_cell.default:
                sizes: Any = [args[2].shape, (args[2].shape[0], 5 * args[2].shape[1])]
            case aten._thnn_fused_gru_cell_backward.default:
                (n, hidden), biases = args[0].shape, [(3 * args[0].shape[1],)] * 2 if args[2] else [None, None]
                sizes = [(n, 3 * hidden), (n, 3 * hidden), (n, hidden), *biases]
            case aten._pack_padded_sequence_backward.default:
                return OnGpu(args[0].meta.new_empty(args[1]))
            case _:
                found = function(*as_meta(args), **{name: as_meta(value) for name, value in kwargs.items()})
                if torch.Tag.inplace_view in function.tags:
                    with no_dispatch():
                        function(*args, **kwargs)  # changes the shape
                written = written_argument(function)
                if written is not None:
                    return args[written] if isinstance(written, int) else kwargs[written]
                # a view of a tensor that was made outside of inference mode is none of it either
                with torch.inference_mode(torch.is_inference_mode_enabled() and not is_view_of_other(function, args)):
                    return as_on_gpu(found)
        meta = next(tensor for tensor in tensors if isinstance(tensor, OnGpu)).meta
        return tuple(None if size is None else OnGpu(meta.new_empty(size)) for size in sizes)

    def on_host(self, function: Any, args: Any, kwargs: Any) -> Any:
        """Computed as it is; a CPU build of torch has no page-locked memory, so that it is pretended too."""
        if function is aten.is_pinned.default:
            return self.is_pinned(args[0])
        if function is aten._pin_memory.default:
            copy = args[0].clone()
            self.pinned[copy.untyped_storage().data_ptr()] = copy
            return copy
        return function(*args, **kwargs)

    def is_pinned(self, tensor: Tensor) -> bool:
        return not tensor.numel() or tensor.untyped_storage().data_ptr() in self.pinned

    def copy(self, target: Tensor, source: Tensor, non_blocking: bool = False) -> Tensor:
        """Copy between the devices, in place."""
        if not non_blocking or not (source.is_cuda or self.is_pinned(source)):
            self.wait()
        return target.fill_(self.next_read()) if source.is_cuda else target

    def to_copy(self, function: Any, source: Tensor, options: dict[str, Any]) -> Tensor:
        """A copy on the other device."""
        if not options.get("non_blocking") or not (source.is_cuda or self.is_pinned(source)):
            self.wait()
        dtype = options.get("dtype") or source.dtype
        if source.is_cuda:
            return torch.full(source.shape, self.next_read(), dtype=dtype)
        return OnGpu(torch.empty_strided(source.shape, source.stride(), dtype=dtype, device=META))

    def wait(self) -> None:
        if self.capturing:
            raise RuntimeError(f"{place()} waits for the device within a capture")
        self.waits[place()] += 1

    def next_read(self) -> int:
        return self.reads.pop(0) if self.reads else 0


def pack(inputs: OnGpu, lengths: Tensor, *_: object) -> tuple[Tensor, Tensor]:
    """A packed sequence: its lengths, and what follows from them, are on the host by its contract."""
    numbers = lengths.tolist()
    sizes = torch.tensor([sum(length > step for length in numbers) for step in range(max(numbers))])
    return OnGpu(inputs.meta.new_empty(sum(numbers), *inputs.shape[2:])), sizes


def is_cuda(device: object) -> bool:
    return device is not None and torch.device(device).type == "cuda"  # type: ignore[arg-type]


@cache
def is_composed(function: Any) -> bool:
    """Whether an operation consists of others."""
    key = torch._C.DispatchKey.CompositeImplicitAutograd  # type: ignore[attr-defined]
    return bool(torch._C._dispatch_has_kernel_for_dispatch_key(function.name(), key))


@cache
def written_argument(function: Any) -> int | str | None:
    """The argument that an operation writes to and returns, by place or, if it can only be named, by name."""
    if not function._schema.returns:
        return None
    for place, argument in enumerate(function._schema.arguments):
        if argument.alias_info is not None and argument.alias_info.is_write:
            return argument.name if argument.kwarg_only else place
    return None


def collect(value: Any, tensors: list[Tensor]) -> None:
    """The tensors of an operation's arguments."""
    if isinstance(value, Tensor):
        tensors.append(value)
    elif isinstance(value, list | tuple):
        for each in value:
            collect(each, tensors)


def as_meta(value: Any) -> Any:
    """Arguments of the same operation on torch's meta device."""
    if isinstance(value, OnGpu):
        return value.meta
    if isinstance(value, Tensor):
        return torch.empty_strided(value.shape, value.stride(), dtype=value.dtype, device=META)
    if isinstance(value, list | tuple):
        return type(value)(map(as_meta, value))
    return META if isinstance(value, torch.device) else value


def is_view_of_other(function: Any, args: Any) -> bool:
    return function.is_view and not args[0].is_inference()


def as_on_gpu(value: Any) -> Any:
    """The results of an operation on the meta device."""
    if isinstance(value, Tensor):
        return OnGpu(value)
    return type(value)(map(as_on_gpu, value)) if isinstance(value, list | tuple) else value


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
        "_lazy_init": lambda: None,
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
        torch._C._set_only_lift_cpu_tensors(True)  # else torch.tensor copies to the device itself
        try:
            with torch.autograd.set_multithreading_enabled(False), gpu:
                yield gpu
        finally:
            torch._C._set_only_lift_cpu_tensors(False)
            torch.__future__.set_overwrite_module_params_on_conversion(overwrite)
