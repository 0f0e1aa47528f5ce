"""Plans of tunings: the trials that a user's call makes, and the calls that are refused before anything changes."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest
import yaml

from interlinear.errors import InterlinearError, RecipeError, TrainingError, UsageError
from tests.training.toy import SETTINGS, write_corpus
from training.recipe import load_recipe
from training.tuning.planning import TuningRequest, fit_space, plan_tuning, prepare_trials, resume_tuning
from training.tuning.record import EpochResult, TuningRecord
from training.tuning.report import overridden_settings, trial_table, write_best_recipe
from training.tuning.space import Range, value_of

RATES = {"training.learning_rate": Range(log=(0.0005, 0.006)), "model.dropout": Range(choice=[0.1, 0.2, 0.3])}


@pytest.fixture
def request_toy(tmp_path: Path) -> TuningRequest:
    data = write_corpus(tmp_path)
    return TuningRequest(
        "rnnsearch",
        str(data),
        ("training.score=bleu",),
        RATES,
        4,
        runs=tmp_path / "runs",
        prepared=tmp_path / "prepared",
    )


def result(epoch: int, bleu: float, time: float = 0.0) -> EpochResult:
    """An epoch with this dev BLEU, which ended at this time."""
    return EpochResult(
        epoch=epoch, update=10 * epoch, train_loss=1.0, dev_perplexity=5.0, dev_bleu=bleu, seconds=1.0, time=time
    )


def test_the_first_trial_is_the_recipe_and_the_others_differ(request_toy: TuningRequest) -> None:
    record = plan_tuning(request_toy)
    first, *others = record.trials
    recipe = load_recipe("rnnsearch")
    assert first.settings == []
    assert first.values == {
        "training.learning_rate": recipe.training.learning_rate,
        "model.dropout": recipe.model.dropout,
    }
    assert len({tuple(trial.settings) for trial in others}) == 3
    for trial in others:
        assert {key: value_of(request_toy.trial_plan(trial).recipe, key) for key in RATES} == trial.values
    assert not request_toy.folder.exists()


def test_the_same_seed_makes_the_same_trials_and_more_of_them_begin_alike(request_toy: TuningRequest) -> None:
    trials = plan_tuning(request_toy).trials
    assert plan_tuning(request_toy).trials == trials
    assert plan_tuning(replace(request_toy, trials=6)).trials[:4] == trials
    assert plan_tuning(replace(request_toy, seed=2)).trials[1:] != trials[1:]


@pytest.mark.parametrize(
    ("change", "error", "said"),
    [
        (
            {"space": {"model.droput": Range(choice=[0.1])}},
            RecipeError,
            "model.droput: unknown key. Did you mean dropout?",
        ),
        ({"space": {"model.dropout": Range(choice=[0.1, 1.5])}}, RecipeError, "model.dropout"),
        ({"space": {"training.epochs": Range(choice=[1])}}, UsageError, "give it with --epochs"),
        ({"space": {"training.score": Range(choice=["bleu"])}}, UsageError, "by which trials are compared"),
        ({"space": {"target.vocabulary": Range(choice=[9])}, "settings": ()}, UsageError, "perplexities per token"),
        ({"settings": ("model.dropout=0.1",)}, UsageError, "model.dropout: is given with --set as well"),
        ({"settings": ("training.epochs=3",), "epochs": 2}, UsageError, "--epochs"),
        ({"grace": 4, "epochs": 3}, UsageError, "--grace: 4 is more than a trial's 3 epochs"),
        ({"recipe": "rnnserch"}, RecipeError, "did you mean rnnsearch?"),
        ({"run": "a/b c"}, UsageError, "is no name for a run"),
    ],
)
def test_a_wrong_call_is_refused_and_changes_nothing(
    request_toy: TuningRequest, change: Mapping[str, object], error: type[InterlinearError], said: str
) -> None:
    with pytest.raises(error) as raised:
        plan_tuning(replace(request_toy, trials=8, **change))  # type: ignore[arg-type]
    assert said.lower() in str(raised.value).lower()
    assert not request_toy.runs.exists()


def test_a_resumed_tuning_must_be_the_same_but_may_have_more_trials(request_toy: TuningRequest) -> None:
    with pytest.raises(TrainingError, match="there is no tuning of that name to resume"):
        resume_tuning(request_toy)
    record = plan_tuning(request_toy)
    request_toy.folder.mkdir(parents=True)
    record.trials[0].state = "finished"
    record.trials[1].state = "running"
    record.write(request_toy.folder)
    with pytest.raises(UsageError, match="there is a tuning of that name"):
        plan_tuning(request_toy)
    for change, said in (
        ({"seed": 2}, "--seed"),
        ({"epochs": 9}, "--epochs"),
        ({"space": {"model.dropout": Range(choice=[0.1])}}, "the search space"),
        ({"trials": 3}, r"--trials \(4 -> 3\)"),
    ):
        with pytest.raises(TrainingError, match=f"begun with another {said}"):
            resume_tuning(replace(request_toy, **change))  # type: ignore[arg-type]
    resumed = resume_tuning(replace(request_toy, trials=5, space=None))
    assert [trial.state for trial in resumed.trials] == ["finished", *["pending"] * 4]
    assert [trial.values for trial in resumed.trials[:4]] == [trial.values for trial in record.trials]


def test_small_data_is_tuned_around_the_settings_that_it_gets(request_toy: TuningRequest) -> None:
    settings = tuple(setting for setting in SETTINGS if "units" in setting)
    toy = replace(request_toy, space=None, settings=settings)
    record = plan_tuning(toy)
    recipes_own = record.trials[0].values["training.batch_tokens"]
    fit_space(record, toy)
    fitted = record.trials[0].values["training.batch_tokens"]
    assert fitted < recipes_own and len(record.trials) == 4
    assert set(record.space["training.batch_tokens"].choice or ()) == {fitted // 2, fitted, 2 * fitted}


@pytest.mark.parametrize("own_space", [None, {"training.batch_tokens": Range(choice=[100, 200, 500, 1500])}])
def test_trials_on_small_data_have_as_many_epochs_whatever_batch_they_draw(
    request_toy: TuningRequest, own_space: dict[str, Range] | None
) -> None:
    settings = tuple(setting for setting in SETTINGS if "units" in setting)
    toy = replace(request_toy, space=own_space, settings=settings, trials=6)
    record = plan_tuning(toy)
    fit_space(record, toy)
    recipes = [job.recipe for job in prepare_trials(record, toy).values()]
    assert len({recipe.training.batch_tokens for recipe in recipes}) > 2
    assert len({(recipe.training.epochs, recipe.training.patience) for recipe in recipes}) == 1
    assert recipes[0].training.epochs > load_recipe("rnnsearch").training.epochs
    record.trials[3].curve = [result(1, 50.0)]
    toy.folder.mkdir(parents=True, exist_ok=True)
    best = load_recipe(str(write_best_recipe(record, toy.folder)))
    assert (best.training.epochs, best.training.patience) == (recipes[0].training.epochs, recipes[0].training.patience)
    record.write(toy.folder)
    added = resume_tuning(replace(toy, trials=7)).trials[-1]
    assert toy.trial_plan(added).recipe.training.epochs == recipes[0].training.epochs


def test_epochs_that_are_given_are_those_of_all_trials_on_small_data(request_toy: TuningRequest) -> None:
    settings = tuple(setting for setting in SETTINGS if "units" in setting)
    toy = replace(request_toy, space=None, settings=settings, epochs=7)
    record = plan_tuning(toy)
    fit_space(record, toy)
    assert {job.recipe.training.epochs for job in prepare_trials(record, toy).values()} == {7}


def finished(request: TuningRequest) -> TuningRecord:
    """A tuning whose third trial is the best, in its first epoch."""
    record = plan_tuning(request)
    for number, scores in enumerate(((10.0, 20.0), (5.0,), (30.0, 25.0), ())):
        record.trials[number].curve = [result(epoch + 1, score) for epoch, score in enumerate(scores)]
    record.trials[0].state, record.trials[1].state, record.trials[3].state = "finished", "stopped", "failed"
    return record


def test_the_best_recipe_trains_with_the_best_values(request_toy: TuningRequest, tmp_path: Path) -> None:
    record = finished(request_toy)
    path = write_best_recipe(record, tmp_path)
    best = load_recipe(str(path))
    assert {key: value_of(best, key) for key in RATES} == record.trials[2].values
    assert best.training.score == "bleu" and best.model.hidden == load_recipe("rnnsearch").model.hidden
    assert yaml.safe_load(path.read_text())["extends"] == "rnnsearch"
    assert overridden_settings(record, path, None) == []


def test_settings_that_a_data_sets_defaults_override_are_named(request_toy: TuningRequest, tmp_path: Path) -> None:
    data = Path(request_toy.data)
    data.write_text(data.read_text() + "defaults: {model.dropout: 0.4}\n")
    record = finished(request_toy)
    path = write_best_recipe(record, tmp_path)
    dropout = record.trials[2].values["model.dropout"]
    assert overridden_settings(record, path, None) == [f"model.dropout={dropout}"]


def test_the_table_shows_every_trial_and_marks_the_best(request_toy: TuningRequest) -> None:
    header, first, second, third, fourth = trial_table(finished(request_toy)).splitlines()
    assert header.split() == ["trial", "learning_rate", "dropout", "epochs", "dev", "BLEU", "state"]
    assert first.split()[-3:] == ["2", "20.00", "finished"] and second.split()[-3:] == ["1", "5.00", "stopped"]
    assert third.startswith("trial-03 *") and "30.00" in third
    assert fourth.split()[-3:] == ["0", "-", "failed"]
    assert len({len(line) for line in (header, first, second, third, fourth)}) == 1
