"""What torch devices offer: whether they are there, bf16, and the precision of autocast."""

from contextlib import AbstractContextManager, nullcontext

import torch

from seq2seq.errors import UsageError


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
    """Whether a device can run recurrent layers in bf16. oneDNN, which runs them on a CPU, needs AVX-512 for it."""
    if device.type != "cpu" or not torch.backends.mkldnn.is_available():
        return True
    return bool(torch.ops.mkldnn._is_mkldnn_bf16_supported())


def autocast_dtype(device: torch.device) -> torch.dtype | None:
    """The dtype of products on a device under autocast; None where autocast is disabled, or the device has none."""
    if not torch.amp.is_autocast_available(device.type) or not torch.is_autocast_enabled(device.type):
        return None
    return torch.get_autocast_dtype(device.type)


def autocast_disabled(device: torch.device) -> AbstractContextManager[object]:
    """A context in which products on a device are computed in the precision of their inputs."""
    available = torch.amp.is_autocast_available(device.type)
    return torch.autocast(device.type, enabled=False) if available else nullcontext()
