"""Error messages: one sentence that says what was wrong, where, and how to correct it."""

import re
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from interlinear import cli
from tests.training.toy import write_corpus

Said = Callable[..., str]


@pytest.fixture
def said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Said:
    """The message of a failing command, run in a folder with a data set."""
    write_corpus(tmp_path)
    monkeypatch.chdir(tmp_path)

    def call(*words: str) -> str:
        ended = cli.run(list(words))
        captured = capsys.readouterr()
        assert ended in (1, 2) and captured.out == "" and captured.err.count("\n") == 1
        return captured.err

    return call


def describe(change: Callable[[str], str]) -> None:
    Path("toy.yaml").write_text(change(Path("toy.yaml").read_text()))


def prepared(said: Said) -> str:
    return said("prepare", "rnnsearch", "--data", "toy.yaml", "--set", "target.units=words")


def test_a_text_or_a_folder_is_not_a_data_set(said: Said) -> None:
    for name, kind in (("train.source", "a text"), (".", "a folder"), ("./train.source", "a text")):
        sentence = said("train", "rnnsearch", "--data", name)
        assert f"{name}: is {kind}, and a data set is described by a YAML file" in sentence
        assert "See docs/your-own-data.md" in sentence


def test_a_known_name_takes_precedence_over_local_files(said: Said, capsys: pytest.CaptureFixture[str]) -> None:
    Path("multi30k-de-en").mkdir()
    Path("demo").write_text("a text\n")
    assert cli.run(["data", "list"]) == 0 and "multi30k-de-en" in capsys.readouterr().out
    assert "multi30k/train.de.gz was not found" in said("data", "describe", "multi30k-de-en")


def test_a_folder_as_a_field(said: Said) -> None:
    Path("texts").mkdir()
    describe(lambda text: text.replace("train.source", "texts"))
    assert "texts: is a folder, not a file. Name its files" in prepared(said)


@pytest.mark.parametrize(
    ("encoding", "named"),
    [("utf-16-le", "UTF-16LE"), ("latin-1", "LATIN1"), ("cp1252", "WINDOWS-1252")],
)
def test_another_encoding_is_named_with_a_command_that_converts(said: Said, encoding: str, named: str) -> None:
    quotes = "" if encoding == "latin-1" else "„schön“ "
    text = "".join(f"{quotes}{line} für\n" for line in Path("train.source").read_text().splitlines())
    Path("train.source").write_bytes(text.encode(encoding))
    sentence = prepared(said)
    assert f"the file looks like {named}" in sentence
    assert f"`iconv -f {named} -t UTF-8 < train.source > NEW`" in sentence
    converted = subprocess.run(["iconv", "-f", named, "-t", "UTF-8", "train.source"], capture_output=True, check=True)
    assert converted.stdout.decode() == text


def test_a_nul_byte_is_refused(said: Said) -> None:
    lines = Path("train.source").read_text().splitlines()
    lines[6] += "\0"
    Path("train.source").write_text("".join(f"{line}\n" for line in lines))
    assert "train.source, line 7: is not valid UTF-8 (a NUL byte)" in prepared(said)


def test_invalid_yaml_is_reported_with_line_and_column(said: Said) -> None:
    describe(lambda text: "task: translation\nabout: [not closed\nlicence: none\n")
    sentence = said("data", "describe", "toy.yaml")
    assert "toy.yaml, line 3, column 8: is not YAML: expected ',' or ']'" in sentence
    assert "See docs/datasets.md" in sentence


@pytest.mark.parametrize(
    "words", [("data", "describe"), ("train", "rnnsearch", "--data"), ("info",), ("serve", "--config")]
)
def test_a_key_that_is_there_twice_is_refused(said: Said, words: tuple[str, ...]) -> None:
    Path("twice.yaml").write_text("model:\n  hidden: 32\n\nmodel: {embedding: 16}\n")
    assert "the key 'model' is there already, in line 1" in said(*words, "twice.yaml")
    assert "the key 'a' is there already" in said("info", "rnnsearch", "--set", "model={a: 1, a: 2}")


def test_an_unknown_choice_suggests_the_nearest(said: Said) -> None:
    describe(lambda text: text.replace("task: translation", "task: translate"))
    sentence = said("data", "describe", "toy.yaml")
    assert "task: 'translate' is none of translation, summarization, multimodal, post-edit; did you mean" in sentence
    assert "did you mean translation?" in sentence and "Input should" not in sentence


def test_a_misspelt_command_gets_a_suggestion(said: Said) -> None:
    assert said("trane").endswith("Did you mean 'train', 'translate', 'tune'? See `interlinear --help`.\n")


def test_two_fields_from_one_file_give_a_warning(said: Said, capsys: pytest.CaptureFixture[str]) -> None:
    describe(lambda text: text.replace("train.target", "train.source"))
    assert cli.run(["prepare", "rnnsearch", "--data", "toy.yaml", "--set", "target.units=words"]) == 0
    assert "'source' and 'target' are one text, train.source" in capsys.readouterr().err


def test_the_pages_name_data_sets_recipes_and_tables_differently() -> None:
    """In the docs `mine.yaml` and every argument of `--data` is a data set; recipes and tables have other names."""
    root = Path(__file__).parents[3]
    pages = (root / "README.md", *sorted((root / "docs").glob("*.md")))
    text = "\n".join(page.read_text(encoding="utf-8") for page in pages)
    recipes = re.findall(r"interlinear (?:train|submit|prepare|info) ([\w.-]+\.yaml)", text)
    assert {*recipes} == {"my-system.yaml", "second.yaml"}
    assert {*re.findall(r"python -m research reproduce ([\w.-]+\.yaml)", text)} == {"my-tables.yaml"}
    assert {before.strip("` ") for before in re.findall(r"(\S+ )(?:corpus/)?mine\.yaml", text)} == {"--data"}
