"""Word alignments as sets of links: two directions made one, and the gold that people made."""

import re
from collections.abc import Collection
from dataclasses import dataclass
from typing import Literal

from pydantic import BaseModel

from seq2seq.errors import DataError
from seq2seq.explain import Explanation, Span, best_kind

Link = tuple[int, int]  # a source word and a target word, from 0
Symmetrization = Literal["intersection", "union", "grow", "grow-diag", "grow-diag-final", "grow-diag-final-and"]

# A link's neighbours (source, target), in the order in which Moses tries them.
ADJACENT = ((0, -1), (-1, 0), (0, 1), (1, 0))
DIAGONAL = ((-1, -1), (1, -1), (-1, 1), (1, 1))


class WeightedLink(BaseModel):
    """A link, with what the model that reads the source gives it, and the one that reads the target."""

    source: int
    target: int
    weight: float
    reverse_weight: float | None = None


class Alignment(BaseModel):
    """A pair's words with their places in its texts, and the links between them, in order."""

    source: list[Span] = []
    target: list[Span] = []
    links: list[WeightedLink] = []

    @property
    def pharaoh(self) -> str:
        """`0-1 2-0`: source word, target word."""
        return " ".join(f"{link.source}-{link.target}" for link in self.links)


@dataclass(frozen=True)
class GoldAlignment:
    """Links that people made: `sure` ones, and further `possible` ones, which a model may have or not."""

    sure: frozenset[Link]
    possible: frozenset[Link] = frozenset()


def read_gold_alignment(line: str, where: str, source: int, target: int) -> GoldAlignment:
    """A line of links, `0-1` sure and `0?1` possible, between so many words. Raises DataError, which names `where`."""
    sure: set[Link] = set()
    possible: set[Link] = set()
    for entry in line.split():
        match = re.fullmatch(r"(\d+)([-?])(\d+)", entry, re.ASCII)
        if match is None:
            raise DataError(where, f"'{entry}' is no link", "links are written 0-1 (sure) or 0?1 (possible)")
        link = int(match[1]), int(match[3])
        if link[0] >= source or link[1] >= target:
            raise DataError(
                where,
                f"'{entry}' points outside the pair, which has {source} and {target} words",
                "words are counted from 0",
            )
        (sure if match[2] == "-" else possible).add(link)
    return GoldAlignment(frozenset(sure), frozenset(possible - sure))


def symmetrize(forward: Collection[Link], backward: Collection[Link], how: Symmetrization) -> list[Link]:
    """One alignment out of two, both as (source word, target word), in order.

    `forward` is of the model that reads the source, which links every target word at most once; `backward` of the model
    that reads the target. Och and Ney 2003 have the intersection, the union, and growing from the one into the other;
    the rest is Koehn et al. 2005, in the order of Moses' symal, on which the outcome depends: links are taken by target
    word, then source word; a link that grows is grown from in the same round where it comes later in that order; the
    final step takes links of `forward` before those of `backward`.

    - grow: add links of the union beside one that is there, if their source or their target word has none yet; `-diag`:
      beside also diagonally.
    - final: then add every link of which the source or the target word has none yet; `-and`: both.
    """
    union, agreed = {*forward, *backward}, {*forward} & {*backward}
    if how == "union":
        return sorted(union)
    if how == "intersection":
        return sorted(agreed)
    links = set(agreed)
    sources, targets = {i for i, _ in links}, {j for _, j in links}

    def add(link: Link) -> None:
        links.add(link)
        sources.add(link[0])
        targets.add(link[1])

    neighbours = ADJACENT if how == "grow" else ADJACENT + DIAGONAL
    grown = True
    while grown:
        grown = False
        done: Link | None = None
        # What grows behind the link at hand comes up in this round, what grows before it in the next.
        while later := [link for link in links if done is None or target_first(link) > target_first(done)]:
            done = i, j = min(later, key=target_first)
            for di, dj in neighbours:
                new = i + di, j + dj
                if new in union and not (new[0] in sources and new[1] in targets):
                    add(new)
                    grown = True
    if how in ("grow-diag-final", "grow-diag-final-and"):
        enough = any if how == "grow-diag-final-and" else all
        for direction in (forward, backward):
            for link in sorted({*direction} - agreed - links, key=target_first):
                if not enough((link[0] in sources, link[1] in targets)):
                    add(link)
    return sorted(links)


def alignment_from(forward: Explanation, by: str | None = None) -> Alignment:
    """The alignment that one model reads by a kind of looks, None the best."""
    weights = forward.matrices[by or best_kind(forward.matrices)]
    links = [WeightedLink(source=i, target=j, weight=weights[j][i]) for i, j in forward.alignment]
    return Alignment(source=forward.source, target=forward.target, links=links)


def bidirectional_alignment(
    forward: Explanation, backward: Explanation, how: Symmetrization, by: str | None = None
) -> Alignment:
    """The symmetrized alignment of two models; `backward` explains the source as the output of the target."""
    weights, reverse = (each.matrices[by or best_kind(each.matrices)] for each in (forward, backward))
    links = [
        WeightedLink(source=i, target=j, weight=weights[j][i], reverse_weight=reverse[i][j])
        for i, j in symmetrize(forward.alignment, [(i, j) for j, i in backward.alignment], how)
    ]
    return Alignment(source=forward.source, target=forward.target, links=links)


def target_first(link: Link) -> Link:
    """The order of Moses: by target word, then source word."""
    return link[1], link[0]
