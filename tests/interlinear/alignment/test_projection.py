"""Projection of tags: the same tree of tags for any links, and worked examples of where they stand."""

from dataclasses import replace
from itertools import combinations

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from interlinear.alignment.links import Link
from interlinear.alignment.projection import TagEdge, TagSpan, project, tag_edges
from interlinear.errors import UsageError

DIAGONAL = [(i, i) for i in range(6)]


@st.composite
def trees(draw: st.DrawFn, source: int) -> list[TagSpan]:
    """Nested spans over a sentence, some empty, in document order."""
    spans: list[TagSpan] = []

    def grow(parent: int | None, start: int, end: int, depth: int) -> None:
        position = start
        for _ in range(draw(st.integers(0, 3 - depth))):
            begin = draw(st.integers(position, end))
            stop = draw(st.integers(begin, end))
            spans.append(TagSpan(begin, stop, parent, draw(st.sampled_from(["previous", "next"]))))
            grow(len(spans) - 1, begin, stop, depth + 1)
            position = stop

    grow(None, 0, source, 0)
    return spans


@st.composite
def problems(draw: st.DrawFn) -> tuple[list[TagSpan], list[Link], int, int, list[float] | None]:
    source, target = draw(st.integers(0, 7)), draw(st.integers(0, 9))
    words = st.tuples(st.integers(0, max(source - 1, 0)), st.integers(0, max(target - 1, 0)))
    links = draw(st.lists(words, max_size=14)) if source and target else []
    weights = draw(st.none() | st.lists(st.floats(0, 9), min_size=len(links), max_size=len(links)))
    return draw(trees(source)), links, source, target, weights


def parents_by_reading(edges: list[TagEdge]) -> dict[int, int | None]:
    """The tag that is open when a tag opens, as a parser of the written markup finds it."""
    parents: dict[int, int | None] = {}
    stack: list[int] = []
    for edge in edges:
        if edge.opens:
            parents[edge.tag] = stack[-1] if stack else None
            stack.append(edge.tag)
        else:
            assert stack.pop() == edge.tag
    assert not stack
    return parents


@settings(max_examples=150)
@given(problems())
def test_the_tree_of_tags_is_the_sources_for_any_links(problem):
    spans, links, source, target, weights = problem
    found = project(spans, links, source, target, weights)
    assert found == project(spans, links, source, target, weights)
    assert [(tag.parent, tag.attached) for tag in found] == [(tag.parent, tag.attached) for tag in spans]

    edges = tag_edges(found)
    assert [edge.position for edge in edges] == sorted(edge.position for edge in edges)
    assert all(0 <= edge.position <= target for edge in edges)
    assert parents_by_reading(edges) == {n: tag.parent for n, tag in enumerate(spans)}
    for one, span in zip(found, spans, strict=True):
        assert span.start < span.end or one.start == one.end
        if (span.start, span.end) == (0, source) and source:
            assert (one.start, one.end) == (0, target)
        if span.parent is not None and span.start < span.end:
            parent = spans[span.parent]
            if (parent.start, parent.end) == (span.start, span.end):
                assert (one.start, one.end) == (found[span.parent].start, found[span.parent].end)
    if target >= len(spans):
        assert all(one.start < one.end for one, span in zip(found, spans, strict=True) if span.start < span.end)


@settings(max_examples=100)
@given(st.permutations(range(6)), trees(6))
def test_words_that_stay_together_keep_their_tags(order, spans):
    """Links one to one: a tag whose words are adjacent in the target encloses exactly them."""
    found = project(spans, list(enumerate(order)), 6, 6)
    images = [sorted(order[span.start : span.end]) for span in spans]
    contiguous = [not image or image[-1] - image[0] == len(image) - 1 for image in images]
    assume(all(contiguous))
    for one, span, image in zip(found, spans, images, strict=True):
        if span.start < span.end:
            assert (one.start, one.end) == (image[0], image[-1] + 1)


