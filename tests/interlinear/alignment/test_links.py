"""Symmetrization of two directions equals Moses' symal; gold alignments are read, or refused with the reason."""

from bisect import insort

import pytest
from hypothesis import given
from hypothesis import strategies as st

from interlinear.alignment.links import (
    GoldAlignment,
    Link,
    Symmetrization,
    bidirectional_alignment,
    read_gold_alignment,
    symmetrize,
)
from interlinear.errors import DataError
from interlinear.explanation import Explanation, Span

HOWS: tuple[Symmetrization, ...] = (
    "intersection", "union", "grow", "grow-diag", "grow-diag-final", "grow-diag-final-and",
)  # fmt: skip

# Worked by hand. The directions agree on 0-0 and 1-1. 1-2 is a neighbour of 1-1, 2-2 of 1-2, 3-3 of 2-2 (diagonal), 3-4
# of 3-3: each has a word without a link when it is considered. 5-6 and 5-7 are isolated and share source word 5.
FORWARD = [(0, 0), (1, 1), (1, 2), (3, 3), (5, 6)]
BACKWARD = [(0, 0), (1, 1), (2, 2), (3, 4), (5, 7)]
AGREED = [(0, 0), (1, 1)]
GROWN = [*AGREED, (1, 2), (2, 2)]
GROWN_DIAGONALLY = [*GROWN, (3, 3), (3, 4)]


@pytest.mark.parametrize(
    ("how", "expected"),
    [
        ("intersection", AGREED),
        ("union", [*GROWN_DIAGONALLY, (5, 6), (5, 7)]),
        ("grow", GROWN),
        ("grow-diag", GROWN_DIAGONALLY),
        ("grow-diag-final", [*GROWN_DIAGONALLY, (5, 6), (5, 7)]),  # target word 7 has no other link
        ("grow-diag-final-and", [*GROWN_DIAGONALLY, (5, 6)]),  # source word 5 has a link by then
    ],
)
def test_a_case_worked_by_hand(how: Symmetrization, expected: list[Link]):
    assert symmetrize(FORWARD, BACKWARD, how) == expected


def test_final_links_of_the_source_side_model_come_first():
    assert symmetrize([(0, 0)], [(0, 1)], "grow-diag-final-and") == [(0, 0)]
    assert symmetrize([(0, 1)], [(0, 0)], "grow-diag-final-and") == [(0, 1)]
    assert symmetrize([], [(2, 2), (1, 2)], "grow-diag-final-and") == [(1, 2)]  # ordered by the words


def symal(a: list[int], b: list[int], diagonal: bool, final: bool, both: bool) -> set[Link]:
    """Moses' symal, its loops and its order, with words counted from 1: `a[j]` is the target word of source word j in
    the alignment of the model that reads the target, `b[i]` the source word of target word i in the other one's; 0
    means no link."""
    m, n = len(a) - 1, len(b) - 1
    fa, ea = [0] * (m + 1), [0] * (n + 1)
    matrix = [[0] * (m + 1) for _ in range(n + 1)]
    current: list[tuple[int, int]] = []
    union: list[tuple[int, int]] = []
    for j in range(1, m + 1):
        if a[j]:
            insort(union, (a[j], j))
            if b[a[j]] == j:
                fa[j] = ea[a[j]] = 1
                matrix[a[j]][j] = 2
                insort(current, (a[j], j))
            else:
                matrix[a[j]][j] = -1
    for i in range(1, n + 1):
        if b[i] and a[b[i]] != i:
            insort(union, (i, b[i]))
            matrix[i][b[i]] = 1
    neighbours = [(-1, 0), (0, -1), (1, 0), (0, 1)]
    if diagonal:
        neighbours += [(-1, -1), (-1, 1), (1, -1), (1, 1)]

    def insert(i: int, j: int) -> None:
        insort(current, (i, j))
        matrix[i][j] = 2
        ea[i] = fa[j] = 1

    added = True
    while added:
        added = False
        k = current[0] if current else None
        while k is not None:
            for di, dj in neighbours:
                i, j = k[0] + di, k[1] + dj
                if 0 < i <= n and 0 < j <= m and (b[i] == j or a[j] == i) and not (ea[i] and fa[j]):
                    insert(i, j)
                    added = True
            k = next((point for point in current if point > k), None)
    if final:
        for kind in (1, -1):
            for i, j in union:
                uncovered = (not ea[i] and not fa[j]) if both else not (ea[i] and fa[j])
                if matrix[i][j] == kind and uncovered:
                    insert(i, j)
    return {(j - 1, i - 1) for i, j in current}


