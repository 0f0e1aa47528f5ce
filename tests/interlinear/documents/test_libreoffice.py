"""LibreOffice opens what was translated, without a repair: documents that it wrote itself, and small ones of ours."""

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.interlinear.documents.packages import docx, odt, run
from tests.interlinear.documents.programs import NAMES, file_of_program
from tests.interlinear.documents.translations import backwards, in_capitals
from tests.interlinear.documents.translations_of_files import translated

SOFFICE = shutil.which("soffice")
BOLD = "<w:rPr><w:b/></w:rPr>"
BODY = "<text:note-body><text:p>eine Note</text:p></text:note-body>"
NOTE = f"<text:note text:note-class='footnote'><text:note-citation>1</text:note-citation>{BODY}</text:note>"
FILES = {
    "a.docx": docx(
        f"<w:p>{run('Ein ')}{run('Hund', BOLD)}{run(' da')}<w:r><w:br/></w:r>{run('und hier')}</w:p>"
        f"<w:tbl><w:tr><w:tc><w:p>{run('eine Zelle')}</w:p></w:tc></w:tr></w:tbl><w:p/>"
    ),
    "a.odt": odt(f"<text:h>Ein Hund da</text:h><text:p>und hier</text:p><text:p>eine Zelle{NOTE}</text:p>"),
}
PAGE = (
    "<h1>Ein Hund da</h1><p>und <b>hier</b></p><ul><li>Punkt eins<li>Punkt zwei</ul>"
    "<table><tr><td>eine Zelle<td>12</table><p><a href='http://example.org/'>ein Verweis</a></p>"
)
TABLE = "Ein Hund da,und hier\neine Zelle,12\n1.5,=A3*2\n"
OASIS = "urn:oasis:names:tc:opendocument:xmlns:"
SLIDES = (
    '<?xml version="1.0" encoding="UTF-8"?>\n'
    f'<office:document xmlns:office="{OASIS}office:1.0" xmlns:text="{OASIS}text:1.0" xmlns:draw="{OASIS}drawing:1.0" '
    'xmlns:svg="urn:oasis:names:tc:opendocument:xmlns:svg-compatible:1.0" office:version="1.3" '
    'office:mimetype="application/vnd.oasis.opendocument.presentation"><office:body><office:presentation>'
    '<draw:page><draw:frame svg:width="20cm" svg:height="5cm" svg:x="1cm" svg:y="1cm"><draw:text-box>'
    "<text:p>Ein Hund da</text:p><text:p>und hier</text:p><text:p>eine Zelle</text:p></draw:text-box></draw:frame>"
    "</draw:page></office:presentation></office:body></office:document>"
)
# What LibreOffice makes a document of, and as what it writes the translated one to be read.
WRITTEN_BY_IT = [
    ("page.html", PAGE, "docx:MS Word 2007 XML", "txt:Text (encoded):UTF8"),
    ("page.html", PAGE, "odt:writerweb8_writer", "txt:Text (encoded):UTF8"),
    ("table.csv", TABLE, "xlsx:Calc MS Excel 2007 XML", "csv"),
    ("table.csv", TABLE, "ods:calc8", "csv"),
    ("slides.fodp", SLIDES, "pptx:Impress MS PowerPoint 2007 XML", "fodp"),
    ("slides.fodp", SLIDES, "odp:impress8", "fodp"),
]

pytestmark = [pytest.mark.slow, pytest.mark.skipif(SOFFICE is None, reason="LibreOffice is not installed")]


def convert(path: Path, kind: str, folder: Path | None = None) -> None:
    """Convert a file with LibreOffice, into the folder in which it is, or another. Says nothing if it cannot be
    opened."""
    profile = f"-env:UserInstallation={path.parent.as_uri()}/profile"
    output = folder or path.parent
    command = [str(SOFFICE), profile, "--headless", "--convert-to", kind, "--outdir", str(output), str(path)]
    subprocess.run(command, check=True, timeout=100, env=os.environ | {"HOME": str(path.parent)})


@pytest.mark.parametrize("name", FILES)
def test_a_translated_document_is_opened(tmp_path, name):
    path = tmp_path / name
    path.write_bytes(translated(FILES[name], name, backwards))
    convert(path, "pdf")
    assert (tmp_path / "a.pdf").read_bytes().startswith(b"%PDF")
    convert(path, "txt:Text (encoded):UTF8")
    text = (tmp_path / "a.txt").read_text("utf-8-sig")
    for words in ("da Hund Ein", "hier und", "Zelle eine"):
        assert words in text


@pytest.mark.parametrize(("source", "content", "kind", "text_kind"), WRITTEN_BY_IT)
def test_a_document_that_it_wrote_is_opened_once_it_is_translated(tmp_path, source, content, kind, text_kind):
    (tmp_path / source).write_text(content)
    convert(tmp_path / source, kind)
    path = (tmp_path / source).with_suffix(f".{kind.partition(':')[0]}")
    path.write_bytes(translated(path.read_bytes(), path.name, backwards))
    convert(path, "pdf")
    assert path.with_suffix(".pdf").read_bytes().startswith(b"%PDF")
    (tmp_path / "text").mkdir()
    convert(path, text_kind, tmp_path / "text")
    (written,) = (tmp_path / "text").iterdir()
    text = written.read_text("utf-8-sig")
    for words in ("da Hund Ein", "hier und", "Zelle eine"):
        assert words in text
    if source == "table.csv":
        assert text.splitlines()[2] == "1.5,3", "a formula is computed as before"


TEXT_KINDS = {  # as what it writes the text of a document
    **dict.fromkeys((".docx", ".odt", ".html"), "txt:Text (encoded):UTF8"),
    **dict.fromkeys((".xlsx", ".ods"), "csv:Text - txt - csv (StarCalc):44,34,76"),  # in UTF-8
    ".pptx": "fodp",
}
UNTRANSLATED = ("code", "&lt;number&gt;")  # code in HTML, and a field


@pytest.mark.parametrize("name", [name for name in NAMES if Path(name).suffix in TEXT_KINDS])
def test_a_document_of_another_program_has_the_text_that_was_translated(tmp_path, name):
    data = file_of_program(name)
    source, target = (
        text_of(tmp_path / kind, name, file)
        for kind, file in {"source": data, "target": translated(data, name, in_capitals)}.items()
    )
    for word in UNTRANSLATED:
        target = target.replace(word, word.upper())
    assert target.split() == source.upper().split()


def text_of(folder, name, data):
    """The text of a document as LibreOffice reads it."""
    (folder / "text").mkdir(parents=True)
    (folder / name).write_bytes(data)
    convert(folder / name, TEXT_KINDS[Path(name).suffix], folder / "text")
    (written,) = (folder / "text").iterdir()
    text = written.read_text("utf-8-sig")
    return (
        "\n".join(re.findall(r"<text:(?:p|span)[^>]*>([^<]+)", text.partition("<office:presentation")[2]))
        if written.suffix == ".fodp"
        else text
    )


def test_a_damaged_document_is_not(tmp_path):
    """The conversion above would give nothing if the file were damaged."""
    path = tmp_path / "a.odt"
    path.write_bytes(FILES["a.odt"][:-200])
    convert(path, "pdf")
    assert not (tmp_path / "a.pdf").exists()
