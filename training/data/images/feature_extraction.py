"""Extraction of region features from images by a network, in shards, so that an interrupted run can be continued.

    .OUTPUT-KEY.parts/
        000000.npy      the regions of up to SHARD_IMAGES images, float16 (n, T, F), in the order of the index
        ...

The key is a hash of the images, their order and the network: if one of these changes, extraction starts again.
"""

import hashlib
import os
import shutil
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path

import numpy as np
import torch

from interlinear.bundle import hash_weights
from interlinear.config import ImageNetwork
from interlinear.errors import DataError
from interlinear.models.image_encoders.networks import ImageNetworkBase, build_network
from interlinear.models.image_encoders.weights import load_weights
from training.data.images.image_features import FeatureMetadata, open_features, write_features
from training.data.images.images import ImageArchive
from training.data.thread_pool import map_in_order
from training.data.uris import fingerprint

SHARD_IMAGES = 64
DTYPE = np.dtype(np.float16)

ShardRunner = Callable[["FeatureExtraction", list[int]], Iterable[int]]
"""Extracts the shards with the given numbers, and yields each number when its shard is written."""


@dataclass(frozen=True)
class FeatureExtraction:
    """The input and output of an extraction. Picklable; all processes that take part must see the same paths."""

    archive: ImageArchive
    index: Path  # the file that names the members, for error messages
    members: tuple[str, ...]
    config: ImageNetwork
    weights: Path
    output: Path

    @cached_property
    def metadata(self) -> FeatureMetadata:
        """The metadata of the feature file. Raises DataError if the weights do not fit or images are missing."""
        network = cached_network(self.config, self.weights)
        byte_ranges = self.archive.byte_ranges(self.members, self.index)
        digest = hashlib.sha256()
        if self.archive.path.is_dir():
            for member in self.members:
                status = (self.archive.path / member).stat()
                digest.update(f"{member} {byte_ranges[member].size} {status.st_mtime_ns}\n".encode())
        else:
            digest.update(fingerprint(self.archive.path).encode())
            digest.update("\n".join(self.members).encode())
        return FeatureMetadata(
            network=self.config.kind,
            size=self.config.size,
            weights_sha256=hash_weights(dict(network.named_parameters())),
            rows=network.rows,
            columns=network.columns,
            pictures_sha256=digest.hexdigest(),
        )

    @cached_property
    def parts_folder(self) -> Path:
        """The folder of the shards."""
        key = hashlib.sha256(self.metadata.model_dump_json().encode()).hexdigest()
        return self.output.with_name(f".{self.output.name}-{key[:16]}.parts")

    @property
    def shards(self) -> range:
        return range(-(-len(self.members) // SHARD_IMAGES))

    def shard_file(self, number: int) -> Path:
        return self.parts_folder / f"{number:06}.npy"

    def images_in(self, number: int) -> int:
        return min(SHARD_IMAGES, len(self.members) - number * SHARD_IMAGES)

    def extract_shard(self, number: int) -> int:
        """Extract and write one shard; returns its number. Raises DataError for an image that cannot be decoded."""
        network = cached_network(self.config, self.weights)
        members = self.members[number * SHARD_IMAGES : (number + 1) * SHARD_IMAGES]
        byte_ranges = self.archive.byte_ranges(members, self.index)
        pixels = np.stack([self.archive.pixels(name, byte_ranges[name], self.config.size) for name in members])
        with torch.inference_mode():
            regions = network(torch.from_numpy(pixels)).numpy().astype(DTYPE)
        unfinished = self.parts_folder / f".{number:06}.{os.getpid()}"
        with unfinished.open("wb") as file:
            np.save(file, regions)
            file.flush()
            os.fsync(file.fileno())
        unfinished.replace(self.shard_file(number))
        return number


@lru_cache(maxsize=1)
def cached_network(config: ImageNetwork, weights: Path) -> ImageNetworkBase:
    """The network with its weights, loaded once per process."""
    network = build_network(config)
    load_weights(network, weights)
    return network.eval()


def extract_with_threads(extraction: FeatureExtraction, numbers: list[int]) -> Iterable[int]:
    """Extract shards in this process, one shard per thread: decoding and the network release the GIL. torch itself
    uses one thread meanwhile."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield from map_in_order(extraction.extract_shard, numbers)
    finally:
        torch.set_num_threads(threads)


def extract_features(extraction: FeatureExtraction, run: ShardRunner, advance: Callable[[int], None]) -> bool:
    """Extract the missing shards, then write the feature file. Returns False if the file was already complete.

    `advance` receives the number of images just completed, first the images of an earlier run. Raises DataError:
    weights that do not fit, a missing or damaged image, an existing output with other content, a failed write.
    """
    output = extraction.output
    if output.exists():
        features = open_features(output)
        if features.metadata == extraction.metadata:
            return False
        raise DataError(str(output), "is there, made of other pictures or by another network", "name another --output")
    if not extraction.members:
        raise DataError(str(extraction.archive.path), "has no pictures", "give a tar or a folder of JPEG, PNG or WebP")
    try:
        extraction.parts_folder.mkdir(parents=True, exist_ok=True)
        missing = []
        for number in extraction.shards:
            if extraction.shard_file(number).exists():
                advance(extraction.images_in(number))
            else:
                missing.append(number)
        for number in run(extraction, missing):
            advance(extraction.images_in(number))
        shards = (np.load(extraction.shard_file(number)) for number in extraction.shards)
        network = cached_network(extraction.config, extraction.weights)
        shape = (len(extraction.members), network.rows * network.columns, network.features)
        write_features(output, extraction.metadata, DTYPE, shape, shards)
        shutil.rmtree(extraction.parts_folder)
    except OSError as error:
        raise DataError(
            str(output), f"cannot be written: {error.strerror or error}", "make room; the same command goes on"
        ) from error
    return True
