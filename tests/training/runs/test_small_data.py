"""Settings that adapt to small data, and trivial baselines that a model must beat to become champion."""

import json
from pathlib import Path

import pytest

from interlinear import cli
from interlinear.errors import RegistryError, TrainingError
from interlinear.registry.names import AliasName
from interlinear.registry.store import MlflowStore
from tests.training.toy import SETTINGS, WORDS, toy_job, write_corpus, write_strings
from training.data.baselines import most_frequent_output
from training.data.prepare.prepared import PreparedData
from training.loop.trainer import train
from training.recipe import leaves, load_recipe, stated_keys
from training.runs.job import create_job
from training.runs.small_data import MIN_EPOCH_UPDATES, TARGET_UPDATES, fit_to_data, recommend

QUICK = [word for setting in [*SETTINGS, "training.epochs=1", "training.average=1"] for word in ("--set", setting)]


def test_batch_epochs_patience_and_warmup_fit_small_data():
    recipe = load_recipe("rnnsearch")
    fitted, note = fit_to_data(recipe, frozenset(), pairs=220, target_tokens=2600)
    training = fitted.training
    updates = -(-2600 // training.batch_tokens)
    assert training.batch_tokens == 200 and updates * training.epochs >= TARGET_UPDATES
    assert training.patience > 5 * 3
    assert 0 < training.warmup <= 3 * updates
    assert "220 pairs make 2 updates an epoch" in note and f"training.epochs={training.epochs}" in note
    fits = {"batch_tokens", "epochs", "patience", "warmup"}
    assert training.model_dump(exclude=fits) == recipe.training.model_dump(exclude=fits)


def test_explicit_settings_are_not_adapted():
    keys = ("batch_tokens", "epochs", "patience", "warmup")
    recipe = load_recipe("rnnsearch")
    for kept in keys:
        fitted, note = fit_to_data(recipe, {f"training.{kept}"}, 220, 2600)
        assert getattr(fitted.training, kept) == getattr(recipe.training, kept) and f"training.{kept}=" not in note
    assert fit_to_data(recipe, {f"training.{key}" for key in keys}, 220, 2600) == (recipe, "")
    few, _ = fit_to_data(load_recipe("rnnsearch", ["training.epochs=2"]), {"training.epochs"}, 220, 2600)
    assert few.training.warmup <= 13 and few.training.patience == 5  # warm-up ends within the two epochs


def test_data_with_enough_updates_per_epoch_changes_nothing():
    for name in ("rnnsearch", "contextual_gates", "paper/rnnsearch"):
        recipe = load_recipe(name)
        size = recipe.training.batch_tokens or recipe.training.batch_sentences
        assert size is not None
        assert fit_to_data(recipe, frozenset(), size * MIN_EPOCH_UPDATES, size * MIN_EPOCH_UPDATES) == (recipe, "")


def test_a_finished_run_resumes_for_more_epochs_because_other_settings_do_not_depend_on_them():
    fitted = [
        fit_to_data(load_recipe("rnnsearch", [f"training.epochs={n}"]), {"training.epochs"}, 220, 2600)[0].training
        for n in (12, 40, 400)
    ]
    may_differ = {"epochs", "patience"}
    first, *others = [training.model_dump(exclude=may_differ) for training in fitted]
    assert all(other == first for other in others)


def test_few_pairs_have_a_recipe_of_their_own():
    said = recommend(load_recipe("rnnsearch"), 2697)
    assert "rnnsearch_low_resource" in said and "BLEU 14.7 where rnnsearch had 11.3" in said
    for name, pairs in (("rnnsearch", 5000), ("rnnsearch_low_resource", 2697), ("multimodal_hierarchical", 2697)):
        assert recommend(load_recipe(name), pairs) == ""


def test_stated_keys_are_those_of_overrides_defaults_and_own_recipes(tmp_path: Path):
    own, base = tmp_path / "own.yaml", tmp_path / "base.yaml"
    base.write_text("extends: rnnsearch\ntraining: {warmup: 7}\n")
    own.write_text(f"extends: {base}\nmodel: {{layers: 2}}\n")
    assert stated_keys("rnnsearch") == frozenset()
    assert stated_keys(str(own), ["training={epochs: 3}"], {"target.units": "words"}) == {
        "model.layers", "training.warmup", "training.epochs", "target.units",
    }  # fmt: skip
    assert leaves({"a": {"b": 1, "c": {"d": None}}, "e": []}) == {"a.b", "a.c.d", "e"}


def test_the_most_frequent_output_baseline(tmp_path: Path):
    description = write_corpus(tmp_path)
    targets = (tmp_path / "train.target").read_text().splitlines()
    targets[5:300:50] = ["KABA LIDO"] * 6
    (tmp_path / "train.target").write_text("".join(f"{line}\n" for line in targets))
    assert description.exists()
    prepared = PreparedData.load(toy_job(tmp_path).prepared)
    assert most_frequent_output(prepared.split("train"), prepared.tokenizers["target"]) == "KABA LIDO"


@pytest.mark.parametrize("score", ["bleu", "rouge-l", "perplexity"])
def test_a_training_compares_its_model_with_the_best_baseline(tmp_path: Path, score: str):
    """Copying is the right answer here: no model can be better, and an untrained one is worse."""
    write_strings(tmp_path, {"train": 100, "dev": 20}, lambda chance: chance.choices(WORDS, k=5), list)
    settings = [f"training.score={score}", "training.epochs=1", "training.average=1", "training.learning_rate=0.0001"]
    baseline = train(toy_job(tmp_path, settings=settings)).baseline
    assert baseline is not None and baseline.is_better and baseline.name == "copying the source"
    assert baseline.metric == ("ROUGE-L" if score == "rouge-l" else "BLEU")
    assert baseline.score == pytest.approx(100) and baseline.model_score < 100


@pytest.mark.slow
def test_a_model_below_a_baseline_is_registered_with_a_warning_and_not_as_champion(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    monkeypatch.chdir(tmp_path)
    write_strings(tmp_path, {"train": 100, "dev": 20}, lambda chance: chance.choices(WORDS, k=5), list)
    words = ["train", "rnnsearch", "--data", "toy.yaml", "--no-ray", "--register", "toy", *QUICK]
    assert cli.run(words) == 0
    said = capsys.readouterr().err
    assert "warning: on the dev set the model has BLEU" in said and "copying the source has 100.00" in said
    assert "version 1 did not become the champion; `interlinear promote toy 1` makes it so." in said
    store = MlflowStore("sqlite:///mlflow.db")
    assert [(model.version, model.aliases) for model in store.list_models()] == [("1", ())]
    tags = store.client.get_model_version("toy", "1").tags
    assert "copying the source has 100.00" in tags["below_baseline"]
    with pytest.raises(RegistryError, match="interlinear promote toy VERSION"):
        store.alias_version(AliasName("toy", "champion"))
    assert cli.run(["promote", "toy", "1"]) == 0
    capsys.readouterr()
    assert cli.run(["models", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)[0]["aliases"] == ["champion"]


def test_adapted_settings_are_reported_and_stored_with_the_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    write_corpus(tmp_path, pairs=220)
    data = str(tmp_path / "toy.yaml")
    made = {"prepared": tmp_path / "prepared", "runs": tmp_path / "runs", "run": "small"}
    job = create_job("rnnsearch", data, ["training.warmup=300"], **made)  # type: ignore[arg-type]
    said = capsys.readouterr().err
    assert "small: 220 pairs make" in said and f"training.epochs={job.recipe.training.epochs}" in said
    assert job.recipe.training.warmup == 300 and job.recipe.training.epochs > 20
    assert f"epochs: {job.recipe.training.epochs}\n" in (tmp_path / "runs" / "small" / "recipe.yaml").read_text()


@pytest.mark.parametrize(
    ("begun", "resumed"), [(["training.epochs=4"], 12), ([], 50), (["training.epochs=2", "training.patience=3"], 9)]
)
def test_a_run_on_small_data_resumes_for_more_epochs_with_the_settings_that_it_began_with(
    tmp_path: Path, begun: list[str], resumed: int
):
    write_corpus(tmp_path, pairs=220)
    made = {"prepared": tmp_path / "prepared", "runs": tmp_path / "runs", "run": "small"}
    data = str(tmp_path / "toy.yaml")
    first = create_job("rnnsearch", data, begun, **made).recipe  # type: ignore[arg-type]
    (tmp_path / "runs" / "small" / "step-00000001.json").touch()
    more = create_job("rnnsearch", data, [f"training.epochs={resumed}"], resume=True, **made).recipe  # type: ignore[arg-type]
    assert more.training == first.training.model_copy(update={"epochs": resumed})


@pytest.mark.parametrize("stated", [[], ["training.patience=7"]])
def test_a_run_with_a_batch_and_warmup_of_its_own_resumes_with_the_epochs_and_patience_fitted_to_its_data(
    tmp_path: Path, stated: list[str]
):
    write_corpus(tmp_path, pairs=220)
    made = {"prepared": tmp_path / "prepared", "runs": tmp_path / "runs", "run": "small"}
    settings = ["training.batch_tokens=1000", "training.warmup=20", *stated]
    first, again = (
        create_job("rnnsearch", str(tmp_path / "toy.yaml"), settings, resume=resume, **made).recipe  # type: ignore[arg-type]
        for resume in (False, True)
    )
    assert first.training.epochs > 20 and again == first


def test_a_resumed_run_has_other_settings_where_they_are_stated(tmp_path: Path):
    write_corpus(tmp_path, pairs=220)
    made = {"prepared": tmp_path / "prepared", "runs": tmp_path / "runs", "run": "small"}
    data = str(tmp_path / "toy.yaml")
    create_job("rnnsearch", data, **made)  # type: ignore[arg-type]
    (tmp_path / "runs" / "small" / "step-00000001.json").touch()
    settings = ["training.patience=40", "training.batch_tokens=300"]
    training = create_job("rnnsearch", data, settings, resume=True, **made).recipe.training  # type: ignore[arg-type]
    assert (training.patience, training.batch_tokens) == (40, 300)  # the trainer then refuses another batch size


def test_a_resumption_that_is_refused_leaves_the_record_of_what_the_run_began_with(tmp_path: Path):
    recipe = tmp_path / "runs" / "toy" / "recipe.yaml"
    train(toy_job(tmp_path, settings=["training.epochs=1"]))
    before = recipe.read_text()
    with pytest.raises(TrainingError, match=r"begun with another recipe: training\.warmup \(0 -> 10\)"):
        toy_job(tmp_path, resume=True, settings=["training.warmup=10"])
    assert recipe.read_text() == before
    toy_job(tmp_path, resume=True, settings=["training.epochs=2"])
