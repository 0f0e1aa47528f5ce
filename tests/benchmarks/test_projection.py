"""The measure of tag projection: how segments are read, and what counts as exact."""

import pytest

from benchmarks.projection import Score, by_min_max, by_project, measure, nested, parse
from seq2seq.alignment import TagSpan
from seq2seq.errors import DataError


def test_a_segment_is_read_as_text_and_spans():
    side = parse("Use <b>Save &amp; <i>Go</i></b>, <ph>now</ph>", "x", parts=False)
    assert side.text == "Use Save & Go, now"
    assert side.names == ("b", "i", "ph")
    assert side.spans == (TagSpan(1, 4), TagSpan(3, 4, 0), TagSpan(5, 6))
    assert side.tokens == "Use Save & Go , now"


def test_adjacent_tags_separate_words():
    line = "<menucascade><ui>Settings</ui><ui>Test It</ui></menucascade> now"
    side = parse(line, "x", parts=False)
    assert side.tokens == "Settings Test It now"
    assert side.spans == (TagSpan(0, 3), TagSpan(0, 1, 0), TagSpan(1, 3, 0))


def test_tags_inside_a_word_take_the_word_or_its_part():
    line = "die <ph>Salesforce</ph>-API"
    words, parts = parse(line, "x", parts=False), parse(line, "x", parts=True)
    assert (words.tokens, words.spans, words.cut) == ("die Salesforce-API", (TagSpan(1, 2),), 1)
    assert (parts.tokens, parts.spans, parts.cut) == ("die Salesforce - API", (TagSpan(1, 2),), 0)


@pytest.mark.parametrize("line", ["a <b>c", "a</b>", "<b><i>a</b></i>"])
def test_tags_that_are_not_nested_are_refused(line):
    with pytest.raises(DataError, match=r"line 7: .*nested"):
        parse(line, "line 7", parts=False)


def test_exact_tags_and_structure_are_counted():
    pairs = [
        (parse(source, "s", parts=False), parse(target, "t", parts=False))
        for source, target in [
            ("<b>a</b> <i>b</i> c", "<i>B</i> <b>A</b> C"),
            ("<b>a b</b> c <i>d</i>", "<b>A B</b> <i>C D</i>"),
            ("<b>a</b>", "A"),
            ("a", "A"),
        ]
    ]
    links = [[(0, 1), (1, 0), (2, 2)], [(0, 0), (1, 3), (2, 2), (3, 3)], [(0, 0)], [(0, 0)]]
    score, apart, cut = measure(pairs, [by_project(each) for each in links])
    assert (score, apart, cut) == (Score(tags=4, exact=2, segments=2, structure=2, as_reference=2), 1, 0)
    score, _, _ = measure(pairs, [by_min_max(each) for each in links])
    assert score == Score(tags=4, exact=2, segments=2, structure=1, as_reference=1)


def test_overlapping_siblings_are_no_structure():
    assert nested([TagSpan(0, 2), TagSpan(2, 3)])
    assert not nested([TagSpan(0, 3), TagSpan(2, 4)])
