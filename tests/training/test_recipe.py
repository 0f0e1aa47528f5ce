"""Recipes: inheritance, validation, and that no key is ignored."""

from pathlib import Path

import pytest

from interlinear.config import ImageGrid, ImageNetwork
from interlinear.errors import RecipeError
from training.recipe import load_recipe, recipe_names, stated_keys


@pytest.mark.parametrize("name", recipe_names())
def test_every_shipped_recipe_is_valid(name: str) -> None:
    assert load_recipe(name).about


def test_a_recipe_overrides_the_recipe_that_it_extends(tmp_path: Path) -> None:
    mine = tmp_path / "mine.yaml"
    mine.write_text("extends: rnnsearch\nmodel: {layers: 2}\n")
    recipe, base = load_recipe(str(mine)), load_recipe("rnnsearch")
    assert recipe.model.layers == 2
    assert recipe.model_copy(update={"model": base.model}) == base


def test_settings_override_the_data_sets_defaults_which_override_the_recipe() -> None:
    defaults = {"training.epochs": 7, "target.vocabulary": 500}
    recipe = load_recipe("rnnsearch", ["training.epochs=3"], defaults)
    assert (recipe.training.epochs, recipe.target.vocabulary, recipe.sources["source"].vocabulary) == (3, 500, 8000)


def test_a_default_is_ignored_if_the_recipe_unsets_its_key() -> None:
    defaults = {"training.batch_tokens": 500}
    assert load_recipe("rnnsearch", defaults=defaults).training.batch_tokens == 500
    paper = load_recipe("paper/rnnsearch", defaults=defaults).training
    assert (paper.batch_tokens, paper.batch_sentences) == (None, 32)


@pytest.mark.parametrize(
    ("setting", "says"),
    [
        ("model.layrs=2", "model.layrs: unknown key. Did you mean layers?"),
        ("model.kind=perceptron", "model.kind: should be recurrent or transformer"),
        ("model.heads=4", "model.heads: unknown key"),
        ("nonsense=1", "nonsense: unknown key"),
        ("model.gru=paper", "model.gru: has no effect with cell: lstm"),
        ("model.encoder_stacks=interleaved", "encoder_stacks: has no effect with one encoder layer"),
        ("model.initialization_scale=0.1", "initialization_scale: has no effect"),
        ("training.halve_from=3", "training.halve_from: has no effect with schedule: halve_on_plateau"),
        ("training.rho=0.9", "training.rho: has no effect with optimizer: adam"),
        ("training.weight_decay=0.1", "training.weight_decay: has no effect with optimizer: adam"),
        ("training.batch_sentences=32", "batch_tokens"),
        ("training.batch_tokens=null", "batch_tokens"),
        ("model.tie_embeddings=all", "needs joint_vocabulary"),
        ("training.risk.metrc=bleu", "training.risk.metrc: unknown key. Did you mean metric?"),
        ("training.risk.metric=bleu", "training.risk: has no effect with objective: likelihood"),
        ("training.objective=risk", "training.init_from: objective: risk is a second stage"),
        ("search.n_best=9", "search.n_best: 9 outputs cannot come from a beam of 5"),
        ("model.layers=two", "model.layers: input should be a valid integer"),
        (
            "search.length_penalty=long",
            "search.length_penalty: input should be 'none' or 'average', or a valid number, unable to parse",
        ),
        *[
            (f"search.length_penalty={value}", "search.length_penalty: input should be 'none' or 'average', or")
            for value in ("-0.5", "11", ".nan", ".inf")
        ],
        ("search.coverage_penalty=.inf", "search.coverage_penalty: input should be a finite number"),
        ("training.seed=-1", "training.seed: input should be greater than or equal to 0"),
        ("model.layers", "this is no setting"),
        ("about.x=1", "holds a value"),
        ("model.layers=[", "no YAML"),
    ],
)
def test_invalid_settings_are_refused_by_name(setting: str, says: str) -> None:
    with pytest.raises(RecipeError) as caught:
        load_recipe("rnnsearch", [setting])
    assert says in str(caught.value)


def test_a_size_may_be_a_number_or_a_word() -> None:
    sizes = [load_recipe("word_attention", [f"model.word_attention_size={size}"]).model for size in ("40", "embedding")]
    assert [model.word_energy_size for model in sizes] == [40, 256]
    with pytest.raises(RecipeError) as caught:
        load_recipe("word_attention", ["model.word_attention_size=wide"])
    assert str(caught.value).startswith("word_attention: model.word_attention_size: input should be a valid integer")
    assert ", or 'embedding'" in str(caught.value)


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
def test_invalid_settings_of_a_second_stage_are_refused_by_name(settings: list[str], says: str) -> None:
    stage = ["training.objective=risk", "training.init_from=x", "training.label_smoothing=0", "training.score=bleu"]
    assert load_recipe("rnnsearch", stage).training.risk is None
    with pytest.raises(RecipeError) as caught:
        load_recipe("rnnsearch", [*stage, *settings])
    assert says in str(caught.value)


