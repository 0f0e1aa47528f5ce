"""`import interlinear`: what it offers, and the programs of docs/python-api.md, which run in their order."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import interlinear
from interlinear.errors import RequestError
from interlinear.text import word_spans
from tests.service.conftest import shared_bundles

PAGE = Path(__file__).parents[2] / "docs" / "python-api.md"


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_the_page_runs(tmp_path):
    """As one program, like the cells of a notebook."""
    blocks = re.findall(r"^```python\n(.*?)^```$", PAGE.read_text(encoding="utf-8"), re.M | re.S)
    assert len(blocks) >= 4
    done = run("\n".join(blocks), tmp_path)
    assert done.returncode == 0, done.stderr[-3000:]
    said = done.stdout.splitlines()
    assert "'version': '1'" in said[-1], said
    assert any('<b class="x">' in line for line in said)


def test_the_import_is_lazy(tmp_path):
    done = run("import interlinear, sys\nprint(*dir(interlinear))\nprint(*sys.modules)", tmp_path)
    names, modules = (line.split() for line in done.stdout.splitlines())
    assert {"align", "load", "train", "translate"} <= {*names} and not {"torch", "numpy", "pydantic"} & {*modules}


def test_what_it_offers_is_there():
    for name in interlinear.__all__:
        assert getattr(interlinear, name).__name__ == name
    with pytest.raises(AttributeError, match="has no attribute 'nothing'"):
        interlinear.nothing  # noqa: B018


def run(program, folder):
    return subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False, cwd=folder,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(path for path in sys.path if path)},
    )  # fmt: skip


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return interlinear.load(shared_bundles(tmp_path_factory).de_en)


def test_a_text_is_translated_sentence_by_sentence_and_markup_keeps_its_tags(model):
    text, html = "Der Hund schläft. Der Hund läuft.", '<p>Der <b class="x">Hund</b> schläft.</p>'
    (result,) = interlinear.translate(model, [text], explain=True)
    assert result.candidates[0].text and len(result.explanation.source) == len(word_spans(text))
    (page,) = interlinear.translate(model, [html], markup="html")
    assert re.sub(r">[^<]*<", "><", page.candidates[0].text) == '<p><b class="x"></b></p>'


def test_a_glossary_is_kept_and_a_text_that_is_too_long_is_an_error(model):
    (result,) = interlinear.translate(model, ["Der Hund schläft."], glossary={"Hund": "hound"})
    assert "hound" in result.candidates[0].text
    with pytest.raises(RequestError):
        interlinear.align(model, [("Der Hund schläft.", "word " * 10_000)])


def test_links_are_between_words(model):
    (alignment,) = interlinear.align(model, [("Der Hund schläft.", "The dog sleeps.")])
    assert [word.text for word in alignment.target] == ["The", "dog", "sleeps", "."]
    assert alignment.links and all(link.source < 4 and link.target < 4 for link in alignment.links)
