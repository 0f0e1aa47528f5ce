"""The commands `data list`, `data get`, `data describe` and `data split`."""

import hashlib
import threading
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from itertools import permutations
from pathlib import Path

import pytest
import yaml

from interlinear import cli
from tests.interlinear.cli.conftest import Command
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


def test_split_makes_a_data_set(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, run: Command, capsys: pytest.CaptureFixture[str]
):
    monkeypatch.chdir(tmp_path)
    pairs = [(f"{word} ist gut", f"{word} is good") for word in map("".join, permutations("abcde"))]
    for name, lines in zip(("all.de", "all.en"), zip(*pairs, strict=True), strict=True):
        Path(name).write_text("".join(f"{line}\n" for line in lines))
    said = run.both("data", "split", "all.de", "all.en", "--output", "mine", "--dev", "3", "--test", "0")
    assert said.out == "mine/mine.yaml\n" and "train 117, dev 3, test 0" in said.err
    assert cli.run(["data", "describe", "mine/mine.yaml"]) == 0 and "dev: 3 lines" in capsys.readouterr().out

    Path("all.tsv").write_text("".join(f"{source}\t{target}\n" for source, target in pairs))
    assert run("data", "split", "all.tsv", "--languages", "en,en", "--seed", "2") == "data/all-en-en/all-en-en.yaml\n"
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
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, options: list[str], said: str, run: Command
):
    monkeypatch.chdir(tmp_path)
    for name in ("all.de", "all.en"):
        Path(name).write_text("eins\nzwei\ndrei\n")
    assert said in run.err(2, "data", "split", "all.de", "all.en", *options)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["all.de", "all.en"]


def test_list_shows_known_and_available_data_sets(tmp_path: Path, run: Command):
    listed = {row["name"]: row for row in run.json("data", "list", "--data-root", tmp_path)}
    assert set(listed) == set(dataset_names())
    assert listed["demo"]["here"] == "here"
    assert listed["multi30k-en-fr"]["here"] == "no"
    assert listed["multi30k-en-fr"]["languages"] == {"source": "en", "target": "fr"}

    (tmp_path / "multi30k").mkdir()
    (tmp_path / "multi30k" / "train.fr.gz").write_bytes(b"")
    lines = {line.split()[0]: line for line in run.lines("data", "list", "--data-root", tmp_path)}
    assert "partly" in lines["multi30k-en-fr"]
    assert "partly" not in lines["multi30k-en-de"]


def test_get_and_describe(own_description: Path, tmp_path: Path, run: Command):
    root = tmp_path / "data"
    handler = partial(QuietHandler, directory=str(tmp_path / "home"))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
        url = f"http://127.0.0.1:{server.server_port}"
        said = run.both("data", "get", own_description, "--data-root", root, "--from", url)
        error = run.err(0, "data", "get", own_description, "--data-root", root, "--from", url)
        assert "every file of 'mine' is here already" in error
        server.shutdown()
    assert f"sha256 {hashlib.sha256((root / 'set/a.de').read_bytes()).hexdigest()}" in said.out
    assert "fetching set/a.de, 13 bytes" in said.err

    splits = run.json("data", "describe", own_description, "--data-root", root)["splits"]
    assert splits == {"test": {"lines": 2, "first": {"source": "Hallo.", "target": "Hello."}}}
    assert "test: 2 lines" in run("data", "describe", own_description, "--data-root", root)


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["describe", "multi30k-de-en"], 1, "Fetch it with `interlinear data get multi30k-de-en`"),
        (["describe", "multi40k"], 2, "it does not exist"),
        (["get", "tatoeba-deu-eng"], 1, "have no public home to fetch them from. Put them below the data root"),
        (["get", "multi30k-de-en", "--from", "ftp://example.org"], 2, "is not a URL"),
    ],
)
def test_errors_are_one_sentence(arguments: list[str], code: int, said: str, tmp_path: Path, run: Command):
    error = run.err(code, "data", *arguments, "--data-root", tmp_path)
    assert said in error
    assert "Traceback" not in error
    assert len(error.splitlines()) == 1


class QuietHandler(SimpleHTTPRequestHandler):
    def log_message(self, *arguments: object) -> None:
        """Log nothing."""
