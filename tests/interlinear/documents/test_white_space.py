"""White space that is displayed stays as wide as it was, in every format that displays it."""

import pytest

from tests.interlinear.documents.formats import document
from tests.interlinear.documents.packages import odt, parts_of, xlsx
from tests.interlinear.documents.translations import backwards, in_capitals, same
from tests.interlinear.documents.translations_of_files import texts, translated

SUFFIXES = (".docx", ".pptx", ".xlsx", ".csv", ".json", ".po", ".xlf", ".txt", ".properties")


@pytest.mark.parametrize("suffix", SUFFIXES)
@pytest.mark.parametrize(
    ("text", "read"),
    [
        ("Der  Hund da", ["Der Hund da"]),
        ("Der Hund.  Die  Katze", ["Der Hund.\nDie Katze"]),
        ("Name:     Hund", ["Name:\nHund"]),
    ],
)
def test_spaces_stay(suffix, text, read):
    data = document(suffix, text)
    assert "\n".join(texts(data, f"a{suffix}")) == "\n".join(read)
    written = translated(data, f"a{suffix}", in_capitals)
    assert document(suffix, text.upper()) == written or text.upper() in str(shown(written))


def shown(data):
    return parts_of(data) if data[:2] == b"PK" else data.decode()


@pytest.mark.parametrize("text", ["Der  Hund da", "Der \tHund  da\nKatze", "  Der Hund ", "a\t\tb  c"])
def test_cells_keep_their_white_space(text):
    data = xlsx(f'<si><t xml:space="preserve">{text}</t></si>')
    assert translated(data, "a.xlsx", same) == data
    assert text.upper() in shown(translated(data, "a.xlsx", in_capitals))["xl/sharedStrings.xml"]


def test_the_second_space_is_not_written_where_there_is_none():
    assert translated("Der Hund  schläft.", "a.txt", backwards) == ". schläft Hund  Der".encode()
    assert translated("schläft  Hund Der", "a.txt", backwards).decode() == "Der Hund schläft"


def test_spaces_of_opendocument():
    data = odt("<text:p>Der <text:s/>Hund da</text:p>")
    assert texts(data, "a.odt") == ["Der Hund da"]
    assert shown(translated(data, "a.odt", same)) == shown(data)
    assert "DER <text:s/>HUND DA" in shown(translated(data, "a.odt", in_capitals))["content.xml"]


def test_a_cell_is_a_message():
    def cell(text):
        return xlsx(f"<si><t>{text}</t></si>")

    icu = "{n, plural, one {Ein &lt;b&gt;Hund&lt;/b&gt;} other {# Hunde}}"
    assert texts(cell(icu), "a.xlsx") == ["Ein Hund", "Hunde"]
    for text in (icu, "Hund&amp;nbsp;da", "Sch&amp;auml;fer &amp; Co", "Der {name} da_x000D_\nHund"):
        assert translated(cell(text), "a.xlsx", same) == cell(text)
    assert texts(cell("Sch&amp;auml;fer&amp;nbsp;da"), "a.xlsx") == ["Schäfer\xa0da"]
