"""Seeded random choices that are the same in every version of Python."""

from collections.abc import Sequence
from random import Random
from typing import TypeVar

T = TypeVar("T")


class NoChoiceError(Exception):
    """There is no option left to choose; the generators then discard the sentence and start again."""


class Choices:
    """Random choices from a seed.

    Uses Random.random() only: Python guarantees its numbers across versions, but not those of `choice` and `shuffle`.
    """

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)

    def chance(self, probability: float) -> bool:
        """True with this probability."""
        return self.random.random() < probability

    def one(self, options: Sequence[T]) -> T:
        """One of the options, uniformly. Raises NoChoiceError."""
        if not options:
            raise NoChoiceError
        return options[int(self.random.random() * len(options))]

    def weighted(self, options: Sequence[tuple[float, T]]) -> T:
        """One of the options, (weight, option), in proportion to their weights. Raises NoChoiceError."""
        point = self.random.random() * sum(weight for weight, _ in options)
        for weight, option in options:
            point -= weight
            if point < 0:
                return option
        if not options:
            raise NoChoiceError
        return options[-1][1]  # the sum was rounded

    def sample(self, options: Sequence[T], count: int) -> list[T]:
        """`count` different options in random order."""
        left = list(options)
        return [left.pop(int(self.random.random() * len(left))) for _ in range(count)]
