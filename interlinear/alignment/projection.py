"""Projection of inline tags from a source sentence onto its translation, by word alignment. It needs no torch."""

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from interlinear.errors import UsageError

Link = tuple[int, int]  # a source word and a target word

# Gains are integers, so that their sums do not depend on the order of addition and ties are exact.
UNIT = 2**20  # the gain of a link with the largest weight
EMPTY = 2**45  # penalty for a tag that has lost its words; no sum of gains reaches it
IMPOSSIBLE = -(2**62)

# Evidence for words without links, in links of the largest weight. Too small to outvote a clear link.
INTERPOLATED = 0.2  # an unaligned source word, for the unaligned target word at its interpolated position
INTERPOLATED_ALIGNED = 0.02  # the same, if that target word has links
BETWEEN = 0.1  # an unaligned target word whose aligned neighbours are both inside the tag, or both outside
AT_EDGE = 0.01  # an unaligned target word at the edge of a tag, which is left outside
WHOLE = 1.0  # every target word, for a tag around the whole source


@dataclass(frozen=True)
class TagSpan:
    """An inline tag around the words [start, end) of a sentence.

    `parent` is the index of the innermost tag around this one, None at the top. A tag without words (`<br/>`, a
    placeholder) has start == end; `attached` is the neighbour beside which it stands.
    """

    start: int
    end: int
    parent: int | None = None
    attached: Literal["previous", "next"] = "previous"


class TagEdge(NamedTuple):
    """The opening or closing of a tag, before the word at `position` (after the last one at the sentence's end)."""

    position: int
    tag: int
    opens: bool


def project(
    spans: Sequence[TagSpan],
    links: Sequence[Link],
    source: int,
    target: int,
    weights: Sequence[float] | None = None,
) -> list[TagSpan]:
    """Project tags over the words of a source sentence onto the words of its translation.

    `spans` are in the order of their opening tags. `source` and `target` are the numbers of words, `weights` has a
    weight for each link (default: 1). Returns one span for each of `spans`, at the same index and with the same parent,
    so that `tag_edges` gives markup with the same tree of tags: children inside their parents, siblings not
    overlapping, maybe in another order. A tag with words keeps at least one if there are enough. Equal source spans
    that enclose each other stay equal, and a tag around the whole source encloses the whole target.

    The objective is the agreement with the links. A target word in a tag gains the weights of its links into the tag's
    source span, and loses the weights of its other links; the sum is largest where the weight of the links that cross
    the tag's edge is smallest. A word without links follows its neighbours, and a source word without links is linked,
    weakly, by linear interpolation. Siblings are ordered by their best spans considered alone; given this order, all
    edges together are optimal, by dynamic programming over the sequence of edges, in time and memory proportional to
    len(spans) times `target`. An empty tag is then placed beside the projection of the word to which it is attached.

    The task is defined by Hashimoto et al. 2019 and Zenkel et al. 2021.
    Raises UsageError for spans that are not nested or not in order, and for links outside the sentences.
    """
    check_spans(spans, source)
    check_links(links, source, target, weights)
    link_weights = link_matrix(links, source, target, weights)
    groups = group_equal(spans)
    filled = [tag for tag, span in enumerate(spans) if span.end > span.start and groups[tag] == tag]
    extents = dict(zip(filled, best_extents(spans, filled, groups, link_weights), strict=True))
    projected: list[TagSpan] = []
    for tag, span in enumerate(spans):
        start, end = extents[groups[tag]] if span.end > span.start else (0, 0)
        projected.append(replace(span, start=start, end=end))
    place_empty(spans, projected, link_weights)
    return projected


def tag_edges(spans: Sequence[TagSpan]) -> list[TagEdge]:
    """The edges of tags in document order, as written. Siblings at one position keep their order."""
    children: dict[int | None, list[int]] = {}
    for tag, span in enumerate(spans):
        children.setdefault(span.parent, []).append(tag)
    for siblings in children.values():
        siblings.sort(key=lambda tag: (spans[tag].start, spans[tag].end, tag))
    return nested_edges(spans, children)


