"""OpenDocument: paragraphs are texts, spans go with their words; comments and deleted text stay."""

import pytest

from tests.interlinear.documents.packages import odt, parts_of
from tests.interlinear.documents.translations import backwards
from tests.interlinear.documents.translations_of_files import texts, translated


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("<text:h>Ein Hund</text:h>", "<text:h>Hund Ein</text:h>"),
        ("<text:p>eins <text:span>zwei</text:span></text:p>", "<text:p><text:span>zwei</text:span> eins</text:p>"),
        ("<text:p>eins<text:s/>zwei<text:tab/>drei</text:p>", "<text:p>zwei eins<text:tab/>drei</text:p>"),
        ('<text:p><text:s text:c="4"/>eins zwei</text:p>', '<text:p><text:s text:c="4"/>zwei eins</text:p>'),
        ("<text:p><text:s/>eins<text:s/>zwei</text:p>", "<text:p><text:s/>zwei eins</text:p>"),
        (
            '<text:p>eins zwei<text:s text:c="5"/>drei vier</text:p>',
            '<text:p>zwei eins<text:s text:c="5"/>vier drei</text:p>',
        ),
        (
            '<text:p>eins zwei <text:s text:c="2"/>drei vier</text:p>',
            '<text:p>zwei eins <text:s text:c="2"/>vier drei</text:p>',
        ),
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


MARKS = '<text:bookmark-start text:name="b"/>{}<text:bookmark-end text:name="b"/>'


@pytest.mark.parametrize(
    "nested",
    [
        "<text:note><text:note-body>{}</text:note-body></text:note>",
        "<text:span><draw:frame><draw:text-box>{}</draw:text-box></draw:frame></text:span>",
        "<office:annotation>{}</office:annotation>",
    ],
)
def test_bookmarks_in_notes_and_frames_are_written_once(nested):
    paragraph = f"<text:p>{MARKS.format('Satz')}</text:p>"
    data = odt(f"<text:p>ein{nested.format(paragraph)}</text:p>")
    content = parts_of(translated(data, "a.odt", backwards))["content.xml"]
    assert content == parts_of(data)["content.xml"]


def test_bookmarks_in_spans_move_to_the_edges_of_the_paragraph():
    body = f"<text:p>eins <text:span>{MARKS.format('zwei')}</text:span></text:p>"
    content = parts_of(translated(odt(body), "a.odt", backwards))["content.xml"]
    assert f"<text:p>{MARKS.format('<text:span>zwei</text:span> eins')}</text:p>" in content


def test_the_type_stays_the_first_part():
    """Programs know an OpenDocument file by it."""
    written = translated(odt("<text:p>ein Satz</text:p>"), "a.odt", backwards)
    assert next(iter(parts_of(written))) == "mimetype"


CELL = "<table:table-cell{}><text:p>{}</text:p></table:table-cell>"


@pytest.mark.parametrize(
    ("attributes", "is_text"),
    [
        ("", True),
        (' office:value-type="string"', True),
        (' office:value-type="date" office:date-value="2026-05-01"', False),
        (' office:value-type="float" office:value="1"', False),
        (' office:value-type="string" table:formula="of:=[.A1]"', False),
    ],
)
def test_cells_of_spreadsheets_are_texts_unless_they_are_numbers_or_computed(attributes, is_text):
    sheet = '<table:table table:name="mein Blatt">{}</table:table>'
    body = sheet.format(CELL.format("", "ein Satz") + CELL.format(attributes, "erster Mai"))
    content = parts_of(translated(odt(body, kind="spreadsheet"), "a.ods", backwards))["content.xml"]
    expected = "Mai erster" if is_text else "erster Mai"
    assert sheet.format(CELL.format("", "Satz ein") + CELL.format(attributes, expected)) in content
    assert texts(odt(body), "a.odt") == ["ein Satz", "erster Mai"], "in a text, all cells are texts"


def test_a_copy_of_the_text_of_a_cell_is_not_left_behind():
    body = CELL.format(' office:value-type="string" office:string-value="ein Satz"', "ein Satz")
    content = parts_of(translated(odt(body, kind="spreadsheet"), "a.ods", backwards))["content.xml"]
    assert CELL.format(' office:value-type="string"', "Satz ein") in content
