"""LibreOffice opens what was translated: it is converted to text and PDF, and has the translated words."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.documents.packages import docx, odt, run
from tests.documents.translations import backwards
from tests.documents.translations_of_files import translated

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

pytestmark = [pytest.mark.slow, pytest.mark.skipif(SOFFICE is None, reason="LibreOffice is not installed")]


def convert(path: Path, kind: str) -> None:
    """Convert a file with LibreOffice, into the folder in which it is. Says nothing if it cannot be opened."""
    profile = f"-env:UserInstallation={path.parent.as_uri()}/profile"
    command = [str(SOFFICE), profile, "--headless", "--convert-to", kind, "--outdir", str(path.parent), str(path)]
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


def test_a_damaged_document_is_not(tmp_path):
    """The conversion above would give nothing if the file were damaged."""
    path = tmp_path / "a.odt"
    path.write_bytes(FILES["a.odt"][:-200])
    convert(path, "pdf")
    assert not (tmp_path / "a.pdf").exists()