@st.composite
def directions(draw: st.DrawFn) -> tuple[list[int], list[int]]:
    m, n = draw(st.integers(1, 7)), draw(st.integers(1, 7))
    near = draw(st.booleans())  # links near the diagonal have more neighbours

    def chosen(words: int, others: int) -> list[int]:
        beside = [range(max(0, k - 1), min(others, k + 1) + 1) for k in range(1, words + 1)]
        return [0, *(draw(st.sampled_from(range(others + 1) if not near or not some else some)) for some in beside)]

    return chosen(m, n), chosen(n, m)


@given(directions())
def test_symmetrization_equals_symal(case: tuple[list[int], list[int]]):
    a, b = case
    forward = [(b[i] - 1, i - 1) for i in range(1, len(b)) if b[i]]
    backward = [(j - 1, a[j] - 1) for j in range(1, len(a)) if a[j]]
    for how, flags in {
        "grow": (False, False, False),
        "grow-diag": (True, False, False),
        "grow-diag-final": (True, True, False),
        "grow-diag-final-and": (True, True, True),
    }.items():
        assert set(symmetrize(forward, backward, how)) == symal(a, b, *flags), how


links = st.lists(st.tuples(st.integers(0, 6), st.integers(0, 6)), max_size=12)


@given(links, links)
def test_each_heuristic_contains_the_links_of_the_stricter_one(forward: list[Link], backward: list[Link]):
    found = {how: set(symmetrize(forward, backward, how)) for how in HOWS}
    assert found["intersection"] == set(forward) & set(backward)
    assert found["union"] == set(forward) | set(backward)
    assert found["intersection"] <= found["grow"] <= found["union"]
    for final in ("grow-diag-final", "grow-diag-final-and"):
        assert found["intersection"] <= found["grow-diag"] <= found[final] <= found["union"]


def test_a_symmetrized_link_has_the_weights_of_both_models():
    def explanation(words: int, others: int, weights: list[list[float]], links: list[Link]) -> Explanation:
        sides = [[Span(text=str(k), start=k, end=k + 1) for k in range(count)] for count in (words, others)]
        matrices = {"attention": weights}
        return Explanation(source=sides[0], target=sides[1], matrices=matrices, alignment=links, aligned_by="attention")

    there = explanation(2, 1, [[0.25, 0.75]], [(1, 0)])
    back = explanation(1, 2, [[0.5], [1.0]], [(0, 0), (0, 1)])
    alignment = bidirectional_alignment(there, back, "union")
    assert alignment.pharaoh == "0-0 1-0"
    weights = [(link.weight, link.reverse_weight, link.symmetrized_weight) for link in alignment.links]
    assert weights == [(0.25, 0.5, 0.375), (0.75, 1.0, 0.875)], "the symmetrized weight is the mean"


LINKS = st.frozensets(st.tuples(st.integers(0, 8), st.integers(0, 8)), max_size=12)


@given(sure=LINKS, possible=LINKS)
def test_gold_in_pharaoh_format_is_parsed(sure: frozenset[Link], possible: frozenset[Link]):
    """A link that is written both ways is sure."""
    line = " ".join([*(f"{i}-{j}" for i, j in sure), *(f"{i}?{j}" for i, j in possible)])
    assert read_gold_alignment(line, "gold", 9, 9) == GoldAlignment(sure, possible - sure)


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("0-0 1:1", "'1:1' is no link"),
        ("0-", "'0-' is no link"),
        ("0-0 a-1", "'a-1' is no link"),
        ("²-1", "is no link"),
        ("-1-0", "'-1-0' is no link"),
        ("٣-0", "is no link"),
        ("0-3", "'0-3' points outside the pair, which has 4 and 3 words"),
        ("4?0", "'4?0' points outside"),
    ],
)
def test_malformed_gold_alignments_are_refused(line: str, said: str):
    with pytest.raises(DataError, match=r"gold, line 7: ") as refused:
        read_gold_alignment(line, "gold, line 7", 4, 3)
    assert said in str(refused.value)
