"""The commands `data list`, `data get` and `data describe`."""

import hashlib
import json
import threading
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
import yaml

from interlinear import cli
from training.data.dataset import dataset_names, open_dataset, read_rows


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


def cut(folder: Path, pairs: list[tuple[str, str]], *options: str) -> int:
    for name, lines in (("all.de", [de for de, _ in pairs]), ("all.en", [en for _, en in pairs])):
        (folder / name).write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    arguments = ["data", "split", str(folder / "all.de"), str(folder / "all.en"), "--output", str(folder / "mine")]
    return cli.run([*arguments, *options])


def test_split_removes_the_held_out_lines_from_training(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    pairs = (
        [(f"Satz {i}", f"sentence {i}") for i in range(280)] + [("Hallo.", "Hello.")] * 18 + [("", "empty"), ("x", "")]
    )
    assert cut(tmp_path, pairs) == 0
    described = Path(capsys.readouterr().out.strip())
    assert described == tmp_path / "mine" / "mine.yaml"
    dataset = open_dataset(str(described))
    assert (dataset.task, dataset.languages) == ("translation", {"source": "de", "target": "en"})
    rows = {split: [row.texts for row in read_rows(dataset, split, ("source", "target"))] for split in dataset.splits}
    assert {split: len(found) for split, found in rows.items()} == {"train": 270, "dev": 15, "test": 15}
    assert sorted(pair for found in rows.values() for pair in found) == sorted(pairs)  # no line is lost
    aside = [*rows["dev"], *rows["test"]]
    assert len(set(aside)) == 30 and not set(aside) & set(rows["train"])
    assert all(one and other and one != "Hallo." for one, other in aside)
    assert [pair for pair in pairs if pair in rows["train"]] == rows["train"]  # in the order of the texts
    assert cli.run(["data", "describe", str(described)]) == 0 and "dev: 15 lines" in capsys.readouterr().out


def test_split_refuses_invalid_input(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    pairs = [(f"Satz {i}", f"sentence {i}") for i in range(20)]
    for options, said in (
        (["--dev", "15", "--test", "5"], "15 lines of dev and 5 of test are asked for, and 20 pairs occur once"),
        (["--dev", "half"], "--dev half: is neither a number of lines nor a share. Write 1000, or 5%."),
        (["--test", "-3"], "is neither a number of lines nor a share"),
        (["--test", "100%"], "is neither a number of lines nor a share"),
    ):
        assert cut(tmp_path, pairs, *options) in (1, 2)
        assert said in capsys.readouterr().err
        assert not (tmp_path / "mine").exists() and not (tmp_path / ".mine.draft").exists()
    assert cut(tmp_path, pairs, "--dev", "3", "--test", "0") == 0
    assert "train 17 lines, dev 3 lines" in capsys.readouterr().err
    assert cut(tmp_path, pairs) == 2 and "mine: is there already" in capsys.readouterr().err
    (tmp_path / "all.en").write_text("one\n")
    arguments = ["data", "split", str(tmp_path / "all.de"), str(tmp_path / "all.en"), "--output", str(tmp_path / "new")]
    assert cli.run(arguments) == 1 and "have 20 and 1 lines" in capsys.readouterr().err


def test_list_shows_known_and_available_data_sets(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    assert cli.run(["data", "list", "--data-root", str(tmp_path), "--json"]) == 0
    listed = {row["name"]: row for row in json.loads(capsys.readouterr().out)}
    assert set(listed) == set(dataset_names())
    assert listed["demo"]["here"] == "generated"
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
        (["get", "tatoeba-deu-eng"], 1, "has no public home"),
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
