"""Corrections become the next version: suggestions are exported as a data set that `train` takes."""

from pathlib import Path

import pytest
import yaml

from interlinear.cli import run as interlinear
from service.store.suggestion_store import Suggestion, SuggestionStore
from training.data.dataset import open_dataset, read_rows

COLOURS = ["rot", "blau", "gelb", "grau", "braun", "weiss", "lila", "rosa", "bunt", "hell"]
THINGS = ["Haus", "Auto", "Hund", "Baum", "Ball", "Stuhl", "Tisch", "Boot", "Zug", "Turm"]


@pytest.fixture
def keys(tmp_path) -> str:
    """A store with 100 suggestions, one of them of two lines, and one of another direction."""
    store = SuggestionStore(tmp_path / "keys.db")
    for colour in COLOURS:
        for thing in THINGS:
            store.add(Suggestion(f"{thing} ist {colour}", f"{colour} {thing} it is", "de", "en", "app"), 500, 500)
    store.add(Suggestion("Erste Zeile\n\nZweite Zeile", "First line\nSecond line", "de", "en"), 500, 500)
    store.add(Suggestion("Hello", "Hallo", "en", "de"), 500, 500)
    return str(tmp_path / "keys.db")


def read(path: Path, split: str) -> list[tuple[str, ...]]:
    return [row.texts for row in read_rows(open_dataset(str(path)), split, ("source", "target"))]


def test_suggestions_alone_are_split_into_a_data_set(keys, tmp_path, capsys):
    folder = tmp_path / "corrections"
    command = ["suggestions", "export", str(folder), "--languages", "de,en"]
    command += ["--keys", keys]
    assert interlinear(command) == 0
    description = Path(capsys.readouterr().out.strip())
    assert description == folder / "corrections.yaml"
    dev, test = read(description, "dev"), read(description, "test")
    assert len(dev) == len(test) > 0
    train = read(description, "train")
    assert ("Erste Zeile", "First line") in train + dev + test
    assert ("Hello", "Hallo") not in train
    assert interlinear(command) == 2, "the folder is there already"


def test_lines_of_a_suggestion_end_at_a_line_feed_only(tmp_path, capsys):
    """Texts have form feeds, separators of files and of paragraphs within a line."""
    store = SuggestionStore(tmp_path / "keys.db")
    for mark in ("\f", "\x1c", "\x1e", "\x85", "\u2028", "\v"):
        name = f"{ord(mark):x}"
        store.add(Suggestion(f"Seite {name}{mark}neu\nzwei {name}", f"page {name} new\ntwo {name}", "de", "en"), 99, 99)
    folder = tmp_path / "corrections"
    command = ["suggestions", "export", str(folder), "--languages", "de,en"]
    assert interlinear([*command, "--keys", str(tmp_path / "keys.db")]) == 0
    description = Path(capsys.readouterr().out.strip())
    pairs = {pair for split in ("train", "dev", "test") for pair in read(description, split)}
    expected = {(f"Seite {n} neu", f"page {n} new") for n in ("c", "1c", "1e", "85", "2028", "b")}
    assert pairs == expected | {(f"zwei {n}", f"two {n}") for n in ("c", "1c", "1e", "85", "2028", "b")}


def test_suggestions_are_added_to_train_of_another_data_set(keys, tmp_path, capsys):
    base = tmp_path / "base"
    base.mkdir()
    for split, pairs in {"train": [("Ein Hund", "A dog")], "dev": [("Haus ist rot", "red house it is")]}.items():
        for side, lines in zip(("de", "en"), zip(*pairs, strict=True), strict=True):
            (base / f"{split}.{side}").write_text("".join(f"{line}\n" for line in lines))
    described = {
        "task": "translation",
        "about": "base",
        "licence": "ours",
        "languages": {"source": "de", "target": "en"},
        "splits": {split: {"source": f"{split}.de", "target": f"{split}.en"} for split in ("train", "dev")},
    }
    (base / "base.yaml").write_text(yaml.safe_dump(described))
    folder = tmp_path / "next"
    command = ["suggestions", "export", str(folder), "--languages", "de,en", "--with", str(base / "base.yaml")]
    assert interlinear([*command, "--keys", keys]) == 0
    description = Path(capsys.readouterr().out.strip())
    train = read(description, "train")
    assert train[0] == ("Ein Hund", "A dog")
    assert ("Haus ist blau", "blau Haus it is") in train
    assert ("Haus ist rot", "rot Haus it is") not in train, "its source is in dev"
    assert read(description, "dev") == [("Haus ist rot", "red house it is")]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ([], "--languages: is missing: there are suggestions for de,en en,de"),
        (["--languages", "fr,en"], "has no suggestions: there are de,en en,de"),
        (["--languages", "en,de", "--with", "multi30k-de-en"], "is de to en, not en to de"),
    ],
)
def test_what_cannot_be_exported_is_said_and_writes_nothing(keys, tmp_path, capsys, monkeypatch, options, message):
    monkeypatch.chdir(tmp_path)
    assert interlinear(["suggestions", "export", "out", *options, "--keys", keys]) != 0
    assert message in " ".join(capsys.readouterr().err.split())
    assert not Path("out").exists()


def test_an_id_that_no_suggestion_can_have_deletes_nothing(keys, capsys):
    assert interlinear(["suggestions", "delete", "9" * 22, "--keys", keys]) == 0
    assert "0 of 1 suggestions are deleted: none has such an id." in capsys.readouterr().err
