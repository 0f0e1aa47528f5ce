"""Features of many pictures by a network, made in shards that are kept: what was interrupted goes on where it was.

    .OUTPUT-KEY.parts/
        000000.npy      the regions of some pictures, float16 (n, T, F), in the order of the index
        ...

The key is a hash of the pictures, their order and the network, so that other work begins anew.
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

from seq2seq.bundle import hash_weights
from seq2seq.config import ImageNetwork
from seq2seq.errors import DataError
from seq2seq.images.networks import ImageNetworkBase, build_network, load_weights
from training.data.images.image_features import FeatureMetadata, open_features, write_features
from training.data.images.images import ImageArchive
from training.data.thread_pool import map_in_order
from training.data.uris import fingerprint

SHARD_IMAGES = 64  # pictures
DTYPE = np.dtype(np.float16)

ShardRunner = Callable[["FeatureExtraction", list[int]], Iterable[int]]
"""Makes the shards of some numbers, each of which it gives when it is there."""


@dataclass(frozen=True)
class FeatureExtraction:
    """What is to be made. Picklable; every process that takes part sees the same paths."""

    archive: ImageArchive
    index: Path  # for messages: what names the members
    members: tuple[str, ...]
    config: ImageNetwork
    weights: Path
    output: Path

    @cached_property
    def metadata(self) -> FeatureMetadata:
        """What the file will say of itself. Raises DataError where the weights do not fit or pictures are missing."""
        network = cached_network(self.config, self.weights)
        byte_ranges = self.archive.byte_ranges(self.members, self.index)
        digest = hashlib.sha256()
        if self.archive.path.is_dir():
            for member in self.members:
                facts = (self.archive.path / member).stat()
                digest.update(f"{member} {byte_ranges[member].size} {facts.st_mtime_ns}\n".encode())
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
        """The folder of shards."""
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
        """Make one shard, and give its number. Raises DataError for a picture that cannot be decoded."""
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
    """The network with its weights; one in each process."""
    network = build_network(config)
    load_weights(network, weights)
    return network.eval()


def extract_with_threads(extraction: FeatureExtraction, numbers: list[int]) -> Iterable[int]:
    """Shards by this process: decoding and the network let other threads run, so that each core has a shard."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield from map_in_order(extraction.extract_shard, numbers)
    finally:
        torch.set_num_threads(before)


def extract_features(extraction: FeatureExtraction, run: ShardRunner, advance: Callable[[int], None]) -> bool:
    """Make what is missing, then the file. `advance` hears of so many pictures more that are there, those of an earlier
    run at once. Returns whether there was anything to do.

    Raises DataError: weights that do not fit, a picture that is missing or damaged, a file of that name that was made
    of something else, no place to write.
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
