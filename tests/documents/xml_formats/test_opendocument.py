"""OpenDocument: paragraphs are texts, spans go with their words; comments and deleted text stay."""

import pytest

from tests.documents.packages import odt, parts_of
from tests.documents.translations import backwards
from tests.documents.translations_of_files import texts, translated


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("<text:h>Ein Hund</text:h>", "<text:h>Hund Ein</text:h>"),
        ("<text:p>eins <text:span>zwei</text:span></text:p>", "<text:p><text:span>zwei</text:span> eins</text:p>"),
        ("<text:p>eins<text:s/>zwei<text:tab/>drei</text:p>", "<text:p>zwei eins<text:tab/>drei</text:p>"),
        (
            '<text:p>a <text:bookmark-start text:name="b"/>b<text:bookmark-end text:name="b"/> c</text:p>',
            '<text:p><text:bookmark-start text:name="b"/>c b a<text:bookmark-end text:name="b"/></text:p>',
        ),
        (
            "<text:p><office:annotation><text:p>nein da</text:p></office:annotation>ein Satz</text:p>",
            "<text:p><office:annotation><text:p>nein da</text:p></office:annotation>Satz ein</text:p>",
        ),
        (
            "<text:tracked-changes><text:p>weg damit</text:p></text:tracked-changes><text:p>ein Satz</text:p>",
            "<text:tracked-changes><text:p>weg damit</text:p></text:tracked-changes><text:p>Satz ein</text:p>",
        ),
    ],
)
def test_paragraphs(body, expected):
    assert (
        f"<office:text>{expected}</office:text>" in parts_of(translated(odt(body), "a.odt", backwards))["content.xml"]
    )


def test_notes_and_frames_are_translated_by_themselves():
    body = "<text:note-body><text:p>eine Note</text:p></text:note-body>"
    note = f"<text:note><text:note-citation>x</text:note-citation>{body}</text:note>"
    frame = "<draw:frame><draw:text-box><text:p>ein Rahmen</text:p></draw:text-box></draw:frame>"
    data = odt(f"<text:p>ein{note} Satz {frame}</text:p>")
    assert texts(data, "a.odt") == ["eine Note", "ein Rahmen", "ein Satz"]


def test_the_type_stays_the_first_part():
    """Programs know an OpenDocument file by it."""
    written = translated(odt("<text:p>ein Satz</text:p>"), "a.odt", backwards)
    assert next(iter(parts_of(written))) == "mimetype"
