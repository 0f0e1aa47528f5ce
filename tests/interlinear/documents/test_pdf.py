"""PDF: its text in reading order, as paragraphs, headings, lists and tables of a page of HTML."""

import re

from interlinear.documents.files import parse_file, written_suffix
from tests.interlinear.documents.packages import pdf
from tests.interlinear.documents.translations import same


def html_of(*pages: list[tuple[float, float, float, str]]) -> list[str]:
    """The elements of the HTML that is made of a PDF."""
    file = parse_file(pdf(pages), "a.pdf")
    written = file.render([same(segment.text) for segment in file.segments]).decode()
    return re.findall(r"<(?:h\d|p|li|tr).*", written)


def lines(left: float, top: float, *texts: str, size: float = 10) -> list[tuple[float, float, float, str]]:
    """Lines of one paragraph, one below the other."""
    return [(left, top - 12 * n, size, text) for n, text in enumerate(texts)]


LONG = (
    "Der alte Hund schläft seit heute früh im Garten hinter dem",
    "Haus und wartet auf die Leute, die am Abend von der Ar-",
)


def test_paragraphs_headings_and_lists():
    assert html_of([
        (72, 780, 20, "Der Hund"),
        *lines(72, 740, *LONG, "beit kommen. Dann ist er froh."),
        *lines(72, 690, *LONG, "beit kommen."),
        (72, 640, -10, "Was er mag"),
        (72, 620, 10, "• die Wurst"),
        (72, 608, 10, "• den Ball"),
        (72, 590, 10, "2. das Wasser"),
    ]) == [
        "<h1>Der Hund</h1>",
        f"<p>{LONG[0]} {LONG[1][:-1]}beit kommen. Dann ist er froh.</p>",
        f"<p>{LONG[0]} {LONG[1][:-1]}beit kommen.</p>",
        "<h2>Was er mag</h2>",
        "<li>die Wurst</li>",
        "<li>den Ball</li>",
        '<li value="2">das Wasser</li>',
    ]  # fmt: skip


def test_columns_are_read_one_after_the_other_whatever_the_order_in_the_file():
    left = [f"der alte Hund schläft links {word}" for word in ("eins", "zwei", "drei", "vier", "fünf")]
    right = [f"die junge Frau läuft rechts {word}" for word in ("eins", "zwei", "drei", "vier", "fünf")]
    columns = [*lines(72, 700, *left), *lines(310, 700, *right)]
    by_height = sorted(columns, key=lambda line: -line[1])
    for page in (columns, by_height):
        text = " ".join(re.sub("<[^>]*>", "", element) for element in html_of(page))
        assert text == " ".join([*left, *right])


def test_a_table_keeps_its_rows():
    table = [(72, 700, 10, "Tier"), (250, 700, 10, "Farbe"), (72, 685, 10, "Hund"), (250, 685, 10, "rot")]
    assert html_of(table) == ["<tr><td>Tier</td><td>Farbe</td></tr>", "<tr><td>Hund</td><td>rot</td></tr>"]


def test_headers_are_kept_once_and_page_numbers_not_and_a_paragraph_goes_on_over_the_page():
    pages = [
        [(72, 810, 9, "Die Firma"), *lines(72, 700, LONG[0], *texts), (290, 30, 9, f"Seite {n}")]
        for n, texts in enumerate([[LONG[1]], ["beit kommen, und dann läuft er."], ["Das Ende hier."]], 1)
    ]
    pages[1] = [line for line in pages[1] if line[3] != LONG[0]]
    pages[1] = [(x, y + 12 if size == 10 else y, size, text) for x, y, size, text in pages[1]]
    elements = html_of(*pages)
    assert elements[0] == "<p>Die Firma</p>" and sum("Firma" in element for element in elements) == 1
    assert not any("Seite" in element for element in elements)
    assert f"<p>{LONG[0]} {LONG[1][:-1]}beit kommen, und dann läuft er.</p>" in elements


def test_pages_that_are_pictures_are_named():
    file = parse_file(pdf([[(72, 700, 10, "Ein Hund")], None, []]), "a.pdf")
    assert file.warnings == ("Page 2 is a picture without text.",)
    assert [segment.text for segment in file.segments] == ["Ein Hund"]


def test_the_translation_has_another_suffix():
    assert written_suffix("a.PDF") == ".html" and written_suffix("a.DOCX") == ".DOCX"
