"""The precision of a search on a device."""

import torch

from interlinear.config import Precision
from interlinear.devices import check_device, computes_bf16
from interlinear.errors import UsageError
from interlinear.models.layers.int8 import KERNELS, largest_activation


def resolve_precision(precision: Precision, device: str) -> Precision:
    """The precision itself; `auto` becomes bf16 on a GPU that computes in it and on a CPU with tiles for it (AMX), int8
    on another CPU that has its products, else fp32.

    Raises UsageError for int8 on another device than a CPU, and with `auto` for a device that is not there.
    """
    if precision == "int8" and torch.device(device).type not in ("cpu", "meta"):
        raise UsageError("--precision int8", f"it is for CPUs, and the device is {device}", "use bf16 on a GPU")
    if precision != "auto":
        return precision
    check_device(device)
    match torch.device(device).type:
        case "cpu" if has_bf16_tiles():  # as fast as int8 there, and closer to fp32
            return "bf16"
        case "cpu":
            return "int8" if any(largest_activation(kernel) for kernel in KERNELS) else "fp32"
        case "cuda" if torch.cuda.get_device_capability(device) >= (8, 0):  # of this one: others may be older
            return "bf16"
    return "fp32"


def has_bf16_tiles() -> bool:
    """Whether torch multiplies bf16 matrices by AMX on this processor."""
    supported = getattr(torch.cpu, "_is_amx_tile_supported", None)  # not in every version of torch
    return supported is not None and bool(supported()) and computes_bf16(torch.device("cpu"))
