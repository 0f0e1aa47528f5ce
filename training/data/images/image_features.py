"""Files of region features: for each row of an image index, a grid of regions that a network computed.

Two formats are read. Our own is safetensors: a tensor `features` (images, regions, features), and metadata that say how
it was computed. The other is npz: `grid` (images, features, regions), `step`, the unit of its numbers, and the `mean`
and `basis` of the projection that computed it.

Axes: N images, T regions in row-major order, F features.
"""

import hashlib
import json
import math
import os
import struct
import zipfile
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from interlinear.config import ImageGrid
from interlinear.errors import DataError

MAX_NPZ_BYTES = 2 << 30  # bytes; a compressed file cannot be memory-mapped, so all of it is read
DTYPES = {"F16": np.float16, "F32": np.float32}
REMEDY = "write it with `interlinear features`, or as docs/datasets.md says"


class FeatureMetadata(BaseModel):
    """Metadata of a safetensors feature file: how the features were computed, and the shape of their grid. The file
    stores the values as text."""

    model_config = ConfigDict(frozen=True)

    network: str
    size: int = Field(ge=1)
    weights_sha256: str
    rows: int = Field(ge=1)
    columns: int = Field(ge=1)
    pictures_sha256: str = ""

    @property
    def made_by(self) -> str:
        """Identifies how the features were computed; stored in models that are trained on them."""
        return f"{self.network}, {self.size} x {self.size} pixels, weights {self.weights_sha256}"


@dataclass(frozen=True)
class Features:
    """The features in a file, memory-mapped where possible: values (N, T, F), in units of `scale`."""

    path: Path
    values_NTF: np.ndarray
    scale: float
    grid: ImageGrid
    metadata: FeatureMetadata | None = None  # None for npz

    def checked_row(self, number: int) -> np.ndarray:
        """The regions of one image (T, F), as stored. Raises DataError if a value is not finite."""
        regions: np.ndarray = self.values_NTF[number]
        if not np.isfinite(regions).all():
            raise DataError(str(self.path), f"has a number that is not finite in row {number + 1:,}", REMEDY)
        return regions

    def row(self, number: int) -> np.ndarray:
        """The regions of one image (T, F), float32, multiplied by the scale."""
        regions: np.ndarray = self.values_NTF[number].astype(np.float32)
        return regions * np.float32(self.scale)


def open_features(path: Path) -> Features:
    """Open a feature file of either format. Raises DataError with the file and the problem."""
    try:
        return read_npz(path) if zipfile.is_zipfile(path) else map_safetensors(path)
    except (
        OSError,
        ValueError,
        KeyError,
        TypeError,
        AttributeError,
        struct.error,
        zipfile.BadZipFile,
        EOFError,
    ) as error:
        message = " ".join(str(error).split())[:200] or type(error).__name__
        raise DataError(str(path), f"cannot be read as features of pictures ({message})", REMEDY) from None


def map_safetensors(path: Path) -> Features:
    """Memory-map a safetensors file: a header in JSON, then the values."""
    with path.open("rb") as file:
        (length,) = struct.unpack("<Q", file.read(8))
        if length > path.stat().st_size:
            raise ValueError("it is neither an npz nor a safetensors file")
        header = json.loads(file.read(length))
    try:
        metadata = FeatureMetadata.model_validate(header.get("__metadata__", {}))
    except ValidationError as error:
        raise DataError(str(path), f"its metadata do not say '{error.errors()[0]['loc'][0]}'", REMEDY) from None
    if "features" not in header:
        raise DataError(str(path), "has no tensor 'features'", REMEDY)
    tensor = header["features"]
    if tensor["dtype"] not in DTYPES:
        raise DataError(str(path), f"its features are {tensor['dtype']}, not F16 or F32", REMEDY)
    dtype, shape = np.dtype(DTYPES[tensor["dtype"]]), tuple(tensor["shape"])
    begin, end = tensor["data_offsets"]
    if path.stat().st_size < 8 + length + end or end - begin != dtype.itemsize * math.prod(shape):
        raise ValueError("it is not whole")
    if len(shape) != 3 or shape[1] != metadata.rows * metadata.columns:
        raise ValueError(f"its shape is {shape}, not pictures x {metadata.rows * metadata.columns} regions x features")
    values = np.memmap(path, dtype, "r", 8 + length + begin, shape).view(np.ndarray)
    grid = ImageGrid(rows=metadata.rows, columns=metadata.columns, features=shape[2], made_by=metadata.made_by)
    return Features(path, values, 1.0, grid, metadata)


