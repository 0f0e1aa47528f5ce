"""The records of generated corpora: two texts whose words carry marks; words that share a mark are aligned."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

Marks = frozenset[int]
UNMARKED: Marks = frozenset()
Links = tuple[tuple[int, int], ...]
Sides = tuple[tuple[str, ...], tuple[str, ...]]


@dataclass(frozen=True)
class Word:
    """A word or a punctuation mark with its alignment marks."""

    text: str
    marks: Marks = UNMARKED


Words = tuple[Word, ...]


def links_between(source: Words, target: Words) -> Links:
    """Alignment links (i, j): the positions of all words that share a mark."""
    return tuple((i, j) for i, word in enumerate(source) for j, other in enumerate(target) if word.marks & other.marks)


class GeneratedPair(Protocol):
    """A pair of any generated corpus: two sides, alignment links, and the word combinations that occur in it."""

    @property
    def sides(self) -> Sides: ...

    @property
    def links(self) -> Links: ...

    @property
    def combinations(self) -> frozenset[tuple[str, str]]: ...


@dataclass(frozen=True)
class Pair:
    """A German sentence, its English translation, alignment links, and the word combinations that occur in it."""

    de: tuple[str, ...]
    en: tuple[str, ...]
    links: Links
    combinations: frozenset[tuple[str, str]]

    @property
    def sides(self) -> Sides:
        return self.de, self.en


@dataclass(frozen=True)
class Story:
    """A passage, its headline, alignment links, and the word combinations that occur in it."""

    passage: tuple[str, ...]
    headline: tuple[str, ...]
    links: Links
    combinations: frozenset[tuple[str, str]]

    @property
    def sides(self) -> Sides:
        return self.passage, self.headline


def pharaoh(links: Sequence[tuple[int, int]]) -> str:
    """Links in Pharaoh format: `i-j`, separated by spaces."""
    return " ".join(f"{i}-{j}" for i, j in links)
