"""Functions in processes of their own: the ranks of a process group, and commands that are killed."""

import os
import sys
import tempfile
from collections.abc import Callable, Mapping
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
        "interlinear.cli.decoding.translation",
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

    A rank's process ends with its call, as those do that others lose. Raises what a rank raises, and `queue.Empty` if
    one has no answer in time.
    """
    with tempfile.TemporaryDirectory() as folder:
        answers: multiprocessing.Queue[tuple[int, Answer | BaseException]] = PROCESSES.Queue()
        group = (world_size, f"file://{folder}/meeting", dict(os.environ))
        ranks = [
            PROCESSES.Process(target=_answer, args=(answers, rank, group, function, arguments, keywords))
            for rank in range(world_size)
        ]
        try:
            for rank in ranks:
                rank.start()
            found = dict(answers.get(timeout=100) for _ in ranks)
        finally:
            for rank in ranks:
                rank.join(0 if sys.exc_info()[0] else 30)
                rank.kill()
    for answer in found.values():
        if isinstance(answer, BaseException):
            raise answer
    return [found[rank] for rank in range(world_size)]  # type: ignore[misc]


def _answer(
    answers: "multiprocessing.Queue[tuple[int, Answer | BaseException]]",
    rank: int,
    group: tuple[int, str, Mapping[str, str]],
    function: Callable[..., Answer],
    arguments: tuple[object, ...],
    keywords: Mapping[str, object],
) -> None:
    world_size, meeting, environment = group
    os.environ.update(environment)
    torch.set_num_threads(1)
    torch.distributed.init_process_group("gloo", meeting, world_size=world_size, rank=rank)
    try:
        answers.put((rank, function(rank, *arguments, **keywords)))
    except Exception as error:
        answers.put((rank, error))
