"""Random documents, and translations that move their words: the tags stay the same, and balanced. Random files of every
format, and their translation in capitals: what a standard parser reads in it is what should come out."""

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from interlinear.documents import AlignedText, parse_html, parse_xml
from interlinear.documents.inline import InlineTag
from interlinear.documents.placement import place_tags
from research.quality.markup import TagReader, expected_tags, fragments, moved
from tests.interlinear.documents.contents import content
from tests.interlinear.documents.random_documents import documents
from tests.interlinear.documents.random_files import WRITERS
from tests.interlinear.documents.translations import in_capitals, rendered, same
from tests.interlinear.documents.translations_of_files import translated
from tests.parameters import slow_but

ORDERS = {
    "as they are": lambda words: words,
    "backwards": lambda words: words[::-1],
    "at random": lambda words: random.Random(len(words)).sample(words, len(words)),
}


@pytest.mark.parametrize("order", slow_but(["at random"], list(ORDERS)))
def test_random_html_keeps_its_tags(order):
    for html in fragments(700, seed=len(order)):
        document = parse_html(html)
        written = document.render([moved(segment.text, ORDERS[order]) for segment in document.segments])
        read = TagReader(written, is_xml=False)
        assert read.balanced, (html, written)
        assert read.tags == expected_tags(html, is_xml=False), (html, written)


@given(st.text(alphabet="<>/!-?&;=' \"ab\n\0pditrsl", max_size=60), st.text(alphabet="xy .\n", max_size=20))
@settings(max_examples=300, deadline=None)
def test_any_text_is_html_and_any_translation_can_be_written(html, translation):
    document = parse_html(html)
    written = document.render([AlignedText(translation) for _ in document.segments])
    assert TagReader(written, is_xml=False).tags == expected_tags(html, is_xml=False)


@st.composite
def tagged_texts(draw):
    """A text, nested tags over any of its characters, and any translation with any links."""
    text, translation = draw(st.text("ab ,\n", max_size=20)), draw(st.text("xy ,\n", max_size=20))
    tags: list[InlineTag] = []

    def add(start: int, end: int, parent: int | None, depth: int) -> None:
        position = start
        while depth and draw(st.booleans()):
            first = draw(st.integers(position, end))
            last = draw(st.integers(first, end))
            tags.append(InlineTag(first, last, (f"<{len(tags)}>",), f"</{len(tags)}>", parent))
            add(first, last, len(tags) - 1, depth - 1)
            position = last

    add(0, len(text), None, 3)
    aligned = moved(text, lambda words: words)
    target = moved(translation, lambda words: words)
    links = []
    if aligned.source_words and target.source_words:
        link = st.tuples(st.integers(0, len(aligned.source_words) - 1), st.integers(0, len(target.source_words) - 1))
        links = draw(st.lists(link, max_size=8))
    return text, tags, AlignedText(translation, aligned.source_words, target.source_words, links)


@given(tagged_texts())
@settings(max_examples=300, deadline=None)
def test_tags_over_any_text_are_placed_once_and_nested(example):
    text, tags, translation = example
    pieces = place_tags(text, tags, translation)
    open_tags: list[InlineTag] = []
    opened: list[InlineTag] = []
    for piece in pieces:
        if isinstance(piece, str):
            continue
        tag, opens = piece
        if opens:
            parent = tags[tag.parent] if tag.parent is not None else None
            assert (open_tags[-1] if open_tags else None) is parent
            open_tags.append(tag)
            opened.append(tag)
        else:
            assert open_tags.pop() is tag
    assert not open_tags
    assert sorted(map(id, opened)) == sorted(map(id, tags))
    written = "".join(piece for piece in pieces if isinstance(piece, str))
    assert "".join(written.split()) == "".join(translation.text.split())


def translate(data, suffix, how):
    if suffix == "format=xml":
        return rendered(parse_xml(data.decode()), how).encode()
    return translated(data, f"a{suffix.partition(' ')[0]}", how)


@pytest.mark.slow
@pytest.mark.parametrize("suffix", WRITERS)
@given(documents)
@settings(max_examples=500)
def test_a_random_file_in_capitals_is_that_file_with_its_words_in_capitals(suffix, blocks):
    name = "a.xml" if suffix == "format=xml" else f"a{suffix.partition(' ')[0]}"
    source = WRITERS[suffix](blocks, str)
    parts, words = content(WRITERS[suffix](blocks, str.upper), name)
    assert content(translate(source, suffix, in_capitals), name) == (parts, words)
    unchanged, expected = translate(source, suffix, same), WRITERS[suffix](blocks, lambda text: text)
    assert unchanged == expected.replace(b"&nbsp;", "\u00a0".encode()), "a tree of HTML has characters, no references"
