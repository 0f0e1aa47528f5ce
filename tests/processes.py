"""Functions in processes of their own: the ranks of a process group, and commands that are killed."""

import os
import sys
import tempfile
from collections.abc import Callable, Mapping
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Concatenate, ParamSpec, TypeVar

import torch
from torch import multiprocessing

from interlinear import cli

P = ParamSpec("P")
Answer = TypeVar("Answer")

# Forked from a process that has imported these once, which takes as long as many of the tests.
PROCESSES = multiprocessing.get_context("forkserver")
PROCESSES.set_forkserver_preload(
    [
        "pytest",
        "hypothesis.strategies",
        "interlinear.decoding.translation",
        "training.loop.trainer",
        "training.runs.job",
    ]
)


def command(folder: Path, *words: object) -> multiprocessing.Process:
    """Start `interlinear` with these words in a folder. Its output goes where this process's goes."""
    process = PROCESSES.Process(target=_command, args=(folder, [str(word) for word in words], dict(os.environ)))
    process.start()
    return process


def _command(folder: Path, words: list[str], environment: Mapping[str, str]) -> None:
    os.chdir(folder)
    os.environ.update(environment)
    torch.set_num_threads(1)
    sys.exit(cli.run(words))


def in_ranks(
    world_size: int, function: Callable[Concatenate[int, P], Answer], *arguments: P.args, **keywords: P.kwargs
) -> list[Answer]:
    """Call a function in every rank of a gloo group, with the rank as its first argument; returns the ranks' answers.

    Raises what a rank raises.
    """
    with tempfile.TemporaryDirectory() as folder, ProcessPoolExecutor(world_size, PROCESSES) as pool:
        group = (world_size, f"file://{folder}/meeting", dict(os.environ))
        calls = [pool.submit(_call, rank, group, function, arguments, keywords) for rank in range(world_size)]
        return [call.result() for call in calls]


def _call(
    rank: int,
    group: tuple[int, str, Mapping[str, str]],
    function: Callable[..., Answer],
    arguments: tuple[object, ...],
    keywords: Mapping[str, object],
) -> Answer:
    world_size, meeting, environment = group
    os.environ.update(environment)
    torch.set_num_threads(1)
    torch.distributed.init_process_group("gloo", meeting, world_size=world_size, rank=rank)
    try:
        return function(rank, *arguments, **keywords)
    finally:
        torch.distributed.destroy_process_group()
