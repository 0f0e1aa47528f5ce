"""The commands `data list`, `data get`, `data describe` and `data split`."""

import hashlib
import json
import threading
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from itertools import permutations
from pathlib import Path

import pytest
import yaml

from interlinear import cli
from training.data.dataset import dataset_names, open_dataset


@pytest.fixture
def own_description(tmp_path: Path) -> Path:
    """A description whose text is in tmp_path/home, not beside it."""
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


def test_split_makes_a_data_set(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]):
    monkeypatch.chdir(tmp_path)
    pairs = [(f"{word} ist gut", f"{word} is good") for word in map("".join, permutations("abcde"))]
    for name, lines in zip(("all.de", "all.en"), zip(*pairs, strict=True), strict=True):
        Path(name).write_text("".join(f"{line}\n" for line in lines))
    assert cli.run(["data", "split", "all.de", "all.en", "--output", "mine", "--dev", "3", "--test", "0"]) == 0
    said = capsys.readouterr()
    assert said.out == "mine/mine.yaml\n" and "train 117, dev 3, test 0" in said.err
    assert cli.run(["data", "describe", "mine/mine.yaml"]) == 0 and "dev: 3 lines" in capsys.readouterr().out

    Path("all.tsv").write_text("".join(f"{source}\t{target}\n" for source, target in pairs))
    assert cli.run(["data", "split", "all.tsv", "--languages", "en,en", "--seed", "2"]) == 0
    assert capsys.readouterr().out == "data/all-en-en/all-en-en.yaml\n"
    assert open_dataset("data/all-en-en/all-en-en.yaml").task == "summarization"


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--dev", "half"], "--dev half: is neither a number of lines nor a share. Write 1000, or 5%."),
        (["--test", "-3"], "is neither a number of lines nor a share"),
        (["--test", "100%"], "is neither a number of lines nor a share"),
        (["--languages", "de"], "--languages de: is not two language codes"),
        (["--output", "all.en"], "all.en: is there already, and was not made by this"),
    ],
)
def test_split_refuses_invalid_options(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, options: list[str], said: str, capsys: pytest.CaptureFixture[str]
):
    monkeypatch.chdir(tmp_path)
    for name in ("all.de", "all.en"):
        Path(name).write_text("eins\nzwei\ndrei\n")
    assert cli.run(["data", "split", "all.de", "all.en", *options]) == 2
    assert said in capsys.readouterr().err
    assert sorted(path.name for path in tmp_path.iterdir()) == ["all.de", "all.en"]


def test_list_shows_known_and_available_data_sets(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    assert cli.run(["data", "list", "--data-root", str(tmp_path), "--json"]) == 0
    listed = {row["name"]: row for row in json.loads(capsys.readouterr().out)}
    assert set(listed) == set(dataset_names())
    assert listed["demo"]["here"] == "here"
    assert listed["multi30k-en-fr"]["here"] == "no"
    assert listed["multi30k-en-fr"]["languages"] == {"source": "en", "target": "fr"}

    (tmp_path / "multi30k").mkdir()
    (tmp_path / "multi30k" / "train.fr.gz").write_bytes(b"")
    assert cli.run(["data", "list", "--data-root", str(tmp_path)]) == 0
    lines = {line.split()[0]: line for line in capsys.readouterr().out.splitlines()}
    assert "partly" in lines["multi30k-en-fr"]
    assert "partly" not in lines["multi30k-en-de"]


def test_get_and_describe(own_description: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    root = tmp_path / "data"
    handler = partial(QuietHandler, directory=str(tmp_path / "home"))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
        url = f"http://127.0.0.1:{server.server_port}"
        assert cli.run(["data", "get", str(own_description), "--data-root", str(root), "--from", url]) == 0
        said = capsys.readouterr()
        assert cli.run(["data", "get", str(own_description), "--data-root", str(root), "--from", url]) == 0
        assert "every file of 'mine' is here already" in capsys.readouterr().err
        server.shutdown()
    assert f"sha256 {hashlib.sha256((root / 'set/a.de').read_bytes()).hexdigest()}" in said.out
    assert "fetching set/a.de, 13 bytes" in said.err

    assert cli.run(["data", "describe", str(own_description), "--data-root", str(root), "--json"]) == 0
    splits = json.loads(capsys.readouterr().out)["splits"]
    assert splits == {"test": {"lines": 2, "first": {"source": "Hallo.", "target": "Hello."}}}
    assert cli.run(["data", "describe", str(own_description), "--data-root", str(root)]) == 0
    assert "test: 2 lines" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["describe", "multi30k-de-en"], 1, "Fetch it with `interlinear data get multi30k-de-en`"),
        (["describe", "multi40k"], 2, "it does not exist"),
        (["get", "tatoeba-deu-eng"], 1, "have no public home to fetch them from. Put them below the data root"),
        (["get", "multi30k-de-en", "--from", "ftp://example.org"], 2, "is not a URL"),
    ],
)
def test_errors_are_one_sentence(
    arguments: list[str], code: int, said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    assert cli.run(["data", *arguments, "--data-root", str(tmp_path)]) == code
    error = capsys.readouterr().err
    assert said in error
    assert "Traceback" not in error
    assert len(error.splitlines()) == 1


class QuietHandler(SimpleHTTPRequestHandler):
    def log_message(self, *arguments: object) -> None:
        """Log nothing."""
