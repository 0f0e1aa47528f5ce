"""The process's memory: freed tensors are kept for the next ones, compiled kernels only while they are in use."""

import ctypes
import os

TRIM_THRESHOLD, TOP_PAD, MMAP_THRESHOLD = -1, -2, -3  # mallopt's names for them, in glibc's malloc.h
KERNELS = 128  # oneDNN keeps 1024 by default, which grow to half a gigabyte as batches of new shapes come


def keep_freed_memory() -> None:
    """Call it before the first tensor is made: it has a process use memory as training and search do.

    Every step of a recurrence makes and drops tensors of some megabytes. By default glibc maps each anew, and the
    system clears every page of it: 5 to 10 % of a training step (benchmarks/training_throughput.py). No effect without
    glibc.
    """
    os.environ.setdefault("ONEDNN_PRIMITIVE_CACHE_CAPACITY", str(KERNELS))
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (AttributeError, OSError, TypeError):  # another C library, or another system
        return
    mallopt(MMAP_THRESHOLD, 32 << 20)  # the largest that glibc accepts: larger blocks are mapped, and given back
    mallopt(TRIM_THRESHOLD, 2**31 - 1)
    mallopt(TOP_PAD, 64 << 20)
