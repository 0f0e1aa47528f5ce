"""`translate --glossary` and its companions."""

import json

import pytest

from interlinear import cli
from tests.interlinear.cli.conftest import write_toy

TEXT = "ein hund läuft im garten\nhund {n} und %s\n5 km\n"


@pytest.fixture
def write(tmp_path):
    def write(content: str | bytes, name: str) -> str:
        path = tmp_path / name
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return str(path)

    return write


def translated(capsys, *arguments: str) -> list[str]:
    assert cli.run(["translate", *arguments]) == 0
    return capsys.readouterr().out.splitlines()


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("terms.tsv", "Hund\tgreyhound\nGarten\t'the \"park\n"),
        ("terms.csv", '\ufeffHund,greyhound,de,en\n\nGarten,"\'the ""park"\r\n'),
    ],
)
def test_a_glossary_says_how_terms_are_translated(toy, write, capsys, name, content):
    lines = translated(capsys, str(toy), write(TEXT, "in.de"), "--glossary", write(content, name))
    assert lines[0].count("greyhound") == 1 and lines[0].count("'the \"park") == 1


def test_what_must_not_change_is_kept_and_alone_returned_as_it_is(toy, write, capsys):
    file = write(TEXT, "in.de")
    first, second, third = translated(capsys, str(toy), file, "--do-not-translate", "im garten")
    assert first.count("im garten") == 1
    assert second.count("{n}") == second.count("%s") == 1
    assert third == "5 km"
    assert translated(capsys, str(toy), file, "--no-protect")[1] != second


def test_explanations_name_the_terms(toy, write, capsys):
    lines = translated(
        capsys, str(toy), write(TEXT, "in.de"), "--glossary", write("hund\tgrey hound", "g"), "--explain"
    )
    record = json.loads(lines[0])
    (term,) = record["explanation"]["terms"]
    assert record["source"][slice(*term["source"])] == "hund"
    assert record["translations"][0]["text"][slice(*term["target"])] == "grey hound"


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ('Hund,dog\n"New\tYork",NY\n', "terms.csv, line 2: a text has a tab or a line break"),
        ('Hund,dog\nNew York,"N\nY"\n', "terms.csv, line 3: a text has a tab or a line break"),
    ],
)
def test_a_text_of_a_glossary_is_on_one_line(toy, write, capsys, content, said):
    assert cli.run(["translate", str(toy), write(TEXT, "in.de"), "--glossary", write(content, "terms.csv")]) != 0
    out, error = capsys.readouterr()
    assert said in error and out == ""


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("Hund\tdog\nKatze\n", "line 2: it is not a source and a target"),
        ("Hund\tdog\nhund\thound\n", "--glossary: 'Hund' has the target 'dog', and 'hund' the target 'hound'"),
        (b"Hund\t\xff\n", "line 1: is not valid UTF-8 (byte 0xff at position 5)"),
    ],
)
def test_a_wrong_glossary_is_named_before_anything_is_translated(toy, write, capsys, content, said):
    assert cli.run(["translate", str(toy), write(TEXT, "in.de"), "--glossary", write(content, "terms.tsv")]) != 0
    out, error = capsys.readouterr()
    assert said in error and out == ""


def test_terms_are_for_raw_text(toy, write, run):
    said = run.err(2, "translate", toy, write(TEXT, "in.de"), "--tokenised", "--do-not-translate", "hund")
    assert "--do-not-translate: terms are found in raw text" in said


def test_terms_of_a_document(write, tmp_path):
    toy = write_toy(tmp_path / "toy", seed=2)
    page, output = write("<p>ein <b>hund</b> läuft</p><p>5 km</p>", "in.html"), tmp_path / "out.html"
    options = ["--glossary", write("Hund\tgreyhound", "terms.tsv"), "--do-not-translate", "läuft"]
    assert cli.run(["translate", str(toy), page, "-o", str(output), *options]) == 0
    assert "<b>greyhound</b>" in output.read_text() and output.read_text().count("läuft") == 1
    assert output.read_text().endswith("<p>5 km</p>")
