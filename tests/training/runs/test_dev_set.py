"""The dev set that a training scores itself on: the same lines and references as those of `evaluate`."""

from pathlib import Path
from types import SimpleNamespace

import pytest

from interlinear.cli import options
from interlinear.cli.evaluation import test_sets
from interlinear.errors import DataError
from interlinear.text import TextConfig, Tokenizer
from tests.training.toy import toy_job, write_strings
from training.data.dataset import open_dataset
from training.loop.trainer import train
from training.recipe import load_recipe
from training.runs.job import read_dev_set

SEGMENTED = 'tokenised: true, segmentation: "@@"'
SYLLABLES = [f"{a}{b}" for a in ("ka", "li", "mo", "ru") for b in ("b", "d", "f")]


def evaluated(description: str) -> test_sets.TestSet:
    """The dev set as `evaluate` reads it."""
    reader = SimpleNamespace(fields=("source",), pictures=())
    return test_sets.read_test_set(options.TestSetSource(description, "dev", None, [], None), [reader], aligned=False)


def write_segmented(folder: Path) -> Path:
    """A data set of words cut into two subwords each. Its target is its source."""
    description = write_strings(
        folder,
        {"train": 100, "dev": 20},
        lambda chance: [word for _ in range(4) for word in (f"{chance.choice(SYLLABLES)}@@", chance.choice(SYLLABLES))],
        list,
    )
    text = description.read_text()
    for split in ("train", "dev"):
        for name in ("source", "target"):
            text = text.replace(f"{name}: {split}.{name}", f"{name}: {{files: {split}.{name}, {SEGMENTED}}}")
    description.write_text(text)
    return description


def write_references(folder: Path, *further: str) -> Path:
    """A data set of three lines with further references of its dev set, each the content of a file."""
    files = {"source": "a\nb\nc\n", "target": "A\nB\nC\n"}
    files |= {f"target.{number}": content for number, content in enumerate(further, 1)}
    for name, content in files.items():
        (folder / name).write_text(content)
    references = ", ".join(f"target.{number}" for number in range(1, len(further) + 1))
    description = folder / "more.yaml"
    description.write_text(
        "task: translation\nabout: three lines\nlicence: none\nlanguages: {source: de, target: en}\nsplits:\n"
        "  train: {source: source, target: target}\n"
        f"  dev: {{source: source, target: {{files: target, references: [{references}]}}}}\n"
    )
    return description


def test_references_have_whole_words_and_are_those_of_evaluate(tmp_path: Path):
    description = str(write_segmented(tmp_path))
    dev = read_dev_set(load_recipe("rnnsearch"), open_dataset(description))
    (lines,) = dev.references
    cut = (tmp_path / "dev.target").read_text().splitlines()
    assert lines == tuple(line.replace("@@ ", "") for line in cut)
    assert evaluated(description).references == dev.references


@pytest.mark.parametrize(
    ("language", "target", "tokenize"),
    [
        ("en", "dev.target", "13a"),
        ("zh", "dev.target", "zh"),
        ("zh-Hant", "dev.target", "zh"),
        ("ja", "dev.target", "char"),
        ("th", "dev.target", "char"),
        ("zh", "{files: dev.target, tokenised: true}", "none"),
    ],
)
def test_the_tokeniser_follows_the_language_as_in_evaluate(tmp_path: Path, language: str, target: str, tokenize: str):
    path = write_references(tmp_path)
    text = path.read_text().replace("target: en", f"target: {language}")
    path.write_text(text.replace("{files: target, references: []}", target.replace("dev.target", "target")))
    dev = read_dev_set(load_recipe("rnnsearch"), open_dataset(str(path)))
    assert dev.preprocessing.tokenize == tokenize
    assert evaluated(str(path)).reading(None, None).tokenize == tokenize


def test_copying_a_source_of_subwords_copies_its_words(tmp_path: Path):
    write_segmented(tmp_path)
    settings = ["training.epochs=1", "training.average=1", "training.learning_rate=0.0001"]
    baseline = train(toy_job(tmp_path, settings=settings)).baseline
    assert baseline is not None and baseline.name == "copying the source"
    assert baseline.score == pytest.approx(100) and baseline.model_score < 100


def test_examples_have_whole_words(tmp_path: Path):
    dev = read_dev_set(load_recipe("rnnsearch"), open_dataset(str(write_segmented(tmp_path))))
    config = TextConfig(units="words", vocabulary=100, tokenised=True, segmentation="@@", language="de")
    tokenizer = Tokenizer.train(iter(dev.sources["source"]), config)
    rows = dev.example_rows(range(len(dev.sources["source"])))
    examples = [dev.written("source", dev.sources["source"][row], tokenizer) for row in rows]
    assert examples and all(len(one.split()) == 4 and "@@" not in one for one in examples)


def test_all_references_are_read(tmp_path: Path):
    description = str(write_references(tmp_path, "one\ntwo\nthree\n", "1\n2\n3\n"))
    dev = read_dev_set(load_recipe("rnnsearch"), open_dataset(description))
    assert dev.references == (("A", "B", "C"), ("one", "two", "three"), ("1", "2", "3"))
    assert evaluated(description).references == dev.references


def test_a_reference_with_another_number_of_lines_is_refused_by_name(tmp_path: Path):
    description = str(write_references(tmp_path, "one\ntwo\n"))
    with pytest.raises(DataError, match=r"target has 3 lines, .*target\.1 has 2 lines"):
        read_dev_set(load_recipe("rnnsearch"), open_dataset(description))
    with pytest.raises(DataError, match=r"target\.1 has 2 lines"):
        evaluated(description)
