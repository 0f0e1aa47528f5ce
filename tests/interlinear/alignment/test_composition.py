"""Alignment through a pivot language, against the sums written out."""

import numpy as np
import pytest

from interlinear.explanation import Explanation, Span, TermLocation
from interlinear.generation.composition import compose_explanations


def words(*spans: tuple[int, int], text: str) -> list[Span]:
    return [Span(text=text[start:end], start=start, end=end) for start, end in spans]


SOURCE, PIVOT, TARGET = "der Hund-Park", "the dog-park", "le parc des chiens"
# The first model's words of the pivot text are 2, the second's 3: `dog-park` is one word, and `dog-` and `park` two.
FIRST = Explanation(
    source=words((0, 3), (4, 13), text=SOURCE),
    target=words((0, 3), (4, 12), text=PIVOT),
    matrices={"attention": [[0.6, 0.2], [0.1, 0.7]], "only_first": [[1, 0], [0, 1]]},
    alignment=[(0, 0), (1, 1)],
    aligned_by="attention",
    confidence=[0.5, 0.8],
    gate=[0.1, 0.2],
)
SECOND = Explanation(
    source=words((0, 3), (2, 8), (8, 12), text=PIVOT),  # the second word has one character in `the`, four in the other
    target=words((0, 2), (3, 7), (8, 11), (12, 18), text=TARGET),
    matrices={"attention": [[0.9, 0.05, 0.0], [0.1, 0.1, 0.7], [0.3, 0.3, 0.3], [0.0, 0.9, 0.1]]},
    alignment=[(0, 0), (2, 1), (0, 2), (1, 3)],
    aligned_by="attention",
    confidence=[0.9, 0.9, None, 0.5],
)


def written_out() -> np.ndarray:
    """The sums over the words of the pivot text, character by character."""
    rows = np.zeros((4, 2))
    for target in range(4):
        for source in range(2):
            for p, read in enumerate(SECOND.source):
                overlaps = [max(0, min(read.end, q.end) - max(read.start, q.start)) for q in FIRST.target]
                for q in range(2):
                    rows[target, source] += (
                        SECOND.matrices["attention"][target][p]
                        * overlaps[q]
                        / sum(overlaps)
                        * FIRST.matrices["attention"][q][source]
                    )
    return rows / rows.sum(1, keepdims=True)


def test_weights_are_the_normalised_products():
    composed = compose_explanations(FIRST, SECOND)
    assert composed.matrices.keys() == {"attention"}
    np.testing.assert_allclose(composed.matrices["attention"], written_out(), atol=6e-5)
    assert composed.alignment == sorted((int(row.argmax()), j) for j, row in enumerate(written_out()))
    assert (composed.source, composed.target) == (FIRST.source, SECOND.target)
    assert composed.gate is None and composed.aligned_by == "attention"


def test_confidence_is_that_of_both_steps():
    # `the` wrote le; `dog-park` wrote the others, of which one has no confidence
    assert compose_explanations(FIRST, SECOND).confidence == pytest.approx([0.9 * 0.5, 0.9 * 0.8, None, 0.5 * 0.8])


def test_matrices_of_other_names_align_under_the_second_ones_name():
    first = FIRST.model_copy(update={"matrices": {"posterior": FIRST.matrices["attention"]}, "aligned_by": "posterior"})
    composed = compose_explanations(first, SECOND)
    assert composed.aligned_by == "attention"
    np.testing.assert_allclose(composed.matrices["attention"], written_out(), atol=6e-5)


def test_a_term_of_the_source_is_found_in_the_target():
    first = FIRST.model_copy(update={"terms": [TermLocation(source=(4, 13), target=(4, 12))]})
    second = SECOND.model_copy(
        update={"terms": [TermLocation(source=(0, 3), target=(0, 2)), TermLocation(source=(4, 12), target=(3, 7))]}
    )
    composed = compose_explanations(first, second)
    assert composed.terms == [TermLocation(source=(4, 13), target=(3, 7))]
    assert [i for i, j in composed.alignment if j == 1] == [1]
    assert composed.confidence[1] is None
    assert compose_explanations(FIRST, SECOND).terms is None