def nested_edges(spans: Sequence[TagSpan], children: dict[int | None, list[int]]) -> list[TagEdge]:
    """Depth-first edges of a tree, without recursion: markup may be nested thousands of times."""
    edges: list[TagEdge] = []
    stack = [TagEdge(spans[tag].start, tag, True) for tag in reversed(children.get(None, []))]
    while stack:
        edges.append(edge := stack.pop())
        if edge.opens:
            stack.append(TagEdge(spans[edge.tag].end, edge.tag, False))
            stack += [TagEdge(spans[tag].start, tag, True) for tag in reversed(children.get(edge.tag, []))]
    return edges


def check_spans(spans: Sequence[TagSpan], source: int) -> None:
    """Raise UsageError unless the spans are inside the sentence, nested, and in document order."""
    ends: dict[int | None, int] = {}  # of the last child seen
    for tag, span in enumerate(spans):
        where = f"tag {tag}"
        if not 0 <= span.start <= span.end <= source:
            raise UsageError(
                where, f"words {span.start} to {span.end} are not in a sentence of {source}", "words count from 0"
            )
        if span.parent is not None:
            if not 0 <= span.parent < tag:
                raise UsageError(where, f"its parent {span.parent} is no earlier tag", "list tags as they open")
            parent = spans[span.parent]
            if span.start < parent.start or span.end > parent.end:
                raise UsageError(
                    where, f"it is not inside its parent, tag {span.parent}", "close tags before their parent"
                )
        if span.start < ends.get(span.parent, 0):
            raise UsageError(
                where, "it begins before the tag beside it ends", "list tags as they open, without overlap"
            )
        ends[span.parent] = span.end


def check_links(links: Collection[Link], source: int, target: int, weights: Sequence[float] | None) -> None:
    """Raise UsageError for links outside the sentence pair, and for weights that are not one finite number a link."""
    for i, j in links:
        if not (0 <= i < source and 0 <= j < target):
            raise UsageError(
                f"link {i}-{j}",
                f"it points outside the pair, which has {source} and {target} words",
                "words count from 0",
            )
    if weights is not None:
        if len(weights) != len(links):
            raise UsageError("weights", f"there are {len(weights)} for {len(links)} links", "give one for each link")
        if not all(math.isfinite(weight) and weight >= 0 for weight in weights):
            raise UsageError("weights", "one is negative or not finite", "give weights of 0 or more")


def link_matrix(
    links: Sequence[Link], source: int, target: int, weights: Sequence[float] | None
) -> NDArray[np.float64]:
    """Weights of the links (source, target), the largest 1. A link that is given twice counts twice."""
    matrix_ST = np.zeros((source, target))
    for n, (i, j) in enumerate(links):
        matrix_ST[i, j] += 1.0 if weights is None else weights[n]
    largest = matrix_ST.max(initial=0.0)
    return matrix_ST / largest if largest > 0 else matrix_ST


def group_equal(spans: Sequence[TagSpan]) -> list[int]:
    """For each tag the outermost one around it with the same source words: they are projected as one."""
    groups: list[int] = []
    for tag, span in enumerate(spans):
        parent = None if span.parent is None else spans[span.parent]
        same = parent is not None and (parent.start, parent.end) == (span.start, span.end)
        groups.append(groups[span.parent] if same and span.parent is not None else tag)
    return groups