@settings(max_examples=100)
@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5)), max_size=12), st.integers(0, 4), st.integers(1, 5))
def test_no_other_span_has_fewer_crossing_links(links, start, size):
    """The objective by its definition, over all spans: unaligned words weigh less than one link."""
    end = min(start + size, 6)
    (found,) = project([TagSpan(start, end)], links, 6, 6)
    if (start, end) == (0, 6):
        return

    def crossing(begin: int, stop: int) -> int:
        return sum((start <= i < end) != (begin <= j < stop) for i, j in links)

    most = max((links.count(link) for link in links), default=1)
    slack = 2 * 6 * 0.2 * most  # interpolated links and neighbours' votes, in links; the largest weight is 1
    assert crossing(found.start, found.end) <= min(crossing(*each) for each in combinations(range(7), 2)) + slack


def one(span: TagSpan, links: list[Link], source: int, target: int) -> tuple[int, int]:
    found = project([span], links, source, target)[0]
    return found.start, found.end


def test_crossing_links_move_a_tag_and_reorder_siblings():
    links = [(0, 2), (1, 3), (2, 0), (3, 1)]
    found = project([TagSpan(0, 2), TagSpan(2, 4), TagSpan(3, 4, 1)], links, 4, 4)
    assert [(tag.start, tag.end) for tag in found] == [(2, 4), (0, 2), (1, 2)]
    assert [(edge.tag, edge.opens) for edge in tag_edges(found)] == [
        (1, True), (2, True), (2, False), (1, False), (0, True), (0, False),
    ]  # fmt: skip


def test_one_word_may_become_several_and_several_one():
    assert one(TagSpan(1, 2), [(0, 0), (1, 1), (1, 2), (1, 3), (2, 4)], 3, 5) == (1, 4)
    assert one(TagSpan(1, 3), [(0, 0), (1, 1), (2, 1), (3, 2)], 4, 3) == (1, 2)


def test_an_outlying_link_does_not_stretch_a_tag():
    links = [*DIAGONAL, (1, 5)]
    assert one(TagSpan(1, 3), links, 6, 6) == (1, 3)


def test_heavier_links_win():
    links = [(0, 0), (1, 1), (1, 4), (2, 2), (3, 3)]
    assert project([TagSpan(1, 2)], links, 4, 5, [1, 0.2, 1, 1, 1])[0] == TagSpan(4, 5)
    assert project([TagSpan(1, 2)], links, 4, 5, [1, 1, 0.2, 1, 1])[0] == TagSpan(1, 2)


def test_a_target_word_without_links_follows_its_neighbours():
    assert one(TagSpan(1, 3), [(0, 0), (1, 1), (2, 3), (3, 4)], 4, 5) == (1, 4)  # between two words of the tag
    assert one(TagSpan(1, 2), [(0, 0), (1, 2), (2, 4)], 3, 5) == (2, 3)  # at the edges, outside
    assert one(TagSpan(0, 2), [(0, 1), (1, 2), (2, 3)], 3, 4) == (0, 3)  # before the first word of a tag that begins


def test_unaligned_words_of_a_tag_go_between_their_neighbours():
    assert one(TagSpan(2, 3), [(0, 0), (1, 1), (3, 3), (4, 4)], 5, 5) == (2, 3)
    assert one(TagSpan(2, 3), [], 6, 6) == (2, 3)  # no links at all: the same place


def test_a_tag_around_the_sentence_stays_around_it_with_its_punctuation():
    assert one(TagSpan(0, 3), [(0, 1)], 3, 6) == (0, 6)
    assert one(TagSpan(0, 2), [(0, 0), (1, 1), (2, 2)], 3, 3) == (0, 2)  # the full stop was outside
    assert project([TagSpan(0, 2)], [(0, 0), (1, 1)], 2, 2, [1e-9, 1]) == [TagSpan(0, 2)]  # a link of hardly any weight


