"""Files of region features: one grid for every row of an index, made by a network from pictures.

Two forms are read. Ours, safetensors: a tensor `features` (pictures, regions, features), its metadata say what made
it. And an npz: `grid` (pictures, features, regions), the `step` that its numbers are multiples of, and the `mean` and
`basis` of the projection that made it.

Axes: N pictures, T regions row by row, F features.
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

from seq2seq.config import ImageGrid
from seq2seq.errors import DataError

MAX_NPZ_BYTES = 2 << 30  # bytes; it is read whole, since what is compressed cannot be mapped
DTYPES = {"F16": np.float16, "F32": np.float32}
REMEDY = "write it with `interlinear features`, or as docs/datasets.md says"


class FeatureMetadata(BaseModel):
    """The metadata of our own files: how the features were made, and how they lie. Its values are text in the file."""

    model_config = ConfigDict(frozen=True)

    network: str
    size: int = Field(ge=1)
    weights_sha256: str
    rows: int = Field(ge=1)
    columns: int = Field(ge=1)
    pictures_sha256: str = ""

    @property
    def made_by(self) -> str:
        """What a model that reads such features remembers of where they come from."""
        return f"{self.network}, {self.size} x {self.size} pixels, weights {self.weights_sha256}"


@dataclass(frozen=True)
class Features:
    """A file's features, mapped into memory where that is possible: the values (N, T, F), in units of `scale`."""

    path: Path
    values_NTF: np.ndarray
    scale: float
    grid: ImageGrid
    metadata: FeatureMetadata | None = None  # of our own files

    def checked_row(self, number: int) -> np.ndarray:
        """One picture's regions as they are in the file. Raises DataError where one of their numbers is none."""
        regions: np.ndarray = self.values_NTF[number]
        if not np.isfinite(regions).all():
            raise DataError(str(self.path), f"has a number that is not finite in row {number + 1:,}", REMEDY)
        return regions

    def row(self, number: int) -> np.ndarray:
        """One picture's regions (T, F), float32."""
        regions: np.ndarray = self.values_NTF[number].astype(np.float32)
        return regions * np.float32(self.scale)


def open_features(path: Path) -> Features:
    """Open a file of either form. Raises DataError with the file and what is wrong in it."""
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
        said = " ".join(str(error).split())[:200] or type(error).__name__
        raise DataError(str(path), f"cannot be read as features of pictures ({said})", REMEDY) from None


def map_safetensors(path: Path) -> Features:
    """Our own form: a header in JSON, then the numbers."""
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
    """The other form. Its regions are a square, row by row."""
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
    made = ImageGrid(rows=side, columns=side, features=values.shape[2], made_by=projection)
    return Features(path, values, step, made)


def write_features(
    path: Path, metadata: FeatureMetadata, dtype: np.dtype, shape: Sequence[int], parts: Iterable[np.ndarray]
) -> None:
    """Write our own form, part after part, so that it need not be in memory; whole under its name, or not at all."""
    size = dtype.itemsize * math.prod(shape)
    code = next(code for code, known in DTYPES.items() if known == dtype)
    header = {
        "__metadata__": {name: str(value) for name, value in metadata.model_dump().items()},
        "features": {"dtype": code, "shape": list(shape), "data_offsets": [0, size]},
    }
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)  # so that the numbers are aligned
    unfinished = path.with_name(f".{path.name}.part")
    with unfinished.open("wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        for part in parts:
            file.write(np.ascontiguousarray(part, dtype).data)
        file.flush()
        os.fsync(file.fileno())
    unfinished.replace(path)


def check_features_match(ours: ImageGrid, theirs: ImageGrid, path: Path, reader: str) -> None:
    """Whether features are what a reader was trained on. Raises DataError."""
    if (ours.rows, ours.columns, ours.features) != (theirs.rows, theirs.columns, theirs.features):
        raise DataError(str(path), f"has {theirs}, and {reader} reads {ours}", "give features of the same network")
    if ours.made_by != theirs.made_by:
        raise DataError(
            str(path),
            f"was made by another network ({theirs.made_by}) than the features that {reader} reads ({ours.made_by})",
            "make it with the same network, its weights and size included",
        )
