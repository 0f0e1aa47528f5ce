"""Edit operations as the target: prepared from the rows, learned, and decoded to text that keeps unknown words."""

import json
import random
from dataclasses import replace
from pathlib import Path

import pytest

from interlinear import cli
from interlinear.bundle import load
from interlinear.errors import RecipeError
from interlinear.text import DELETE, KEEP, Tokenizer
from tests.training.toy import SETTINGS
from training.data.prepare.prepared import PreparedData
from training.loop.trainer import train
from training.recipe import load_recipe
from training.runs.job import create_job

WORDS = [f"{a}{b}" for a in ("ka", "li", "mo", "ru", "te") for b in ("ba", "do", "fi", "nu")]
EDITING = (
    *SETTINGS, "sources.mt.units=words", "target.operations_on=mt", "target.vocabulary=12", "joint_vocabulary=false",
    "model.tie_embeddings=none", "training.batch_tokens=150", "training.epochs=4", "model.gru=cudnn",
)  # fmt: skip


def write_edits(folder: Path) -> Path:
    """Words and their upper case; a machine translation puts `XX` before half of them and omits LIBA at the end."""
    chance = random.Random(3)
    for split, count in {"train": 600, "dev": 40, "test": 40}.items():
        rows = []
        for _ in range(count):
            words = chance.choices(WORDS, k=chance.randint(1, 4))
            target = [word.upper() for word in words]
            mt = ["XX"] * chance.randint(0, 1) + (target[:-1] if target[-1] == "LIBA" else target)
            rows.append((words, mt, target))
        for name, column in zip(("source", "mt", "target"), zip(*rows, strict=True), strict=True):
            (folder / f"{split}.{name}").write_text("".join(" ".join(line) + "\n" for line in column))
    splits = "".join(
        f"  {split}: {{source: {split}.source, mt: {split}.mt, target: {split}.target}}\n"
        for split in ("train", "dev", "test")
    )
    path = folder / "edits.yaml"
    path.write_text(
        "task: post-edit\nabout: generated strings\nlicence: none\n"
        f"languages: {{source: de, mt: en, target: en}}\nsplits:\n{splits}"
    )
    return path


@pytest.fixture(scope="module")
def trained(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("operations")
    job = create_job(
        "postedit_flat",
        str(write_edits(folder)),
        EDITING,
        prepared=folder / "prepared",
        runs=folder / "runs",
        run="toy",
    )
    train(job)
    return folder


def test_rows_are_prepared_as_operations(trained):
    (folder,) = (trained / "prepared").iterdir()
    prepared = PreparedData.load(folder)
    tokenizer = Tokenizer.load(folder / "tokenizer.target.json")
    split = prepared.split("train")
    mts, targets = ((trained / f"train.{name}").read_text().splitlines() for name in ("mt", "target"))
    for row in range(20):
        script = split.ids("target", row).tolist()
        kept = [word for word in mts[row].split() if word != "XX"]
        assert script.count(KEEP) == len(kept)
        assert script.count(DELETE) == mts[row].split().count("XX")
        inserted = tokenizer.encode("LIBA").ids * targets[row].endswith("LIBA")
        assert [one for one in script if one not in (KEEP, DELETE)] == inserted


def test_a_model_learns_to_edit_and_keeps_unknown_words(trained, capsys):
    """Its vocabulary has six of the twenty-one words: without copying it could not come half as close to the
    reference."""
    bundle = load(trained / "runs" / "toy" / "bundle")
    assert bundle.card.recipe["target"]["operations_on"] == "mt" and bundle.tokenizers["target"].size == 12
    data = ["--data", str(trained / "edits.yaml"), "--json", "--metrics", "hter"]
    assert cli.run(["evaluate", str(bundle.folder), *data]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["unedited"]["hter"]["score"] > 15
    assert found["hter"]["score"] < 0.5 * found["unedited"]["hter"]["score"]


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        (["target.operations_on=image"], "target.operations_on: 'image' is no text source; there are source, mt"),
        (
            [
                "target.operations_on=mt",
                "training.objective=risk",
                "training.init_from=x",
                "training.label_smoothing=0",
                "training.score=bleu",
            ],
            "target.operations_on: objective: risk compares words",
        ),
        (["sources.mt.operations_on=source"], "sources.mt.operations_on: unknown key"),
        (["target.operation_on=mt"], "did you mean operations_on?"),
    ],
)
def test_invalid_operations_settings_are_refused(settings, said):
    with pytest.raises(RecipeError) as error:
        load_recipe("postedit_flat", settings)
    assert said.lower() in str(error.value).lower()


def test_texts_must_have_the_same_tokenisation(trained):
    settings = [*EDITING, "sources.mt.lowercase=true"]
    with pytest.raises(RecipeError, match="'mt' and 'target' differ in lowercase: True and False"):
        create_job("postedit_flat", str(trained / "edits.yaml"), settings, prepared=trained / "other")


def test_a_joint_vocabulary_includes_the_operation_symbols(trained):
    settings = [*EDITING, "joint_vocabulary=true", "sources.source.vocabulary=12", "sources.mt.vocabulary=12"]
    job = create_job("postedit_flat", str(trained / "edits.yaml"), settings, prepared=trained / "joint")
    tokenizers = PreparedData.load(job.prepared).tokenizers
    assert {tokenizer.size for tokenizer in tokenizers.values()} == {12}
    assert replace(job, resume=True).recipe.target.operations_on == "mt"