def interpolated(matrix_ST: NDArray[np.float64]) -> NDArray[np.float64]:
    """The links, and weak ones from each source word without links to the place between its neighbours' words."""
    source, target = matrix_ST.shape
    if not target:
        return matrix_ST
    weight_S, linked_T = matrix_ST.sum(1), matrix_ST.sum(0) > 0
    (aligned,) = np.nonzero(weight_S)
    places = (matrix_ST[aligned] @ np.arange(target)) / weight_S[aligned]
    (unaligned,) = np.nonzero(weight_S == 0)
    place = np.interp(unaligned, [-1, *aligned, source], [-1, *places, target])
    nearest = np.clip(np.rint(place).astype(np.int64), 0, target - 1)
    completed_ST = matrix_ST.copy()
    completed_ST[unaligned, nearest] += np.where(linked_T[nearest], INTERPOLATED_ALIGNED, INTERPOLATED)
    return completed_ST


def gains(ranges: Sequence[tuple[int, int]], matrix_ST: NDArray[np.float64]) -> NDArray[np.int64]:
    """The gain (ranges, target) of each target word in the projection of each range of source words."""
    source, target = matrix_ST.shape
    starts, ends = np.array(ranges, dtype=np.int64).reshape(-1, 2).T
    sums_ST = np.concatenate([np.zeros((1, target)), interpolated(matrix_ST).cumsum(0)])
    inside_RT = sums_ST[ends] - sums_ST[starts]
    gain_RT = 2 * inside_RT - sums_ST[-1]
    linked_T = matrix_ST.sum(0) > 0
    # The nearest linked words before and after each target word: 0 and target + 1 are the sentence's edges.
    index = np.arange(1, target + 1)
    before_T = np.maximum.accumulate(np.where(linked_T, index, 0))
    after_T = np.minimum.accumulate(np.where(linked_T, index, target + 1)[::-1])[::-1]
    is_inside = np.concatenate([(starts == 0)[:, None], gain_RT >= 0, (ends == source)[:, None]], axis=1)
    neighbours_RT = is_inside[:, before_T].astype(np.int64) + is_inside[:, after_T]
    gain_RT += np.where(linked_T, 0.0, np.array([-BETWEEN, -AT_EDGE, BETWEEN])[neighbours_RT])
    whole_R = (starts == 0) & (ends == source)
    gain_RT[whole_R] = np.maximum(gain_RT[whole_R], 0) + WHOLE
    gain: NDArray[np.int64] = np.rint(gain_RT * UNIT).astype(np.int64)
    return gain


def best_run(gain_T: NDArray[np.int64]) -> tuple[int, int]:
    """The contiguous words with the largest sum of gains, at least one: the earliest, then the shortest."""
    best, run = (0, 1), 0
    total, start = None, 0
    for j, gain in enumerate(gain_T.tolist()):
        if run <= 0:
            run, start = 0, j
        run += gain
        if total is None or run > total:
            total, best = run, (start, j + 1)
    return best


def best_extents(
    spans: Sequence[TagSpan], filled: Sequence[int], groups: Sequence[int], matrix_ST: NDArray[np.float64]
) -> list[tuple[int, int]]:
    """The target words with the largest total gain for the tags `filled`, each of which has source words."""
    target = matrix_ST.shape[1]
    if not filled or not target:
        return [(0, 0)] * len(filled)
    gain_RT = gains([(spans[tag].start, spans[tag].end) for tag in filled], matrix_ST)
    row = {tag: r for r, tag in enumerate(filled)}
    children: dict[int | None, list[int]] = {}
    for tag in filled:
        parent = spans[tag].parent
        children.setdefault(None if parent is None else groups[parent], []).append(tag)
    for siblings in children.values():
        siblings.sort(key=lambda tag: (sum(best_run(gain_RT[row[tag]])), tag))
    edges = nested_edges(spans, children)

    # best_P[p]: the largest gain with the edges so far at or before position p, and the last of them exactly there.
    # Between two edges a word has the sum of the gains of all open tags. came_from[e][p]: the position of edge e - 1.
    best_P = np.full(target + 1, IMPOSSIBLE, dtype=np.int64)
    best_P[0] = 0
    open_T = np.zeros(target, dtype=np.int64)
    came_from: list[NDArray[np.int32]] = []
    for e, edge in enumerate(edges):
        must_have_words = not edge.opens and edges[e - 1].tag == edge.tag  # opened just before: no tags inside
        best_P, origins = advance(best_P, open_T, must_have_words)
        came_from.append(origins)
        open_T = open_T + gain_RT[row[edge.tag]] * (1 if edge.opens else -1)
    # After the last edge no tag is open and nothing more is gained.
    position = target - int(best_P[::-1].argmax())
    found = {tag: [0, 0] for tag in filled}
    for edge, origins in zip(reversed(edges), reversed(came_from), strict=True):
        found[edge.tag][0 if edge.opens else 1] = position
        position = int(origins[position])
    return [(found[tag][0], found[tag][1]) for tag in filled]


