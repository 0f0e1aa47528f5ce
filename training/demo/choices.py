"""Seeded choices that are the same in every version of Python."""

from collections.abc import Sequence
from random import Random
from typing import TypeVar

T = TypeVar("T")


class Choices:
    """Chooses by Random.random() only: its numbers are the same everywhere, those of `choice` and `shuffle` are not."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)

    def chance(self, probability: float) -> bool:
        return self.random.random() < probability

    def one(self, options: Sequence[T]) -> T:
        return options[int(self.random.random() * len(options))]

    def weighted(self, options: Sequence[tuple[float, T]]) -> T:
        point = self.random.random() * sum(weight for weight, _ in options)
        for weight, option in options:
            point -= weight
            if point < 0:
                return option
        return options[-1][1]

    def some(self, options: Sequence[T], count: int) -> list[T]:
        """So many different ones, in an order that is chosen too."""
        left = list(options)
        return [left.pop(int(self.random.random() * len(left))) for _ in range(count)]