def read_npz(path: Path) -> Features:
    """Read an npz file; its regions are a square grid in row-major order."""
    with zipfile.ZipFile(path) as archive:
        sizes = {entry.filename: entry.file_size for entry in archive.infolist()}
    for name in ("grid", "step"):
        if f"{name}.npy" not in sizes:
            raise DataError(str(path), f"has no array '{name}'", REMEDY)
    if sizes["grid.npy"] > MAX_NPZ_BYTES:
        problem = f"has {sizes['grid.npy']:,} bytes of features, and an npz is read whole"
        raise DataError(str(path), problem, "write it as safetensors, which is mapped into memory")
    with np.load(path, allow_pickle=False) as arrays:
        grid, step = arrays["grid"], float(arrays["step"])
        digest = hashlib.sha256()
        for name in ("mean", "basis"):
            if name in arrays:
                digest.update(np.ascontiguousarray(arrays[name], "<f4").tobytes())
    side = math.isqrt(grid.shape[2]) if grid.ndim == 3 else 0
    if grid.ndim != 3 or side * side != grid.shape[2] or grid.dtype.kind not in "iuf":
        raise ValueError(f"its grid is {grid.dtype} {grid.shape}, not pictures x features x regions of a square")
    values = np.ascontiguousarray(grid.transpose(0, 2, 1))
    projection = f"projection {digest.hexdigest()}"
    image_grid = ImageGrid(rows=side, columns=side, features=values.shape[2], made_by=projection)
    return Features(path, values, step, image_grid)


def write_features(
    path: Path, metadata: FeatureMetadata, dtype: np.dtype, shape: Sequence[int], parts: Iterable[np.ndarray]
) -> None:
    """Write a safetensors file part by part, without all values in memory. The file gets its name only when it is
    complete."""
    size = dtype.itemsize * math.prod(shape)
    dtype_name = next(dtype_name for dtype_name, known in DTYPES.items() if known == dtype)
    header = {
        "__metadata__": {name: str(value) for name, value in metadata.model_dump().items()},
        "features": {"dtype": dtype_name, "shape": list(shape), "data_offsets": [0, size]},
    }
    header_bytes = json.dumps(header).encode()
    header_bytes += b" " * (-len(header_bytes) % 8)  # aligns the values
    unfinished = path.with_name(f".{path.name}.part")
    with unfinished.open("wb") as file:
        file.write(struct.pack("<Q", len(header_bytes)) + header_bytes)
        for part in parts:
            file.write(np.ascontiguousarray(part, dtype).data)
        file.flush()
        os.fsync(file.fileno())
    unfinished.replace(path)


def check_features_match(expected: ImageGrid, actual: ImageGrid, path: Path, reader: str) -> None:
    """Raises DataError unless features (`actual`, in the file `path`) have the same shape and network as a reader
    requires (`expected`)."""
    if (expected.rows, expected.columns, expected.features) != (actual.rows, actual.columns, actual.features):
        raise DataError(str(path), f"has {actual}, and {reader} reads {expected}", "give features of the same network")
    if expected.made_by != actual.made_by:
        raise DataError(
            str(path),
            f"was made by another network ({actual.made_by}) than the features that "
            f"{reader} reads ({expected.made_by})",
            "make it with the same network, its weights and size included",
        )
