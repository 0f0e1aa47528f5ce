"""Plain text and HTML files: only text changes, in the encoding that the file has."""

import pytest

from interlinear.documents import AlignedText
from tests.interlinear.documents.translations import backwards, same
from tests.interlinear.documents.translations_of_files import texts, translated


def test_lines_and_columns_are_translated_by_themselves():
    text = "Ein Hund läuft\r\n\r\n  12 %\nName da:\tWert hier   zwei Hunde  \n"
    assert texts(text, "a.txt") == ["Ein Hund läuft", "Name da:", "Wert hier", "zwei Hunde"]
    assert translated(text, "a.txt", same).decode() == text
    assert translated("\tEin Hund\r\n", "a.txt", backwards).decode() == "\tHund Ein\r\n"


def test_addresses_and_placeholders_stay():
    text = "Siehe https://x.de/a?b=1 oder a.b@x.de, {name}, %(x)s, ${y} und {{ z }} da"
    written = translated(text, "a.txt", backwards).decode()
    assert texts(text, "a.txt") == ["Siehe oder und da"]
    for kept in ("https://x.de/a?b=1", "a.b@x.de", "{name}", "%(x)s", "${y}", "{{ z }}"):
        assert written.count(kept) == 1


def test_a_byte_order_mark_and_utf_16_are_kept():
    for encoded in ("\ufeffEin Hund\n".encode(), "\ufeffEin Hund\n".encode("utf-16-le")):
        assert translated(encoded, "a.txt", same) == encoded


@pytest.mark.parametrize(
    ("name", "document"),
    [
        ("a.txt", "da\n"),
        ("a.md", "da\n"),
        ("a.srt", "1\n00:00:01,000 --> 00:00:02,000\nda\n"),
        ("a.json", '{"a": "da"}'),
    ],
)
def test_texts_have_no_references_to_characters(name, document):
    for encoding in ("utf-8", "utf-8-sig", "utf-16"):
        written = translated(document.encode(encoding), name, lambda text: AlignedText("☃ œ 🐕"))
        assert written == document.replace("da", "☃ œ 🐕").encode(encoding)


def test_html_is_in_the_encoding_that_it_declares():
    html = '<!doctype html><meta charset="iso-8859-1"><p>Größe <b>da</b></p>'
    assert translated(html.encode("latin-1"), "a.HTML", backwards) == html.replace(
        "Größe <b>da</b>", "<b>da</b> Größe"
    ).encode("latin-1")
    assert b"&#9731;" in translated("<meta charset=ascii>\n<p>da</p>", "a.htm", lambda text: AlignedText("\u2603"))
