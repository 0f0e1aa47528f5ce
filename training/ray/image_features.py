"""Features of many pictures on a Ray cluster, through Ray Data: tasks make shards, in processes that keep the network.

What passes through Ray is a shard's number. Pictures, weights and shards are files, which every node has to see.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial

from training.data.images.feature_extraction import FeatureExtraction, ShardRunner
from training.ray.data import map_on_cluster, ray_executor


@dataclass(frozen=True)
class ExtractShard:
    """Makes one shard after another, each on one core."""

    extraction: FeatureExtraction

    def __call__(self, number: int) -> int:
        import torch

        torch.set_num_threads(1)
        return self.extraction.extract_shard(number)


def extract_on_ray(address: str | None) -> ShardRunner:
    """Shards by the cluster at an address, or by one of this process's own."""
    return partial(_shards, address)


def _shards(address: str | None, extraction: FeatureExtraction, numbers: list[int]) -> Iterable[int]:
    if numbers:
        with ray_executor(address):
            yield from map_on_cluster(ExtractShard(extraction), numbers)
