"""What the service and its document processes tell each other: what is read is what was written."""

from hypothesis import given
from hypothesis import strategies as st

from interlinear.documents import AlignedText
from interlinear.documents.formats import ReadOptions
from interlinear.generation.terms import GlossaryEntry, Term, TermOptions
from interlinear.translation.sentences import Sentence
from service.files.worker_protocol import (
    DocumentRequest,
    read_aligned,
    read_request,
    read_split,
    write_aligned,
    write_request,
    write_split,
)

TEXT, NUMBER = st.text(), st.integers(0, 10**6)
PAIRS = st.lists(st.tuples(NUMBER, NUMBER))
TERMS = st.builds(Term, NUMBER, NUMBER, TEXT, st.booleans())
OPTIONS = st.builds(
    TermOptions,
    st.lists(st.builds(GlossaryEntry, TEXT, TEXT)).map(tuple),
    st.lists(TEXT).map(tuple),
    st.booleans(),
)
REQUESTS = st.builds(
    DocumentRequest,
    st.sampled_from(["beginning", "sentences", "written"]),
    TEXT,
    NUMBER,
    NUMBER,
    TEXT,
    TEXT,
    st.none() | OPTIONS,
    st.builds(ReadOptions, st.lists(TEXT).map(tuple), st.none() | TEXT),
)


SENTENCES = st.builds(Sentence, TEXT, st.lists(TERMS).map(tuple), st.booleans(), NUMBER)


@given(REQUESTS)
def test_requests_are_read_as_they_were_written(request):
    line = write_request(request)
    assert b"\n" not in line and read_request(line) == request


@given(st.lists(TEXT), st.lists(SENTENCES))
def test_sentences_are_read_as_they_were_written(warnings, sentences):
    assert read_split(write_split(warnings, sentences)) == (warnings, sentences)


@given(st.builds(AlignedText, TEXT, PAIRS, PAIRS, PAIRS))
def test_translations_are_read_as_they_were_written(aligned):
    """With their types too: pairs are sorted beside others."""
    line = write_aligned(aligned)
    assert b"\n" not in line and read_aligned(line) == aligned
    assert all(type(pair) is tuple for pair in read_aligned(line).links)
