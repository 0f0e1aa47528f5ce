"""Search spaces: what users write, what is drawn of it, and the sentences for what is wrong."""

import random
from pathlib import Path

import pytest
import yaml

from interlinear.errors import UsageError
from training.recipe import load_recipe
from training.tuning.space import Range, as_settings, default_space, draw_values, read_space


def test_ranges_are_read_from_a_file_and_arguments_override_them(tmp_path: Path) -> None:
    file = tmp_path / "space.yaml"
    file.write_text("training.learning_rate: {log: [0.0005, 0.006]}\nmodel.dropout: {uniform: [0.1, 0.5]}\n")
    space = read_space(file, ["model.dropout={choice: [0.2, 0.3]}", "training.warmup={log: [10, 1000]}"])
    assert space == {
        "training.learning_rate": Range(log=(0.0005, 0.006)),
        "model.dropout": Range(choice=[0.2, 0.3]),
        "training.warmup": Range(log=(10, 1000)),
    }


@pytest.mark.parametrize(
    ("argument", "said"),
    [
        ("model.dropout={uniform: [0.5, 0.1]}", r"model.dropout: the range \[0.5, 0.1\] is inverted"),
        ("model.dropout={log: [0, 1]}", r"a log-uniform range must be above 0, and \[0, 1\] is not"),
        ("model.dropout={uniform: [0, .inf]}", "must be finite"),
        ("model.dropout={choice: []}", "choice"),
        ("model.dropout={steps: [0, 1]}", "unknown key 'steps'"),
        ("model.dropout={log: [1, 2], choice: [3]}", "give one of"),
        ("model.dropout={log: [1, 2, 3]}", "log"),
        ("model.dropout=0.3", "this is no range"),
        ("model.dropout", "this is no range"),
        ("model.dropout={", "this is no range"),
    ],
)
def test_a_wrong_range_is_refused_in_one_sentence(argument: str, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        read_space(None, [argument])


@pytest.mark.parametrize(
    ("text", "said"), [("[1, 2]", "not a mapping"), ("a: 1", "1 is no range"), ("{}", "no recipe key")]
)
def test_a_wrong_file_is_refused_by_its_name(tmp_path: Path, text: str, said: str) -> None:
    (tmp_path / "mine.yaml").write_text(text)
    with pytest.raises(UsageError, match=f"mine.yaml.*{said}"):
        read_space(tmp_path / "mine.yaml")


def test_draws_stay_within_their_range_and_keep_its_type() -> None:
    chance = random.Random(1)
    rates = [Range(log=(0.001, 0.1)).draw(chance) for _ in range(400)]
    assert all(0.001 <= rate <= 0.1 for rate in rates)
    assert 150 < sum(rate < 0.01 for rate in rates) < 250  # half of them in the lower decade
    updates = {Range(uniform=(1, 4)).draw(chance) for _ in range(100)}
    assert updates == {1, 2, 3, 4} and all(type(value) is int for value in updates)


def test_a_trials_values_depend_on_seed_number_and_key_alone() -> None:
    rate, dropout = Range(log=(0.001, 0.1)), Range(uniform=(0.0, 0.5))
    both = draw_values({"rate": rate, "dropout": dropout}, seed=1, number=3)
    assert both == draw_values({"dropout": dropout, "rate": rate}, 1, 3)
    assert both["rate"] == draw_values({"rate": rate}, 1, 3)["rate"]
    assert both != draw_values({"rate": rate, "dropout": dropout}, 2, 3)
    assert both != draw_values({"rate": rate, "dropout": dropout}, 1, 4)


@pytest.mark.parametrize("name", ["rnnsearch", "uam", "paper/rnnsearch", "paper/uam", "interactive_attention"])
def test_every_recipe_has_a_default_space_whose_values_it_accepts(name: str) -> None:
    recipe = load_recipe(name)
    space = default_space(recipe)
    assert {"training.learning_rate", "training.warmup", "model.dropout", "training.label_smoothing"} <= set(space)
    assert "training.batch_tokens" in space or "training.batch_sentences" in space
    assert "model.dropout" not in default_space(recipe, ["model.dropout"])
    for number in range(2, 6):
        values = draw_values(space, 1, number)
        tuned = load_recipe(name, as_settings(values)).model_dump()
        for key, value in values.items():
            section, field = key.split(".")
            assert tuned[section][field] == value


def test_settings_are_read_back_as_the_same_values() -> None:
    values = {"a": 1e-05, "b": 0.1, "c": 3, "d": "bleu", "e": None, "f": True, "g": 1500.0}
    for setting in as_settings(values):
        key, _, text = setting.partition("=")
        assert yaml.safe_load(text) == values[key] and type(yaml.safe_load(text)) is type(values[key])
