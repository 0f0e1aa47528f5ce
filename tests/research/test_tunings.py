"""Groups whose systems are tuned first: all by the same budget, and their runs have the values that were chosen."""

from pathlib import Path

import pytest

from research.papers import PaperTables
from research.records import SystemKey, write_record
from research.tunings import SystemTuning, apply_tunings, read_tunings, tuning_file
from tests.research.conftest import SYSTEMS, group_of, keep_run, reproduce, write_paper
from training.tuning.record import EpochResult, TrialRecord, TuningRecord
from training.tuning.space import Range

pytestmark = pytest.mark.slow

BUDGET = {"trials": 2, "epochs": 2, "grace": 2, "settings": {"training.score": "bleu"}}
SETTINGS = {"training.epochs": 1}


def keep_tuning(folder: Path, table: PaperTables, system: str, dropout: float, second_is_better: bool) -> None:
    """Store the tuning of a system: the recipe's trial, and one with another dropout."""
    group = table.groups["toys"]
    assert group.tuning

    def trial(number: int, dropout: float, bleu: float) -> TrialRecord:
        epoch = EpochResult(
            epoch=1, update=9, train_loss=1, dev_perplexity=2, dev_bleu=bleu, seconds=1, time=1790000000
        )
        own = [f"model.dropout={dropout}"] if number > 1 else []
        return TrialRecord(
            name=f"trial-0{number}", values={"model.dropout": dropout}, settings=own, state="finished", curve=[epoch]
        )

    record = TuningRecord(
        recipe=system, data=group.data, settings=[], space={"model.dropout": Range(choice=[0.3, dropout])}, seed=1,
        epochs=2, grace=2, reduction=2, metric="bleu",
        trials=[trial(1, 0.3, 31.5), trial(2, dropout, 32.25 if second_is_better else 30.0)],
    )  # fmt: skip
    place = SystemKey(table="paper", group="toys", system=system, scale="small")
    tuning = SystemTuning(place=place, training=group.training(system, "small"), budget=group.tuning, record=record)
    write_record(tuning_file(folder, place), tuning)


def test_systems_without_a_tuning_are_tuned_by_the_group_s_budget(data: Path, capsys: pytest.CaptureFixture[str]):
    table = write_paper(data, "ter", tuning=BUDGET, settings=SETTINGS)
    keep_tuning(data, table, "one", 0.05, second_is_better=True)
    assert reproduce(data, "--dry-run") == 0
    captured = capsys.readouterr()
    tune, baseline, other = captured.out.splitlines()
    assert tune.startswith("interlinear tune other --data ")
    assert "--run paper.toys.other.small.tuning --trials 2 --epochs 2 --grace 2 --seed 1 " in tune
    assert "--set training.score=bleu" in tune and "training.epochs=" not in tune and "--no-ray" not in tune
    assert "--set model.dropout=0.05" in baseline and "--set training.epochs=1" in baseline
    assert "--set training.score=bleu" in baseline, "the score that decided on epochs and rates in the trial"
    assert "model.dropout" not in other
    assert "the values that a tuning chooses are added" in captured.err
    assert not (data / "trained").exists()


def test_trials_share_gpus_and_run_on_a_cluster_where_the_user_says_so(data: Path, capsys: pytest.CaptureFixture[str]):
    write_paper(data, "ter", tuning=BUDGET)
    assert reproduce(data, "--dry-run", "--gpu", "--per-gpu", "8") == 0
    tune = capsys.readouterr().out.splitlines()[0]
    assert tune.startswith("interlinear tune one ") and " --gpu" in tune and " --per-gpu 8" in tune
    assert reproduce(data, "--dry-run", "--per-gpu", "8") == 2
    assert "--per-gpu: it has no effect without --gpu" in capsys.readouterr().err
    assert reproduce(data, "--dry-run", "--address", "127.0.0.1:6379", "--at-once", "8") == 0
    tune, *_, train = capsys.readouterr().out.splitlines()
    assert "--address 127.0.0.1:6379" in tune and "--at-once 8" in tune
    assert train.startswith("interlinear train") and "--no-ray" in train and "--address" not in train


def test_the_page_says_which_values_were_chosen(data: Path, capsys: pytest.CaptureFixture[str]):
    table = write_paper(data, "ter", tuning=BUDGET, settings=SETTINGS)
    keep_tuning(data, table, "one", 0.05, second_is_better=True)
    keep_tuning(data, table, "other", 0.2, second_is_better=False)
    tuned = apply_tunings(table, read_tunings(data, "paper", table, "small"))
    for system, lines in SYSTEMS.items():
        keep_run(data, tuned, system, lines)
    assert reproduce(data) == 0
    page = (data / "paper/table.md").read_text()
    assert "the same budget: 2 trials of at most 2 epochs" in page
    assert "| system | `dropout` | dev BLEU | of the recipe itself |" in page
    assert "Runs with chosen values have `training.score=bleu` too, as all trials had." in page
    assert "| one | 0.05 | 32.25 | 31.50 |" in page and "| other | 0.3 | 31.50 | 31.50 |" in page
    (data / "tunings/paper.toys.one.small.json").unlink()
    assert reproduce(data) == 1, "before anything is tuned"
    assert "paper.toys.one.small.1.json: the run was trained otherwise" in capsys.readouterr().err


def test_a_system_that_the_recipe_suits_best_takes_the_runs_of_the_group_that_is_not_tuned(
    data: Path, capsys: pytest.CaptureFixture[str]
):
    table = write_paper(data, "ter", {"plain": group_of(data, "ter")}, tuning=BUDGET)
    for system, lines in SYSTEMS.items():
        keep_run(data, table, system, lines, "plain")
        keep_tuning(data, table, system, 0.05, second_is_better=False)
    assert reproduce(data, "--only", "toys") == 0
    (part,) = [part for part in (data / "paper/table.md").read_text().split("\n## ") if part.startswith("toys:")]
    for system in SYSTEMS:
        assert f"The recipe itself is the best for `{system}`: its runs are those of `plain`." in part
    assert "\n| one | 1 |" in part and "\n| other | 1 |" in part
    keep_tuning(data, table, "other", 0.2, second_is_better=True)
    capsys.readouterr()
    assert reproduce(data, "--only", "toys", "--dry-run") == 0
    (to_train,) = capsys.readouterr().out.splitlines()
    assert "--run paper.toys.other.small.1" in to_train and "--set model.dropout=0.2" in to_train


def test_a_tuning_by_another_budget_is_refused(data: Path, capsys: pytest.CaptureFixture[str]):
    keep_tuning(data, write_paper(data, "ter", tuning=BUDGET), "one", 0.05, second_is_better=True)
    write_paper(data, "ter", tuning=BUDGET | {"trials": 8})
    assert reproduce(data) == 1
    said = capsys.readouterr().err
    assert str(data / "tunings/paper.toys.one.small.json") in said
    assert "tuned otherwise than the table says" in said and not (data / "trained").exists()
