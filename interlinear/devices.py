"""Properties of torch devices: availability, bf16, the precision of autocast, out-of-memory errors, transfers, and
shared state of CUDA graph captures."""

import gc
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import cache

import torch
from torch import Tensor

from interlinear.errors import UsageError

# Asked once: torch 2.11's compiler cannot trace the question.
AUTOCAST_DEVICES = frozenset(kind for kind in ("cpu", "cuda", "mps", "xpu") if torch.amp.is_autocast_available(kind))

# Messages of other RuntimeErrors that mean lack of memory: from the CPU allocator of a process with a memory limit,
# from CUDA itself where torch's allocator is not involved (a context, a library's workspace), and from CUDA's
# libraries.
ALLOCATION_FAILURES = (
    "DefaultCPUAllocator",
    "CUDA error: out of memory",
    "CUBLAS_STATUS_ALLOC_FAILED",
    "CUDNN_STATUS_ALLOC_FAILED",
)

# fp32 is fp32 in every product. By default torch rounds the factors of cuDNN's recurrent layers and convolutions to
# TF32, which has the mantissa of fp16, and other products not. For speed there is bf16.
torch.backends.cudnn.allow_tf32 = False

_pause = threading.Lock()  # garbage is collected by the whole process


def check_device(device: str) -> None:
    """Raise UsageError for a device that torch does not know or this machine does not have."""
    try:
        named = torch.device(device)
        if named.type == "cuda" and (named.index or 0) < torch.cuda.device_count():
            return  # allocate nothing: the CUDA context of a first tensor takes some hundred megabytes of GPU memory
        torch.zeros(1, device=named)
    except (RuntimeError, AssertionError) as error:
        reason = str(error).splitlines()[0].rstrip(".")
        raise UsageError(
            f"--device {device}", f"it cannot be used ({reason})", "leave --device out for the CPU"
        ) from None


def computes_bf16(device: torch.device) -> bool:
    """Whether a device can run recurrent layers, and products with packed weights, in bf16. oneDNN, which computes both
    on a CPU, needs AVX-512 for it."""
    if device.type != "cpu" or not torch.backends.mkldnn.is_available():
        return True
    return bool(torch.ops.mkldnn._is_mkldnn_bf16_supported())


def autocast_dtype(device: torch.device) -> torch.dtype | None:
    """The dtype of products on a device under autocast; None where autocast is disabled, or the device has none."""
    if device.type not in AUTOCAST_DEVICES or not torch.is_autocast_enabled(device.type):
        return None
    return torch.get_autocast_dtype(device.type)


def autocast_disabled(device: torch.device) -> AbstractContextManager[object]:
    """A context in which products on a device are computed in the precision of their inputs."""
    return torch.autocast(device.type, enabled=False) if device.type in AUTOCAST_DEVICES else nullcontext()


def to_device(tensors: Sequence[Tensor], device: torch.device | str) -> list[Tensor]:
    """Tensors on a device: copies, or the tensors themselves where they are on it.

    Tensors on the host go to a GPU by one copy from page-locked memory, without waiting; tensors that are page-locked
    already are copied directly.
    """
    device = torch.device(device)
    if device.type != "cuda":
        return [tensor.to(device) for tensor in tensors]
    pageable = [tensor for tensor in tensors if tensor.device.type == "cpu" and not tensor.is_pinned()]
    copies = iter(copied_as_one(pageable, lambda whole: whole.pin_memory().to(device, non_blocking=True)))
    return [
        next(copies) if any(tensor is own for own in pageable) else tensor.to(device, non_blocking=True)
        for tensor in tensors
    ]


def to_host(tensors: Sequence[Tensor]) -> list[Tensor]:
    """Copies of tensors of one device on the host, which waits for a GPU once; or the tensors themselves."""
    if not tensors or tensors[0].device.type != "cuda":
        return [tensor.cpu() for tensor in tensors]

    def copy(whole: Tensor) -> Tensor:
        host = whole.to("cpu", non_blocking=True)  # torch allocates page-locked memory for it
        torch.cuda.current_stream(whole.device).synchronize()
        return host

    return copied_as_one(tensors, copy)


def copied_as_one(tensors: Sequence[Tensor], copy: Callable[[Tensor], Tensor]) -> list[Tensor]:
    """Copies of tensors, as parts of one copied tensor of bytes: tensors of larger elements first, so that each is
    aligned."""
    if not tensors:
        return []
    order = sorted(range(len(tensors)), key=lambda i: -tensors[i].element_size())
    whole = copy(torch.cat([tensors[i].contiguous().view(-1).view(torch.uint8) for i in order]))
    parts = dict(zip(order, whole.split([tensors[i].nbytes for i in order]), strict=True))
    return [parts[i].view(tensor.dtype).view(tensor.shape) for i, tensor in enumerate(tensors)]


def is_out_of_memory(error: BaseException) -> bool:
    """Whether an error means lack of memory: of a GPU, or of the process where the system limits it."""
    return isinstance(error, torch.OutOfMemoryError | MemoryError) or (
        isinstance(error, RuntimeError) and any(message in str(error) for message in ALLOCATION_FAILURES)
    )


@cache
def capture_stream(device: torch.device) -> torch.cuda.Stream:
    """The stream on which all CUDA graphs of a GPU are captured: cuBLAS keeps a workspace (32 MiB on an H100) for each
    stream that has computed a product."""
    return torch.cuda.Stream(device)


def end_failed_capture(device: torch.device, pool: tuple[int, int]) -> None:
    """End a capture that CUDA has invalidated, as torch does not. pool: of the capture's memory.

    The generator of random numbers has a new state, to be seeded, since the old state may still expect a capture;
    earlier captures draw from the old state. The allocator frees no cached memory while a capture seems to be running.
    """
    index = torch.cuda.current_device() if device.index is None else device.index
    torch.cuda.default_generators[index].graphsafe_set_state(torch.Generator(device).graphsafe_get_state())
    try:
        torch._C._cuda_endAllocateToPool(index, pool)
    except RuntimeError:  # the capture has ended
        return
    torch._C._cuda_releasePool(index, pool)


@contextmanager
def collection_paused() -> Iterator[None]:
    """A context without automatic garbage collection; threads that need one take turns.

    While a thread records a CUDA graph it must not destroy another one, which invalidates the recording. Garbage
    collection does: a graph that is no longer needed may be part of a reference cycle.
    """
    with _pause:
        enabled = gc.isenabled()
        gc.disable()
        try:
            yield
        finally:
            if enabled:
                gc.enable()
