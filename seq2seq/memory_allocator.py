"""The process's memory: what is freed is kept or given back, compiled kernels are kept only while they are in use."""

import ctypes
import os
from collections.abc import Callable

TRIM_THRESHOLD, TOP_PAD, MMAP_THRESHOLD = -1, -2, -3  # mallopt's names for them, in glibc's malloc.h
KERNELS = 128  # oneDNN keeps 1024 by default, which grow to half a gigabyte as batches of new shapes come


def keep_freed_memory() -> None:
    """Call it before the first tensor is made: it has a process use memory as training and search do.

    Every step of a recurrence makes and drops tensors of some megabytes. By default glibc maps each anew, and the
    system clears every page of it: 5 to 10 % of a training step (benchmarks/training_throughput.py). No effect without
    glibc.
    """
    os.environ.setdefault("ONEDNN_PRIMITIVE_CACHE_CAPACITY", str(KERNELS))
    if mallopt := glibc("mallopt"):
        mallopt(MMAP_THRESHOLD, 32 << 20)  # the largest that glibc accepts: larger blocks are mapped, and given back
        mallopt(TRIM_THRESHOLD, 2**31 - 1)
        mallopt(TOP_PAD, 64 << 20)


def release_freed_memory() -> None:
    """Give what was freed back to the system: now and then, and before work of another kind. No effect without glibc.

    It takes a hundredth of a second or two, and the steps after it have their pages cleared again.
    """
    if trim := glibc("malloc_trim"):
        trim(0)


def glibc(name: str) -> Callable[..., int] | None:
    """A function of the C library; None where it is another library, or another system."""
    try:
        found: Callable[..., int] = getattr(ctypes.CDLL(None), name)
    except (AttributeError, OSError, TypeError):
        return None
    return found