def test_placeholders_stand_beside_their_word():
    links = [(0, 1), (1, 0), (2, 2), (3, 3)]
    after, before = TagSpan(1, 1, None, "previous"), TagSpan(1, 1, None, "next")
    assert one(after, links, 4, 4) == (2, 2)
    assert one(before, links, 4, 4) == (0, 0)
    assert one(TagSpan(0, 0), links, 4, 4) == (0, 0)
    assert one(TagSpan(4, 4, None, "next"), links, 4, 4) == (4, 4)


def test_an_empty_tag_keeps_its_place_in_its_parent_and_beside_a_sibling():
    links = [(0, 2), (1, 3), (2, 0), (3, 1)]
    spans = [TagSpan(0, 2), TagSpan(0, 0, 0), TagSpan(2, 2, 0), TagSpan(2, 2), TagSpan(2, 4)]
    found = project(spans, links, 4, 4)
    assert [(tag.start, tag.end) for tag in found] == [(2, 4), (2, 2), (4, 4), (4, 4), (0, 2)]


def test_an_empty_tag_is_not_put_into_a_tag_that_does_not_enclose_it():
    links = [(0, 0), (1, 2), (2, 3), (3, 1), (4, 4)]  # its word is translated inside the other tag
    found = project([TagSpan(0, 2), TagSpan(4, 4)], links, 5, 5, [1, 1, 1, 0.5, 1])
    assert [(tag.start, tag.end) for tag in found] == [(0, 3), (3, 3)]


def test_tags_without_room_are_kept_empty():
    spans = [TagSpan(0, 1), TagSpan(1, 2), TagSpan(2, 3)]
    found = project(spans, [(1, 0)], 3, 1)
    assert [tag.end - tag.start for tag in found] == [0, 1, 0]
    assert project(spans, [], 3, 0) == [TagSpan(0, 0)] * 3


def test_thousands_of_nested_tags():
    spans = [TagSpan(1, 2)] + [TagSpan(1, 2, n) for n in range(3000)]
    assert {(tag.start, tag.end) for tag in project(spans, DIAGONAL, 6, 6)} == {(1, 2)}


@pytest.mark.parametrize(
    ("spans", "message"),
    [
        ([TagSpan(0, 7)], "tag 0: words 0 to 7 are not in a sentence of 6. Words count from 0."),
        ([TagSpan(3, 2)], "tag 0: words 3 to 2 are not in a sentence of 6. Words count from 0."),
        ([TagSpan(0, 2, 0)], "tag 0: its parent 0 is no earlier tag. List tags as they open."),
        (
            [TagSpan(0, 2), TagSpan(1, 3, 0)],
            "tag 1: it is not inside its parent, tag 0. Close tags before their parent.",
        ),
        (
            [TagSpan(0, 2), TagSpan(1, 3)],
            "tag 1: it begins before the tag beside it ends. List tags as they open, without overlap.",
        ),
    ],
)
def test_spans_that_are_no_markup_are_refused(spans, message):
    with pytest.raises(UsageError) as refused:
        project(spans, DIAGONAL, 6, 6)
    assert str(refused.value) == message


@pytest.mark.parametrize("weights", [[1.0], [1.0] * 5 + [-1.0], [1.0] * 5 + [float("nan")]])
def test_weights_that_do_not_fit_are_refused(weights):
    with pytest.raises(UsageError, match="weights: "):
        project([TagSpan(0, 1)], DIAGONAL, 6, 6, weights)


@pytest.mark.parametrize("link", [(6, 0), (0, 6), (-1, 0)])
def test_links_outside_the_sentences_are_refused(link):
    with pytest.raises(UsageError, match="points outside the pair, which has 6 and 6 words"):
        project([TagSpan(0, 1)], [link], 6, 6)


def test_edges_at_one_position_keep_the_order_of_the_tags():
    spans = [TagSpan(0, 2), TagSpan(2, 2), TagSpan(2, 2), TagSpan(2, 3)]
    assert [edge.tag for edge in tag_edges(spans) if edge.opens] == [0, 1, 2, 3]
    assert [edge.tag for edge in tag_edges([*spans[:3], replace(spans[3], parent=2, end=2)])] == [
        0,
        0,
        1,
        1,
        2,
        3,
        3,
        2,
    ]
