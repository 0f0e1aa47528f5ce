"""Word alignments as sets of links: symmetrization of two directions, the Pharaoh format, and gold alignments."""

import re
from collections.abc import Collection
from dataclasses import dataclass
from typing import Literal

from pydantic import BaseModel

from interlinear.errors import DataError
from interlinear.explanation import Explanation, Span, WeightedLink

Link = tuple[int, int]  # indexes of a source word and a target word, from 0
Symmetrization = Literal["intersection", "union", "grow", "grow-diag", "grow-diag-final", "grow-diag-final-and"]

# Offsets (source, target) of a link's neighbours, in the order of Moses.
ADJACENT = ((0, -1), (-1, 0), (0, 1), (1, 0))
DIAGONAL = ((-1, -1), (1, -1), (-1, 1), (1, 1))


class Alignment(BaseModel):
    """The words of a sentence pair with their offsets, and the sorted links between them."""

    source: list[Span] = []
    target: list[Span] = []
    links: list[WeightedLink] = []

    @property
    def pharaoh(self) -> str:
        """The links in Pharaoh format, `0-1 2-0`: source word, target word."""
        return " ".join(f"{link.source}-{link.target}" for link in self.links)


@dataclass(frozen=True)
class GoldAlignment:
    """A manual alignment: `sure` links, and further `possible` links, which are neither required nor wrong."""

    sure: frozenset[Link]
    possible: frozenset[Link] = frozenset()


def read_gold_alignment(line: str, where: str, source: int, target: int) -> GoldAlignment:
    """Parse a line of links: `0-1` is sure, `0?1` is possible. `source` and `target` are the numbers of words.

    Raises DataError, located at `where`, for a malformed link or one outside the sentence pair.
    """
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
    """Combine two directional alignments, both as (source word, target word), into one sorted alignment.

    `forward` comes from the source-to-target model, which links each target word at most once; `backward` from the
    target-to-source model. Intersection, union, and growing from one to the other are from Och and Ney 2003, the other
    methods from Koehn et al. 2005. The result depends on the order of links, the same as in Moses' symal: by target
    word, then by source word. A link added in a round is itself extended in that round if it comes later in that order.
    The final step takes links of `forward` before links of `backward`.

    - grow: add links of the union that neighbour an accepted link, if their source or their target word is unaligned;
      with `-diag`, diagonal neighbours too.
    - final: then add every link whose source or target word is unaligned; with `-and`, whose words are both unaligned.
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
        # Links added after the current one in the order are processed in this round, links before it in the next.
        while later := [link for link in links if done is None or target_first(link) > target_first(done)]:
            done = i, j = min(later, key=target_first)
            for di, dj in neighbours:
                new = i + di, j + dj
                if new in union and not (new[0] in sources and new[1] in targets):
                    add(new)
                    grown = True
    if how in ("grow-diag-final", "grow-diag-final-and"):
        matches = any if how == "grow-diag-final-and" else all
        for direction in (forward, backward):
            for link in sorted({*direction} - agreed - links, key=target_first):
                if not matches((link[0] in sources, link[1] in targets)):
                    add(link)
    return sorted(links)


def alignment_from(forward: Explanation) -> Alignment:
    """The alignment of one model, by the weights of its explanation's alignment."""
    assert forward.aligned_by is not None
    weights = forward.matrices[forward.aligned_by]
    links = [WeightedLink(source=i, target=j, weight=weights[j][i]) for i, j in forward.alignment]
    return Alignment(source=forward.source, target=forward.target, links=links)


def bidirectional_alignment(forward: Explanation, backward: Explanation, how: Symmetrization) -> Alignment:
    """The symmetrized alignment of two models; `backward` is the reverse model's explanation of the source."""
    assert forward.aligned_by is not None and backward.aligned_by is not None
    weights, reverse = forward.matrices[forward.aligned_by], backward.matrices[backward.aligned_by]
    links = [
        WeightedLink.of_both(i, j, weights[j][i], reverse[i][j])
        for i, j in symmetrize(forward.alignment, [(i, j) for j, i in backward.alignment], how)
    ]
    return Alignment(source=forward.source, target=forward.target, links=links)


def symmetrized_explanation(
    forward: Explanation, backward: Explanation | None, how: Symmetrization = "grow-diag-final-and"
) -> Explanation:
    """The explanation with the links of both directions; `backward` is the reverse model's explanation of the source.

    Without `backward`, or if the two models split the texts into different words, the links stay the links of one
    direction, and `symmetrized` is False.
    """
    if backward is None or (words(forward.source), words(forward.target)) != (
        words(backward.target),
        words(backward.source),
    ):
        return forward.model_copy(update={"symmetrized": False})
    links = bidirectional_alignment(forward, backward, how).links
    pairs = [(link.source, link.target) for link in links]
    return forward.model_copy(update={"alignment": pairs, "links": links, "symmetrized": True})


def words(spans: Collection[Span]) -> list[tuple[int, int]]:
    """The offsets of words."""
    return [(span.start, span.end) for span in spans]


def target_first(link: Link) -> Link:
    """Sort key of Moses' order: by target word, then source word."""
    return link[1], link[0]