def test_a_schedule_that_decays_from_the_end_of_warm_up_requires_warm_up() -> None:
    with pytest.raises(RecipeError, match=r"training\.warmup: inverse_square_root needs one"):
        load_recipe("rnnsearch", ["training.schedule=inverse_square_root", "training.warmup=0"])


def test_a_missing_recipe_suggests_the_closest_name() -> None:
    with pytest.raises(RecipeError, match="Did you mean rnnsearch"):
        load_recipe("rnnserch")


def test_a_file_that_a_recipe_extends_is_looked_up_beside_it_and_then_in_the_working_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "sub").mkdir()
    monkeypatch.chdir(tmp_path)
    Path("sub/second.yaml").write_text("extends: first.yaml\nmodel: {layers: 2}\n")
    Path("first.yaml").write_text("extends: rnnsearch\ntraining: {warmup: 7}\n")
    assert load_recipe("sub/second.yaml").training.warmup == 7
    Path("sub/first.yaml").write_text("extends: rnnsearch\ntraining: {epochs: 9}\n")
    recipe = load_recipe("sub/second.yaml")
    assert (recipe.training.epochs, recipe.training.warmup) == (9, load_recipe("rnnsearch").training.warmup)
    assert stated_keys("sub/second.yaml") == {"model.layers", "training.epochs"}
    assert load_recipe(str(tmp_path / "sub" / "second.yaml")) == recipe
    Path("sub/base.yaml").write_text("extends: base.yaml\nmodel: {layers: 2}\n")  # of that name in the working folder
    Path("base.yaml").write_text("extends: rnnsearch\ntraining: {warmup: 8}\n")
    assert load_recipe("sub/base.yaml").training.warmup == 8


@pytest.mark.parametrize("content", ["- a\n", "a: [\n", "", "extends: {path}\n"])
def test_a_file_that_is_not_a_recipe_is_refused(tmp_path: Path, content: str) -> None:
    mine = tmp_path / "mine.yaml"
    mine.write_text(content.format(path=mine))
    with pytest.raises(RecipeError, match=r"mine\.yaml"):
        load_recipe(str(mine))


@pytest.mark.parametrize("unset", [(), ("training.clip=null", "training.patience=null")])
def test_a_recipe_survives_serialization(tmp_path: Path, unset: tuple[str, ...]) -> None:
    recipe = load_recipe("paper/rnnsearch", ["model.layers=2", *unset])
    (tmp_path / "again.yaml").write_text(recipe.as_yaml())
    assert load_recipe(str(tmp_path / "again.yaml")) == recipe
    # A default for the kind of batch that the recipe does not have is not applied to it, nor to its copy.
    assert load_recipe(str(tmp_path / "again.yaml"), (), {"training.batch_tokens": 500}) == recipe


# Several sources

PICTURES = """
extends: rnnsearch
sources:
  source: {vocabulary: 300}
  image: {kind: image, size: 64}
model: {combination: hierarchical}
"""


@pytest.fixture
def pictures(tmp_path: Path) -> str:
    path = tmp_path / "pictures.yaml"
    path.write_text(PICTURES)
    return str(path)


def test_a_recipe_may_have_texts_and_images(pictures: str) -> None:
    recipe = load_recipe(pictures, ["sources.mt={kind: text, vocabulary: 200}"])
    assert (list(recipe.texts), list(recipe.images)) == (["source", "mt"], ["image"])
    config = recipe.model_for({"source": 290, "mt": 200, "target": 310}, {})
    assert list(config.sources) == ["source", "image", "mt"]
    assert (config.texts["mt"].vocabulary, config.target.vocabulary) == (200, 310)
    assert config.images["image"] == ImageGrid(
        rows=4, columns=4, features=128, network=ImageNetwork(kind="small", size=64)
    )
    path = Path(pictures).with_name("again.yaml")
    path.write_text(recipe.as_yaml())
    assert load_recipe(str(path)) == recipe


def test_image_features_come_from_the_data(pictures: str) -> None:
    recipe = load_recipe(pictures, ["sources.image.encoder=grid", "sources.image.size=null"])
    given = ImageGrid(rows=7, columns=7, features=128, made_by="somebody")
    assert recipe.images["image"].pixels is None
    assert recipe.model_for({"source": 9, "target": 9}, {"image": given}).images["image"] == given


def test_a_frozen_network_is_stored_in_the_config(pictures: str) -> None:
    settings = ["sources.image.weights=w.safetensors", "sources.image.frozen=true", "sources.image.network=resnet50"]
    grid = load_recipe(pictures, settings).model_for({"source": 9, "target": 9}, {}).images["image"]
    assert (grid.rows, grid.features) == (2, 2048)
    assert grid.network == ImageNetwork(kind="resnet50", size=64, frozen=True)


