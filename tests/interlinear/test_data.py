"""The verbs `data list`, `data get` and `data describe`, as they are called."""

import hashlib
import json
import threading
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
import yaml

from interlinear import cli
from training.dataset import known_datasets


@pytest.fixture
def mine(tmp_path: Path) -> Path:
    """A description whose text lies at home, in tmp_path/home, and not beside it."""
    files = {"set/a.de": "Hallo.\nWelt!\n", "set/a.en": "Hello.\nWorld!\n"}
    for name, text in files.items():
        path = tmp_path / "home" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    described = tmp_path / "mine.yaml"
    languages = {"source": "de", "target": "en"}
    splits = {"test": {"source": "set/a.de", "target": "set/a.en"}}
    facts = {"task": "translation", "about": "Two lines", "licence": "none", "languages": languages, "splits": splits}
    described.write_text(yaml.safe_dump(facts), encoding="utf-8")
    return described


def test_list_says_what_is_known_and_what_is_here(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    assert cli.run(["data", "list", "--data-root", str(tmp_path), "--json"]) == 0
    listed = {row["name"]: row for row in json.loads(capsys.readouterr().out)}
    assert set(listed) == set(known_datasets())
    assert listed["demo"]["here"] == "generated"
    assert listed["multi30k-en-fr"]["here"] == "no"
    assert listed["multi30k-en-fr"]["languages"] == {"source": "en", "target": "fr"}

    (tmp_path / "multi30k").mkdir()
    (tmp_path / "multi30k" / "train.fr.gz").write_bytes(b"")
    assert cli.run(["data", "list", "--data-root", str(tmp_path)]) == 0
    lines = {line.split()[0]: line for line in capsys.readouterr().out.splitlines()}
    assert "partly" in lines["multi30k-en-fr"]
    assert "partly" not in lines["multi30k-en-de"]


def test_get_and_describe(mine: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    root = tmp_path / "data"
    handler = partial(QuietHandler, directory=str(tmp_path / "home"))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
        url = f"http://127.0.0.1:{server.server_port}"
        assert cli.run(["data", "get", str(mine), "--data-root", str(root), "--from", url]) == 0
        said = capsys.readouterr()
        assert cli.run(["data", "get", str(mine), "--data-root", str(root), "--from", url]) == 0
        assert "every file of 'mine' is here already" in capsys.readouterr().err
        server.shutdown()
    assert f"sha256 {hashlib.sha256((root / 'set/a.de').read_bytes()).hexdigest()}" in said.out
    assert "fetching set/a.de, 13 bytes" in said.err

    assert cli.run(["data", "describe", str(mine), "--data-root", str(root), "--json"]) == 0
    splits = json.loads(capsys.readouterr().out)["splits"]
    assert splits == {"test": {"lines": 2, "first": {"source": "Hallo.", "target": "Hello."}}}
    assert cli.run(["data", "describe", str(mine), "--data-root", str(root)]) == 0
    assert "test: 2 lines" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["describe", "multi30k-de-en"], 1, "Fetch it with `interlinear data get multi30k-de-en`"),
        (["describe", "multi40k"], 2, "it does not exist"),
        (["get", "tatoeba-deu-eng"], 1, "has no public home"),
        (["get", "multi30k-de-en", "--from", "ftp://example.org"], 2, "is not a URL"),
    ],
)
def test_what_cannot_be_done_is_one_sentence(
    arguments: list[str], code: int, said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    assert cli.run(["data", *arguments, "--data-root", str(tmp_path)]) == code
    told = capsys.readouterr().err
    assert said in told
    assert "Traceback" not in told
    assert len(told.splitlines()) == 1


class QuietHandler(SimpleHTTPRequestHandler):
    def log_message(self, *arguments: object) -> None:
        """Say nothing."""
