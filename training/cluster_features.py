"""Features of many pictures on a Ray cluster, through Ray Data: actors that keep the network make shards.

What passes through Ray is a shard's number. Pictures, weights and shards are files, which every node has to see.
"""

import logging
import os
from collections.abc import Iterable
from functools import partial
from typing import TypedDict

from seq2seq.errors import DataError, TrainingError
from training.cluster import Group, connected, last_line
from training.extraction import Extraction, Run


class Made(TypedDict):
    """A shard that is there; or why it is not."""

    shard: int
    where: str
    problem: str
    remedy: str


class ShardMaker:
    """An actor that makes one shard after another."""

    def __init__(self, extraction: Extraction) -> None:
        import torch

        torch.set_num_threads(1)
        self.extraction = extraction

    def __call__(self, row: dict[str, int]) -> Made:
        number = int(row["shard"])
        try:
            self.extraction.make(number)
        except DataError as error:  # Ray would wrap it in one of its own
            return Made(shard=number, where=error.where, problem=error.problem, remedy=error.remedy)
        return Made(shard=number, where="", problem="", remedy="")


def on_ray(address: str | None) -> Run:
    """Shards by the cluster at an address, or by one of this process's own."""
    return partial(_shards, address)


def _shards(address: str | None, extraction: Extraction, numbers: list[int]) -> Iterable[int]:
    if not numbers:
        return
    # After training.cluster, which sets what Ray reads when it is imported.
    import ray.data
    from ray.exceptions import RayError

    logging.getLogger("ray.data").setLevel(logging.ERROR)
    try:
        with connected(Group(1, os.cpu_count() or 1, address=address)):
            context = ray.data.DataContext.get_current()
            context.enable_progress_bars = False
            cpus = int(ray.cluster_resources().get("CPU", 1))  # type: ignore[no-untyped-call]
            work = ray.data.from_items([{"shard": number} for number in numbers], override_num_blocks=len(numbers))
            made = work.map(
                ShardMaker,  # type: ignore[arg-type]  # Ray's stubs do not know that a class may stand here
                fn_constructor_args=(extraction,),
                num_cpus=1,
                compute=ray.data.ActorPoolStrategy(min_size=1, max_size=max(1, min(cpus, len(numbers)))),
            )
            for row in made.iter_rows():
                if row["problem"]:
                    raise DataError(row["where"], row["problem"], row["remedy"])
                yield int(row["shard"])
    except RayError as error:
        where = address or "Ray"
        raise TrainingError(where, f"the Ray cluster failed: {last_line(error)}", "the same command goes on") from error
