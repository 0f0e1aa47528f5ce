"""Features of many pictures on a Ray cluster, through Ray Data: tasks make shards, in processes that keep the network.

What passes through Ray is a shard's number. Pictures, weights and shards are files, which every node has to see.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial

from training.data.images.feature_extraction import Extraction, Run
from training.ray.data import on_ray as connected_road
from training.ray.data import over_cluster


@dataclass(frozen=True)
class ShardMaker:
    """Makes one shard after another, each on one core."""

    extraction: Extraction

    def __call__(self, number: int) -> int:
        import torch

        torch.set_num_threads(1)
        return self.extraction.make(number)


def on_ray(address: str | None) -> Run:
    """Shards by the cluster at an address, or by one of this process's own."""
    return partial(_shards, address)


def _shards(address: str | None, extraction: Extraction, numbers: list[int]) -> Iterable[int]:
    if numbers:
        with connected_road(address):
            yield from over_cluster(ShardMaker(extraction), numbers)
