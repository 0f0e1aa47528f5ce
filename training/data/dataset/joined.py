"""Splits of long sentences, made by joining neighbouring lines of another split."""

import random
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from training.data.formats import Part, read_part


@dataclass(frozen=True)
class LineJoin:
    """How lines are joined, see `join_lines`.

    `source`: the files of the text whose words are counted; `language` and `unknown`: what its normalization needs.
    """

    source: tuple[Part, ...]
    language: str | None
    unknown: str | None
    over: int
    up_to: int
    seed: int

    def groups(self) -> Iterator[range]:
        """The lines of each joined sentence, counted from 0 over all files, in order. Raises DataError."""
        generator = random.Random(self.seed)
        first = 0
        for part in self.source:
            words = [len(line.split()) for line in read_part(part, language=self.language, unknown=self.unknown)]
            yield from (
                range(first + group.start, first + group.stop)
                for group in join_lines(words, self.over, self.up_to, generator)
            )
            first += len(words)


def join_lines(words: Sequence[int], over: int, up_to: int, generator: random.Random) -> Iterator[range]:
    """Groups of consecutive lines of one file, by the number of words of each line.

    For each group a length is drawn uniformly from `over` + 1 to `up_to`, and lines are added until the group has at
    least this number of words. A group of one line occurs if that line is long enough. Lines at the end of the file
    that are too few for a group are left out.
    """
    start, length, wanted = 0, 0, generator.randint(over + 1, up_to)
    for number, count in enumerate(words):
        length += count
        if length >= wanted:
            yield range(start, number + 1)
            start, length, wanted = number + 1, 0, generator.randint(over + 1, up_to)


def joined_texts(lines: Iterable[str], groups: Iterable[range]) -> Iterator[str]:
    """The lines of each group, with a space between them. Groups are in order and do not overlap."""
    numbered = enumerate(lines)
    for group in groups:
        yield " ".join(line for _, line in _take(numbered, group))


def _take(numbered: Iterator[tuple[int, str]], group: range) -> Iterator[tuple[int, str]]:
    for number, line in numbered:
        if number in group:
            yield number, line
        if number >= group.stop - 1:
            return
