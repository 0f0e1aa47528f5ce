"""The process's memory allocator, told to keep what it has."""

import ctypes

TRIM_THRESHOLD, TOP_PAD, MMAP_THRESHOLD = -1, -2, -3  # mallopt's names for them, in glibc's malloc.h


def keep_freed_memory() -> None:
    """Let freed tensors' memory serve the next ones instead of going back to the system; no effect without glibc.

    Every step of a recurrence makes and drops tensors of some megabytes. By default glibc maps each anew, and the
    system clears every page of it: 5 to 10 % of a training step (benchmarks/training_throughput.py).
    """
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (AttributeError, OSError, TypeError):  # another C library, or another system
        return
    mallopt(MMAP_THRESHOLD, 32 << 20)  # the largest that glibc accepts: larger blocks are mapped, and given back
    mallopt(TRIM_THRESHOLD, 2**31 - 1)
    mallopt(TOP_PAD, 64 << 20)
