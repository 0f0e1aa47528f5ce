"""The device, and its rates: how fast it multiplies matrices and copies memory."""

from collections.abc import Iterator
from functools import partial

import torch

from benchmarks.gpu.cases import Case, Deadline, Part, Row, Setting
from benchmarks.gpu.timing import copy_rate, product_rate

QUICK_SIZE = 256


def rows(setting: Setting, deadline: Deadline) -> Iterator[Row]:
    device = setting.device
    row: Row = {"device": "CPU"}
    if device.type == "cuda":
        properties = torch.cuda.get_device_properties(device)
        row["device"] = f"{properties.name}, {properties.total_memory / 2**30:.0f} GiB, CUDA {torch.version.cuda}"
    product, copy = (
        (partial(product_rate, size=QUICK_SIZE), partial(copy_rate, size=QUICK_SIZE**2))
        if setting.quick
        else (product_rate, copy_rate)
    )
    yield row | {
        "fp32": product(device, torch.float32),
        "bf16": product(device, torch.bfloat16),
        "bytes": copy(device),
    }


def cases(setting: Setting) -> list[Case]:
    return [Case("rates", 1, rows)]


PART = Part(
    "device",
    "Device",
    0.06,
    {"device": "device", "fp32": "fp32 operations/s", "bf16": "bf16 operations/s", "bytes": "bytes/s"},
    "Of a product of two square matrices, and of copying a gigabyte, read and written. torch's own settings: fp32 "
    "products are not rounded to TF32.",
    cases,
)
