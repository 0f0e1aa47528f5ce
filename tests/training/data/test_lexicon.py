"""Training lines of words and lists, from a lexicon of the training pairs."""

from pathlib import Path

import pytest
import yaml

from interlinear.errors import DataError, RecipeError
from training.data.dataset import Dataset, open_dataset, read_rows
from training.data.lexicon import with_lexicon_lines
from training.recipe import load_recipe
from training.runs.job import prepare_data

NAMES = ("Anna", "Jonas")
NOUNS = {"Hund": "dog", "Katze": "cat", "Vogel": "bird", "Tisch": "table"}
VERBS = {"sieht": "sees", "sucht": "seeks", "mag": "likes"}
PAIRS = [
    (f"Heute {de_verb} {name} den {de_noun}.", f"Today {name} {en_verb} the {en_noun}.")
    for name in NAMES
    for de_noun, en_noun in NOUNS.items()
    for de_verb, en_verb in VERBS.items()
]


@pytest.fixture
def described(tmp_path: Path) -> Path:
    for side, lines in zip(("de", "en"), zip(*PAIRS, strict=True), strict=True):
        (tmp_path / f"text.{side}").write_text("".join(f"{line}\n" for line in lines))
    files = {"source": "text.de", "target": "text.en"}
    content = {
        "task": "translation",
        "about": "toy",
        "licence": "ours",
        "languages": {"source": "de", "target": "en"},
        "splits": {"train": files, "dev": files},
    }
    (tmp_path / "toy.yaml").write_text(yaml.safe_dump(content))
    return tmp_path / "toy.yaml"


def train(dataset: Dataset) -> list[tuple[str, ...]]:
    return [row.texts for row in read_rows(dataset, "train", ["source", "target"])]


def test_words_and_lists_stand_behind_the_pairs(described, tmp_path):
    dataset = with_lexicon_lines(open_dataset(str(described)), "source", 1, tmp_path / "prepared")
    pairs, lines = train(dataset)[: len(PAIRS)], train(dataset)[len(PAIRS) :]
    assert pairs == PAIRS and len(lines) == len(PAIRS)
    right = {name: name for name in NAMES} | NOUNS | VERBS | {"den": "the"}
    known = {de.casefold(): en.casefold() for de, en in right.items()}
    for source, target in lines:
        assert source[0].isupper() and target[0].isupper(), "as lines of the text begin"
        words = source.casefold().split(", ")
        assert [known[word] for word in words] == target.casefold().split(", ")
    assert {len(source.split(", ")) for source, _ in lines} > {1}
    assert any(source in NOUNS for source, _ in lines)


def test_lines_are_written_once(described, tmp_path):
    first = with_lexicon_lines(open_dataset(str(described)), "source", 0.5, tmp_path / "prepared")
    files = {path: path.stat().st_mtime_ns for path in (tmp_path / "prepared").iterdir()}
    second = with_lexicon_lines(open_dataset(str(described)), "source", 0.5, tmp_path / "prepared")
    assert train(first) == train(second)
    assert {path: path.stat().st_mtime_ns for path in (tmp_path / "prepared").iterdir()} == files
    assert train(with_lexicon_lines(open_dataset(str(described)), "source", 1, tmp_path / "prepared")) != train(first)


def test_preparation_adds_the_lines_that_a_recipe_asks_for(described, tmp_path, capsys):
    rows = {}
    for share in (0, 1):
        recipe = load_recipe("rnnsearch_small", [f"training.lexicon={share}", "training.guide=hmm"])
        data = prepare_data(recipe, open_dataset(str(described)), tmp_path / "prepared", progress=False)
        rows[share] = data.record.splits["train"].rows
    assert rows == {0: len(PAIRS), 1: 2 * len(PAIRS)}
    assert f"train: {len(PAIRS)} lines of words" in capsys.readouterr().err


def test_recipes_and_data_without_words_of_one_source_are_refused(described, tmp_path):
    for recipe, settings in (
        ("postedit_flat", []),
        ("rnnsearch", [f"training.guide={tmp_path / 'links'}"]),
    ):
        with pytest.raises(RecipeError, match="lexicon"):
            load_recipe(recipe, [*settings, "training.lexicon=0.1"])
    for side in ("de", "en"):
        (tmp_path / f"text.{side}").write_text("1 2 3\n4 5\n")
    with pytest.raises(DataError, match="no word has a translation"):
        with_lexicon_lines(open_dataset(str(described)), "source", 1, tmp_path / "prepared")
