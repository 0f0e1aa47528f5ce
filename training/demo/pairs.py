"""What a generated data set is made of: two texts of words that carry marks, linked where they share one."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

Marks = frozenset[int]
UNMARKED: Marks = frozenset()
Links = tuple[tuple[int, int], ...]
Sides = tuple[tuple[str, ...], tuple[str, ...]]


@dataclass(frozen=True)
class Word:
    """A word or a punctuation mark, and the things that it stands for."""

    text: str
    marks: Marks = UNMARKED


Words = tuple[Word, ...]


def links_between(source: Words, target: Words) -> Links:
    """The positions of all words that share a mark."""
    return tuple((i, j) for i, word in enumerate(source) for j, other in enumerate(target) if word.marks & other.marks)


class GeneratedPair(Protocol):
    """A pair of any generated data set: its two sides, and the combinations of words that it shows."""

    @property
    def sides(self) -> Sides: ...

    @property
    def links(self) -> Links: ...

    @property
    def combinations(self) -> frozenset[tuple[str, str]]: ...


@dataclass(frozen=True)
class Pair:
    """A German sentence, its English, the links between their words, and the combinations of words that it shows."""

    de: tuple[str, ...]
    en: tuple[str, ...]
    links: Links
    combinations: frozenset[tuple[str, str]]

    @property
    def sides(self) -> Sides:
        return self.de, self.en


@dataclass(frozen=True)
class Story:
    """A passage, its headline, the links between their words, and the combinations of words that it shows."""

    passage: tuple[str, ...]
    headline: tuple[str, ...]
    links: Links
    combinations: frozenset[tuple[str, str]]

    @property
    def sides(self) -> Sides:
        return self.passage, self.headline


def pharaoh(links: Sequence[tuple[int, int]]) -> str:
    """Links as `i-j`, separated by spaces."""
    return " ".join(f"{i}-{j}" for i, j in links)