def advance(
    best_P: NDArray[np.int64], gain_T: NDArray[np.int64], must_have_words: bool
) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
    """The best gains with one more edge at each position, and the position of the edge before it.

    Of equal gains the latest position is chosen. With `must_have_words` two edges at one position have the penalty of
    an empty tag.
    """
    sums_P = np.concatenate([np.zeros(1, dtype=np.int64), gain_T.cumsum()])
    before_P = best_P - sums_P
    largest_P = np.maximum.accumulate(before_P)
    origins_P = np.maximum.accumulate(np.where(before_P == largest_P, np.arange(len(best_P)), 0))
    if not must_have_words:
        return largest_P + sums_P, origins_P.astype(np.int32)
    words_P = np.concatenate([[IMPOSSIBLE], largest_P[:-1] + sums_P[1:]])
    word_origins_P = np.concatenate([[0], origins_P[:-1]])
    empty_P = best_P - EMPTY
    has_words = words_P >= empty_P
    origins = np.where(has_words, word_origins_P, np.arange(len(best_P)))
    return np.where(has_words, words_P, empty_P), origins.astype(np.int32)


def place_empty(spans: Sequence[TagSpan], projected: list[TagSpan], matrix_ST: NDArray[np.float64]) -> None:
    """Place the tags without words, in `projected`: at the edge of the parent, or beside the neighbour's projection."""
    source, target = matrix_ST.shape
    siblings: dict[int | None, list[int]] = {}
    begins: dict[tuple[int | None, int], int] = {}  # tags with words, by parent and source position
    ends: dict[tuple[int | None, int], int] = {}
    for tag, span in enumerate(spans):
        if span.end > span.start:
            siblings.setdefault(span.parent, []).append(tag)
            begins[span.parent, span.start] = ends[span.parent, span.end] = tag
    empty = [tag for tag, span in enumerate(spans) if span.end == span.start]
    neighbours = sorted({word for tag in empty if 0 <= (word := neighbour_of(spans[tag])) < source})
    words = dict(zip(neighbours, gains([(word, word + 1) for word in neighbours], matrix_ST), strict=True))
    for tag in empty:
        span = spans[tag]
        parent, within = TagSpan(0, source), TagSpan(0, target)
        if span.parent is not None:
            parent, within = spans[span.parent], projected[span.parent]
        previous = span.attached == "previous"
        beside = (ends if previous else begins).get((span.parent, span.start))
        if span.start == parent.start:
            position = within.start
        elif span.start == parent.end:
            position = within.end
        elif beside is not None:
            position = projected[beside].end if previous else projected[beside].start
        else:
            start, end = best_run(words[neighbour_of(span)][within.start : within.end])
            position = min(within.start + (end if previous else start), within.end)
            for sibling in siblings.get(span.parent, []):  # never inside a tag that does not enclose it
                if projected[sibling].start < position < projected[sibling].end:
                    position = projected[sibling].end if previous else projected[sibling].start
        projected[tag] = replace(span, start=position, end=position)


def neighbour_of(span: TagSpan) -> int:
    """The source word beside which a tag without words stands; outside the sentence at its edge."""
    return span.start - 1 if span.attached == "previous" else span.start
