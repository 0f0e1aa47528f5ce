"""Checks of torch devices: availability and bf16 support."""

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
