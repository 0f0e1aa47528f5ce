"""XML: whole documents and fragments, elements beside text are inline, and nothing else is read."""

import pytest

from interlinear.documents import parse_xml
from interlinear.errors import DataError
from tests.interlinear.documents.translations import backwards, rendered, same


@pytest.mark.parametrize(
    ("xml", "expected"),
    [
        ("Ein <b>Hund</b> läuft", ["Ein Hund läuft"]),
        ("<a><b>Eins</b><b>zwei</b></a>", ["Eins", "zwei"]),
        ("<a>Ein <b>Hund</b> läuft</a><c>da</c>", ["Ein Hund läuft", "da"]),
        ("<a>Ein <g><i>Hund</i></g></a>", ["Ein Hund"]),
        ("<a translate='no'>Eins <b translate='yes'>zwei</b></a>", ["zwei"]),
        ("Ein <c its:translate='no'>Hund</c> läuft", ["Ein läuft"]),
        ("<![CDATA[Ein <Hund>]]> &amp; &#228;", ["Ein <Hund> & ä"]),
        ("<?pi da?><!-- nein --><a x='nein'>1</a>", []),
    ],
)
def test_what_is_translated(xml, expected):
    assert [segment.text for segment in parse_xml(xml).segments] == expected


@pytest.mark.parametrize(
    "xml",
    [
        '<?xml version="1.0" encoding="ISO-8859-1"?>\n<!-- da -->\n<r xmlns:a="b">\n <a:p  q="1" >Hund</a:p >\n</r>\n',
        "Ein <x id='1'/> Hund <g id=\"2\"><ph/>läuft</g>.",
        "<r>\n  <k>12</k>\n  <e></e><e/>\n</r>",
        "<r><![CDATA[12 < 13]]><!-- <b> --><?p x?></r>",
    ],
)
def test_a_document_whose_words_stay_is_written_as_it_was(xml):
    assert rendered(parse_xml(xml), same) == xml


def test_tags_follow_their_words():
    assert rendered(parse_xml("<s>eins <x id='1'/> <g>zwei &lt;</g></s>"), backwards) == (
        "<s><g>&lt; zwei</g> eins <x id='1'/></s>"
    )


@pytest.mark.parametrize(
    ("xml", "problem"),
    [
        ("<a>Hund", "an element is not closed"),
        ("<a>\nHund</b>", "line 2, column 7: mismatched tag"),
        ("<?xml version='1.0'?><a></a><b/>", "line 1, column 29: junk after document element"),
        ("Hund & Katze", "line 1, column 7"),
        ("Hund&nbsp;", "line 1, column 5: undefined entity"),
        ("Hund\0", "line 1, column 5"),
        ("<!DOCTYPE a [<!ENTITY x SYSTEM 'file:///etc/passwd'>]><a>&x;</a>", "document type declaration"),
        ("<?xml version='1.0'?><!DOCTYPE a SYSTEM 'http://127.0.0.1/a.dtd'><a/>", "document type declaration"),
    ],
)
def test_what_is_not_well_formed_or_declares_entities_is_refused(xml, problem):
    with pytest.raises(DataError) as error:
        parse_xml(xml, "q")
    assert error.value.where == "q" and problem in error.value.problem


def test_ten_thousand_nested_elements():
    xml = "<a>" * 10_000 + "Ein Hund" + "</a>" * 10_000
    assert rendered(parse_xml(xml), backwards) == xml.replace("Ein Hund", "Hund Ein")
    inline = "Ein " + "<a>" * 10_000 + "Hund" + "</a>" * 10_000
    assert rendered(parse_xml(inline), backwards) == "<a>" * 10_000 + "Hund" + "</a>" * 10_000 + " Ein"
