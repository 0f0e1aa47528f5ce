"""Image features on a Ray cluster with Ray Data: tasks compute shards, in processes that keep the network loaded.

Only the numbers of shards pass through Ray. Images, weights and shards are files that every node must see.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial

from training.data.images.feature_extraction import FeatureExtraction, ShardRunner
from training.ray.data import map_on_cluster, ray_executor


@dataclass(frozen=True)
class ExtractShard:
    """Computes the features of shards, on one core each."""

    extraction: FeatureExtraction

    def __call__(self, number: int) -> int:
        import torch

        torch.set_num_threads(1)
        return self.extraction.extract_shard(number)


def extract_on_ray(address: str | None) -> ShardRunner:
    """A runner that computes shards on the cluster at an address, or on a local one of this process."""
    return partial(_shards, address)


def _shards(address: str | None, extraction: FeatureExtraction, numbers: list[int]) -> Iterable[int]:
    if numbers:
        with ray_executor(address):
            yield from map_on_cluster(ExtractShard(extraction), numbers)
