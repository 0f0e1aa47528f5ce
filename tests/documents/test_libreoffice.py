"""LibreOffice opens what was translated: it is converted to text and PDF, and has the translated words."""

import os
import shutil
import subprocess

import pytest

from tests.documents.packages import docx, odt, run
from tests.documents.translations import backwards
from tests.documents.translations_of_files import translated

SOFFICE = shutil.which("soffice")
BOLD = "<w:rPr><w:b/></w:rPr>"
NOTE = "<text:note text:note-class='footnote'><text:note-citation>1</text:note-citation><text:note-body><text:p>eine Note</text:p></text:note-body></text:note>"
FILES = {
    "a.docx": docx(
        f"<w:p>{run('Ein ')}{run('Hund', BOLD)}{run(' da')}<w:r><w:br/></w:r>{run('und hier')}</w:p>"
        f"<w:tbl><w:tr><w:tc><w:p>{run('eine Zelle')}</w:p></w:tc></w:tr></w:tbl><w:p/>"
    ),
    "a.odt": odt(f"<text:h>Ein Hund da</text:h><text:p>und hier</text:p><text:p>eine Zelle{NOTE}</text:p>"),
}

pytestmark = [pytest.mark.slow, pytest.mark.skipif(SOFFICE is None, reason="LibreOffice is not installed")]


@pytest.mark.parametrize("name", FILES)
def test_a_translated_document_is_opened(tmp_path, name):
    (tmp_path / name).write_bytes(translated(FILES[name], name, backwards))
    for kind in ("pdf", "txt:Text (encoded):UTF8"):
        command = [SOFFICE, f"-env:UserInstallation={tmp_path.as_uri()}/profile", "--headless", "--convert-to", kind]
        subprocess.run(
            [*command, "--outdir", tmp_path, tmp_path / name], check=True, timeout=100, env=os.environ | {"HOME": tmp_path}
        )
    assert (tmp_path / "a.pdf").read_bytes().startswith(b"%PDF")
    text = (tmp_path / "a.txt").read_text("utf-8-sig")
    for words in ("da Hund Ein", "hier und", "Zelle eine"):
        assert words in text


def test_a_damaged_document_is_not(tmp_path):
    """The conversion above would fail if the file were not well-formed."""
    (tmp_path / "a.odt").write_bytes(FILES["a.odt"][:-200])
    command = [SOFFICE, f"-env:UserInstallation={tmp_path.as_uri()}/profile", "--headless", "--convert-to", "pdf"]
    subprocess.run(
        [*command, "--outdir", tmp_path, tmp_path / "a.odt"], timeout=100, env=os.environ | {"HOME": tmp_path}
    )
    assert not (tmp_path / "a.pdf").exists()
