"""Arrays in .npy files: growing while they are written, memory-mapped when they are read."""

import os
from pathlib import Path

import numpy as np


class GrowingArray:
    """A .npy file whose first axis grows. numpy reserves space in the header for the final length."""

    def __init__(self, path: Path, dtype: np.dtype | type[np.generic], shape: tuple[int, ...] = ()) -> None:
        """`shape`: the shape of one element."""
        self.size = 0
        self._dtype = np.dtype(dtype)
        self._shape = shape
        self._file = path.open("wb")
        self._write_header()

    def append(self, values: np.ndarray) -> None:
        self._file.write(np.ascontiguousarray(values, self._dtype).data)
        self.size += len(values)

    def close(self) -> None:
        self._file.seek(0)
        self._write_header()
        self._file.flush()
        os.fsync(self._file.fileno())
        self._file.close()

    def _write_header(self) -> None:
        description = {"descr": self._dtype.str, "fortran_order": False, "shape": (self.size, *self._shape)}
        np.lib.format.write_array_header_1_0(self._file, description)


def memory_map(path: Path) -> np.ndarray:
    """Memory-map an array; returns a plain ndarray, because slicing numpy's memmap class is slow."""
    try:
        return np.load(path, mmap_mode="r").view(np.ndarray)  # type: ignore[no-any-return]
    except ValueError:  # an empty array cannot be memory-mapped
        return np.load(path)  # type: ignore[no-any-return]


def create_memmap(path: Path, dtype: np.dtype | type[np.generic], size: int) -> np.ndarray:
    """A new memory-mapped array of zeros, which may be written in any order."""
    return np.lib.format.open_memmap(path, "w+", dtype, (size,))


def span_indexes(starts_N: np.ndarray, lengths_N: np.ndarray) -> np.ndarray:
    """The indexes of N spans of a flat array, one span after the other: start, start + 1, ... of each."""
    before_N = np.cumsum(lengths_N) - lengths_N
    return np.repeat(starts_N - before_N, lengths_N) + np.arange(lengths_N.sum())


def write_atomically(path: Path, content: bytes) -> None:
    """Write a file; it gets its name only after its content is on the disk."""
    temporary = path.with_name(f".{path.name}.draft")
    with temporary.open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    temporary.replace(path)
