"""Files that other programs wrote (tests/data/documents/programs): what is not translated stays byte for byte, and
every text is translated."""

import io
import zipfile
from itertools import groupby

import docx
import pptx
import pytest

from tests.interlinear.documents.contents import content
from tests.interlinear.documents.programs import NAMES, file_of_program, python_docx, python_pptx
from tests.interlinear.documents.translations import in_capitals, same
from tests.interlinear.documents.translations_of_files import texts, translated

# Sentences of all files of a kind. Those of pandoc and LibreOffice's texts are of one page, the tables of one workbook.
PAGE = ("Der Hund im Garten", "Der zweite Punkt", "Ein Unterpunkt", "Zahl der Beine", "Ein Zitat über Tiere.")
TABLE = ("Name des Tieres", "Der Hund schläft.")


def parts(data: bytes) -> dict[str, bytes]:
    if not zipfile.is_zipfile(io.BytesIO(data)):
        return {"": data}
    with zipfile.ZipFile(io.BytesIO(data)) as file:
        return {name: file.read(name) for name in file.namelist()}


def markup(data: bytes, name: str) -> list[str]:
    """The tags of a file, and the formatting of its letters; what is the same for several of them once."""
    found = (part for part in content(data, name)[0] if part.startswith("\0"))
    return [part for part, _ in groupby(found)]


@pytest.mark.parametrize("name", NAMES)
def test_a_file_of_another_program_is_translated(name):
    data = file_of_program(name)
    assert parts(translated(data, name, same)) == parts(data)
    in_capital_letters = translated(data, name, in_capitals)
    assert markup(in_capital_letters, name) == markup(data, name)
    expected = TABLE if name.endswith(("xlsx", "ods")) else PAGE[:2] if "python" in name else PAGE
    written = texts(in_capital_letters, name)
    assert {text.upper() for text in expected} <= {line for text in written for line in text.split("\n")}
    assert [text for text in written if text != text.upper()] == []


def test_what_python_docx_and_python_pptx_wrote_they_read_again():
    document = docx.Document(io.BytesIO(translated(python_docx(), "a.docx", in_capitals)))
    assert [paragraph.text for paragraph in document.paragraphs] == [
        "DER HUND IM GARTEN", "DER KLEINE HUND\nSCHLÄFT\tIM GARTEN.", "DER ZWEITE PUNKT",
    ]  # fmt: skip
    assert [run.text for run in document.paragraphs[1].runs if run.bold] == ["KLEINE"]
    assert document.tables[0].cell(0, 0).text == "ZAHL DER BEINE"
    assert document.sections[0].header.paragraphs[0].text == "KOPF DER SEITE"
    slide = pptx.Presentation(io.BytesIO(translated(python_pptx(), "a.pptx", in_capitals))).slides[0]
    assert slide.shapes.title.text == "DER HUND IM GARTEN"
    assert slide.placeholders[1].text_frame.text == "DER ZWEITE PUNKT\vNOCH EINE ZEILE\nZAHL DER BEINE"
    assert slide.notes_slide.notes_text_frame.text == "EINE NOTIZ"