def test_a_data_sets_defaults_for_other_sources_are_ignored(pictures: str) -> None:
    defaults = {"sources.french.vocabulary": 5000, "sources.source.vocabulary": 123, "sources.image.size": 32}
    recipe = load_recipe(pictures, defaults=defaults)
    assert list(recipe.sources) == ["source", "image"]
    assert (recipe.texts["source"].vocabulary, recipe.images["image"].pixels) == (123, 32)
    assert list(load_recipe("rnnsearch", defaults=defaults).sources) == ["source"]


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        (["sources.image.sze=3"], "sources.image.sze: unknown key. Did you mean size?"),
        (["sources.image.vocabulary=300"], "sources.image.vocabulary: unknown key. Known here: kind, encoder, network"),
        (["sources.source.size=64"], "sources.source.size: unknown key. Known here: kind, units"),
        (["sources.image.size=8"], "sources.image.size: input should be greater than or equal to 16"),
        (["sources.image.network=vgg"], "sources.image.network: there is no network vgg; there are resnet50, small"),
        (["sources.image.encoder=grid"], "sources.image.size: has no effect with encoder: grid"),
        (
            ["sources.image={kind: image, encoder: grid, weights: w}", "sources.image.size=null"],
            "sources.image.weights: has no effect with encoder: grid",
        ),
        (["sources.image.frozen=true"], "sources.image.frozen: would freeze randomly initialised weights"),
        (["sources.source={kind: image}"], "sources: one of them must be text"),
        (["sources.target={kind: text}"], "sources.target: is reserved for the output"),
        (["sources.image.kind=sound"], "sources.image.kind: 'sound' is none of text"),
        (["sources.image=3"], "sources.image: input should be"),
        (["sources={}"], "sources: dictionary should have at least 1 item"),
        (["model.combination=none"], "model.combination: must be set when there are several sources"),
        (
            ["model.share_projections=true", "model.attention_size=100"],
            "model.share_projections: one matrix makes keys and values (U_b = U_c), and the keys have 100 numbers "
            "(attention_size), the values 256 (combination_size)",
        ),
        (["model.share_projections=true", "model.combination_size=100"], "(U_b = U_c), and the keys have 256"),
        (
            ["model.combination=flat", "model.share_projections=true", "model.combination_size=100"],
            "model.share_projections: one matrix makes keys and values (U_a = U_c), and the keys have 256 numbers",
        ),
        (["joint_vocabulary=true"], "joint_vocabulary: source and target must have the same units and vocabulary size"),
        (["target.kind=image"], "target.kind: 'image' is none of text"),
    ],
)
def test_errors_of_a_source_are_named(pictures: str, settings: list[str], says: str) -> None:
    with pytest.raises(RecipeError) as caught:
        load_recipe(pictures, settings)
    assert says in str(caught.value)


def test_a_joint_vocabulary_is_shared_by_the_texts(pictures: str) -> None:
    recipe = load_recipe(pictures, ["joint_vocabulary=true", "target.vocabulary=300"])
    assert recipe.joint_vocabulary and list(recipe.images) == ["image"]


def test_parts_that_conflict_with_the_sources_are_refused_with_the_reason(pictures: str) -> None:
    recipe = load_recipe(pictures, ["sources.mt={kind: text}", "model.word_attention=true"])
    with pytest.raises(RecipeError, match="word_attention: reads one text's words, and there are 2 texts"):
        recipe.model_for({"source": 9, "mt": 9, "target": 9}, {})


@pytest.mark.parametrize(
    ("recipe", "settings", "says"),
    [
        ("rnnsearch", ["training.guide.weight=2"], "training.guide.from: field required"),
        ("rnnsearch", ["training.guide.from=hmm", "training.guide.weight=0"], "training.guide.weight: input should be"),
        (
            "rnnsearch",
            ["training.guide.from=hmm", "training.guide.after=2"],
            "after: has no effect with from: hmm",
        ),
        (
            "rnnsearch",
            ["training.guide.from=l", "training.guide.reverse=m"],
            "reverse: has no effect with from: l",
        ),
        ("rnnsearch", ["training.guide.from=self", "training.guide.after=2"], "guide.reverse: from: self needs it"),
        ("rnnsearch", ["training.guide.from=self", "training.guide.reverse=m"], "guide.after: from: self needs it"),
        (
            "rnnsearch",
            ["training.guide.from=self", "training.guide.reverse=m", "training.guide.after=20"],
            "guide.after: training.epochs is 20, so that no epoch would be guided",
        ),
        ("rnnsearch_guided", ["training.guide.wait=2"], "training.guide.wait: unknown key. Did you mean weight?"),
        ("multimodal_concat", ["training.guide=hmm"], "training.guide: links words, and source 'image' is an image"),
        ("postedit_concat", ["training.guide=hmm", "target.operations_on=mt"], "the model writes operations"),
    ],
)
def test_invalid_guides_are_refused_by_name(recipe: str, settings: list[str], says: str) -> None:
    with pytest.raises(RecipeError) as error:
        load_recipe(recipe, settings)
    assert says in str(error.value)


def test_a_guide_may_be_one_word_and_survives_serialization(tmp_path: Path) -> None:
    recipe = load_recipe("rnnsearch", ["training.guide=hmm"])
    assert recipe.training == load_recipe("rnnsearch_guided").training
    (tmp_path / "r.yaml").write_text(recipe.as_yaml())
    assert load_recipe(str(tmp_path / "r.yaml")) == recipe
    assert load_recipe(str(tmp_path / "r.yaml"), ["training.guide=null"]) == load_recipe("rnnsearch")
