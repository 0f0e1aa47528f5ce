"""Which precision a search has on a device."""

import torch

from seq2seq.config import Precision
from seq2seq.devices import check_device
from seq2seq.errors import UsageError
from seq2seq.layers.int8 import KERNELS, largest_activation


def resolve_precision(precision: Precision, device: str) -> Precision:
    """The precision itself; `auto` becomes int8 on a CPU that has its products, bf16 on a GPU that computes in it, else
    fp32. Raises UsageError for int8 on another device than a CPU, and with `auto` for a device that is not there."""
    if precision == "int8" and torch.device(device).type not in ("cpu", "meta"):
        raise UsageError("--precision int8", f"it is for CPUs, and the device is {device}", "use bf16 on a GPU")
    if precision != "auto":
        return precision
    check_device(device)
    match torch.device(device).type:
        case "cpu":
            return "int8" if any(largest_activation(kernel) for kernel in KERNELS) else "fp32"
        case "cuda" if torch.cuda.is_bf16_supported(including_emulation=False):
            return "bf16"
    return "fp32"
