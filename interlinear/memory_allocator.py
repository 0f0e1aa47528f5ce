"""Settings of the C memory allocator (glibc malloc): keep freed memory in the process, or return it to the system."""

import ctypes
import os
from collections.abc import Callable

TRIM_THRESHOLD, TOP_PAD, MMAP_THRESHOLD = -1, -2, -3  # mallopt's parameter numbers, from glibc's malloc.h
KERNELS = 128  # oneDNN caches 1024 kernels by default, up to half a gigabyte with batches of many shapes


def keep_freed_memory() -> None:
    """Make malloc keep freed memory, and limit oneDNN's kernel cache. Call before the first tensor is created.

    Every step of a recurrence allocates and frees tensors of some megabytes. By default glibc maps each one anew, and
    the system clears its pages, which takes 5 to 10 % of a training step (benchmarks/training/throughput.py). The
    malloc settings have no effect without glibc.
    """
    os.environ.setdefault("ONEDNN_PRIMITIVE_CACHE_CAPACITY", str(KERNELS))
    if mallopt := glibc("mallopt"):
        mallopt(MMAP_THRESHOLD, 32 << 20)  # the largest value that glibc accepts; larger blocks are mapped and returned
        mallopt(TRIM_THRESHOLD, 2**31 - 1)
        mallopt(TOP_PAD, 64 << 20)


def release_freed_memory() -> None:
    """Return freed memory to the system: occasionally, and before a different kind of work. No effect without glibc.

    It takes 10 to 20 ms, and the system clears the pages again that later steps allocate.
    """
    if trim := glibc("malloc_trim"):
        trim(0)


def glibc(name: str) -> Callable[..., int] | None:
    """A function of the C library; None if the C library does not have it."""
    try:
        function: Callable[..., int] = getattr(ctypes.CDLL(None), name)
    except (AttributeError, OSError, TypeError):
        return None
    return function
