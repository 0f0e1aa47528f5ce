"""Recipes: what builds on what, and that nothing in one is ignored."""

from pathlib import Path

import pytest

from seq2seq.errors import RecipeError
from training.recipe import load_recipe, recipe_names


@pytest.mark.parametrize("name", recipe_names())
def test_every_shipped_recipe_is_valid(name: str) -> None:
    assert load_recipe(name).about


def test_a_recipe_is_the_difference_from_what_it_extends(tmp_path: Path) -> None:
    mine = tmp_path / "mine.yaml"
    mine.write_text("extends: rnnsearch\nmodel: {layers: 2}\n")
    recipe, base = load_recipe(str(mine)), load_recipe("rnnsearch")
    assert recipe.model.layers == 2
    assert recipe.model_copy(update={"model": base.model}) == base


def test_settings_win_over_the_data_sets_defaults_and_these_over_the_recipe() -> None:
    defaults = {"training.epochs": 7, "target.vocabulary": 500}
    recipe = load_recipe("rnnsearch", ["training.epochs=3"], defaults)
    assert (recipe.training.epochs, recipe.target.vocabulary, recipe.sources["source"].vocabulary) == (3, 500, 8000)


def test_a_default_gives_way_to_a_recipe_that_unsets_its_key() -> None:
    defaults = {"training.batch_tokens": 500}
    assert load_recipe("rnnsearch", defaults=defaults).training.batch_tokens == 500
    paper = load_recipe("paper/rnnsearch", defaults=defaults).training
    assert (paper.batch_tokens, paper.batch_sentences) == (None, 32)


@pytest.mark.parametrize(
    ("setting", "says"),
    [
        ("model.layrs=2", "model.layrs: unknown key. Did you mean layers?"),
        ("nonsense=1", "nonsense: unknown key"),
        ("model.gru=paper", "model.gru: has no effect with cell: lstm"),
        ("model.encoder_stacks=interleaved", "encoder_stacks: has no effect with one encoder layer"),
        ("model.initialization_scale=0.1", "initialization_scale: has no effect"),
        ("training.halve_from=3", "training.halve_from: has no effect with schedule: halve_on_plateau"),
        ("training.rho=0.9", "training.rho: has no effect with optimizer: adam"),
        ("training.weight_decay=0.1", "training.weight_decay: has no effect with optimizer: adam"),
        ("training.schedule=inverse_square_root", "training.warmup: inverse_square_root needs one"),
        ("training.batch_sentences=32", "batch_tokens"),
        ("training.batch_tokens=null", "batch_tokens"),
        ("model.tie_embeddings=all", "needs joint_vocabulary"),
        ("training.risk.metrc=bleu", "training.risk.metrc: unknown key. Did you mean metric?"),
        ("training.risk.metric=bleu", "training.risk: has no effect with objective: likelihood"),
        ("training.objective=risk", "training.init_from: objective: risk is a second stage"),
        ("search.n_best=9", "search.n_best: 9 outputs cannot come from a beam of 5"),
        ("model.layers=two", "model.layers: input should be a valid integer"),
        ("model.layers", "this is no setting"),
        ("about.x=1", "holds a value"),
        ("model.layers=[", "no YAML"),
    ],
)
def test_what_has_no_meaning_is_refused_by_name(setting: str, says: str) -> None:
    with pytest.raises(RecipeError) as caught:
        load_recipe("rnnsearch", [setting])
    assert says in str(caught.value)


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        (["training.score=perplexity"], "training.score: objective: risk gives up perplexity"),
        (["training.label_smoothing=0.1"], "training.label_smoothing: has no effect with objective: risk unless"),
        (["training.divide_by=tokens"], "training.divide_by: risk is a sentence's"),
        (["training.risk.draw=beam", "training.risk.candidates=65"], "training.risk.candidates: 65 cannot come from"),
        (["training.risk.candidates=1"], "training.risk.candidates: input should be greater than"),
        (["training.risk.alpha=0"], "training.risk.alpha: input should be greater than 0"),
    ],
)
def test_what_has_no_meaning_in_a_second_stage_is_refused_by_name(settings: list[str], says: str) -> None:
    stage = ["training.objective=risk", "training.init_from=x", "training.label_smoothing=0", "training.score=bleu"]
    assert load_recipe("rnnsearch", stage).training.risk is None
    with pytest.raises(RecipeError) as caught:
        load_recipe("rnnsearch", [*stage, *settings])
    assert says in str(caught.value)


def test_a_recipe_that_is_not_there_brings_the_nearest_to_mind() -> None:
    with pytest.raises(RecipeError, match="Did you mean rnnsearch"):
        load_recipe("rnnserch")


@pytest.mark.parametrize("content", ["- a\n", "a: [\n", "", "extends: {path}\n"])
def test_a_file_that_is_no_recipe_is_refused(tmp_path: Path, content: str) -> None:
    mine = tmp_path / "mine.yaml"
    mine.write_text(content.format(path=mine))
    with pytest.raises(RecipeError, match=r"mine\.yaml"):
        load_recipe(str(mine))


def test_a_recipe_survives_being_written_out(tmp_path: Path) -> None:
    recipe = load_recipe("paper/rnnsearch", ["model.layers=2"])
    (tmp_path / "again.yaml").write_text(recipe.as_yaml())
    assert load_recipe(str(tmp_path / "again.yaml")) == recipe
