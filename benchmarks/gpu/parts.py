"""The measured parts by name, in the order in which they run."""

from benchmarks.gpu import device, engine, search, training
from benchmarks.gpu.cases import Part

PARTS: dict[str, Part] = {part.name: part for part in (device.PART, training.PART, search.PART, engine.PART)}
