"""Groups whose systems are tuned first: all by the same budget, and their runs have the values that were chosen."""

import json
from pathlib import Path

import pytest

from research.__main__ import run as research
from research.papers import load_paper
from research.records import SystemKey, TrainingSpec, write_record
from research.tunings import SystemTuning, tuning_file
from seq2seq.errors import DataError
from tests.training.toy import SETTINGS, write_corpus
from training.tuning.record import EpochResult, TrialRecord, TuningRecord
from training.tuning.space import Range

pytestmark = pytest.mark.slow

TABLE = """\
about: "A paper whose systems are tuned"
groups:
  toy:
    about: words and their capitals
    core: true
    data: {data}
    tests: {{test: bleu}}
    published: bleu
    systems: {{rnnsearch: 20.0, word_attention: 21.5}}
    tuning: {{trials: 2, epochs: 2, grace: 2, settings: {{training.score: bleu}}}}
    small: {{settings: {{{settings}, training.epochs: 1}}}}
"""
TUNED = ("model.dropout", "training.warmup", "training.score", "training.epochs")


@pytest.fixture
def paper(tmp_path: Path) -> Path:
    """A table file with its corpus."""
    settings = ", ".join(one.replace("=", ": ", 1) for one in SETTINGS if one.partition("=")[0] not in TUNED)
    path = tmp_path / "paper.yaml"
    path.write_text(TABLE.format(data=write_corpus(tmp_path), settings=settings))
    return path


def command(paper: Path) -> list[str]:
    folder = paper.parent
    return [
        "reproduce", str(paper), "--no-ray", "--tracking", f"sqlite:///{folder}/mlflow.db",
        "--output", str(folder / "out"), "--runs", str(folder / "runs"), "--prepared", str(folder / "prepared"),
    ]  # fmt: skip


def keep_tuning(paper: Path, system: str, dropout: float, second_is_better: bool) -> None:
    """Store the tuning of a system: the recipe's trial, and one with another dropout."""
    table = load_paper(str(paper))
    group = table.groups["toy"]
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
    place = SystemKey(table="paper", group="toy", system=system, scale="small")
    tuning = SystemTuning(place=place, training=group.training(system, "small"), budget=group.tuning, record=record)
    write_record(tuning_file(paper.parent / "out", place), tuning)


def test_systems_without_a_tuning_are_tuned_by_the_group_s_budget(paper: Path, capsys: pytest.CaptureFixture[str]):
    keep_tuning(paper, "rnnsearch", 0.05, second_is_better=True)
    assert research([*command(paper), "--dry-run"]) == 0
    captured = capsys.readouterr()
    tune, baseline, other = captured.out.splitlines()
    assert tune.startswith("interlinear tune word_attention --data ")
    assert "--run paper.toy.word_attention.small.tuning --trials 2 --epochs 2 --grace 2 --seed 1 " in tune
    assert "--set training.score=bleu" in tune and "training.epochs=" not in tune and "--no-ray" not in tune
    assert "--set model.dropout=0.05" in baseline and "--set training.epochs=1" in baseline
    assert "model.dropout" not in other
    assert "the values that a tuning chooses are added" in captured.err
    assert not (paper.parent / "runs").exists()


def test_trials_share_gpus_where_the_user_says_so(paper: Path, capsys: pytest.CaptureFixture[str]):
    assert research([*command(paper), "--dry-run", "--gpu", "--per-gpu", "8"]) == 0
    tune = capsys.readouterr().out.splitlines()[0]
    assert tune.startswith("interlinear tune rnnsearch ") and " --gpu" in tune and " --per-gpu 8" in tune
    assert research([*command(paper), "--dry-run", "--per-gpu", "8"]) == 2
    assert "--per-gpu: it has no effect without --gpu" in capsys.readouterr().err


def test_trials_run_on_a_cluster_and_trainings_without_ray(paper: Path, capsys: pytest.CaptureFixture[str]):
    assert research([*command(paper), "--dry-run", "--address", "127.0.0.1:6379", "--at-once", "8"]) == 0
    lines = capsys.readouterr().out.splitlines()
    tune, train = lines[0], lines[-1]
    assert "--address 127.0.0.1:6379" in tune and "--at-once 8" in tune
    assert train.startswith("interlinear train") and "--no-ray" in train and "--address" not in train


def test_runs_have_the_chosen_values_and_the_page_says_which(paper: Path, capsys: pytest.CaptureFixture[str]):
    keep_tuning(paper, "rnnsearch", 0.05, second_is_better=True)
    keep_tuning(paper, "word_attention", 0.2, second_is_better=False)
    assert research([*command(paper), "--only", "rnnsearch"]) == 0
    out = paper.parent / "out"
    run = json.loads((out / "runs/paper.toy.rnnsearch.small.1.json").read_text())
    settings = run["training"]["settings"]
    assert settings["model.dropout"] == 0.05
    assert settings["training.score"] == "bleu", "the score that decided on epochs and rates in the trial"
    page = (out / "paper/table.md").read_text()
    assert "the same budget: 2 trials of at most 2 epochs" in page
    assert "| system | `dropout` | dev BLEU | of the recipe itself |" in page
    assert "Runs with chosen values have `training.score=bleu` too, as all trials had." in page
    assert "| rnnsearch | 0.05 | 32.25 | 31.50 |" in page and "| word_attention | 0.3 | 31.50 | 31.50 |" in page

    (out / "tunings/paper.toy.rnnsearch.small.json").unlink()
    capsys.readouterr()
    assert research(command(paper)) == 1, "before anything is tuned"
    assert "paper.toy.rnnsearch.small.1.json: the run was trained otherwise" in capsys.readouterr().err


def test_a_system_that_the_recipe_suits_best_takes_the_runs_of_the_group_that_is_not_tuned(
    paper: Path, capsys: pytest.CaptureFixture[str]
):
    head, tuned = paper.read_text().split("  toy:\n")
    plain = "".join(line for line in tuned.splitlines(keepends=True) if "tuning:" not in line)
    paper.write_text(f"{head}  plain:\n{plain}  toy:\n{tuned}")
    keep_tuning(paper, "rnnsearch", 0.05, second_is_better=False)
    keep_tuning(paper, "word_attention", 0.2, second_is_better=False)
    assert research([*command(paper), "--only", "toy"]) == 0
    out = paper.parent / "out"
    assert sorted(path.name for path in (out / "runs").iterdir()) == [
        "paper.plain.rnnsearch.small.1.json", "paper.plain.word_attention.small.1.json"
    ]  # fmt: skip
    page = (out / "paper/table.md").read_text()
    (tuned_part,) = [part for part in page.split("\n## ") if part.startswith("toy:")]
    assert "The recipe itself is the best for `word_attention`: its runs are those of `plain`." in tuned_part
    assert "\n| rnnsearch | 1 |" in tuned_part and "\n| word_attention | 1 |" in tuned_part

    keep_tuning(paper, "word_attention", 0.2, second_is_better=True)
    capsys.readouterr()
    assert research([*command(paper), "--only", "toy", "--dry-run"]) == 0
    (to_train,) = capsys.readouterr().out.splitlines()
    assert "--run paper.toy.word_attention.small.1" in to_train and "--set model.dropout=0.2" in to_train


def test_a_tuning_by_another_budget_is_refused(paper: Path, capsys: pytest.CaptureFixture[str]):
    keep_tuning(paper, "rnnsearch", 0.05, second_is_better=True)
    paper.write_text(paper.read_text().replace("trials: 2", "trials: 8"))
    assert research(command(paper)) == 1
    said = capsys.readouterr().err
    place = SystemKey(table="paper", group="toy", system="rnnsearch", scale="small")
    assert str(tuning_file(paper.parent / "out", place)) in said
    assert "tuned otherwise than the table says" in said and not (paper.parent / "runs").exists()


def test_a_group_whose_systems_start_from_others_is_not_tuned(paper: Path):
    paper.write_text(
        paper.read_text().replace("    tuning:", "    starts_from: {word_attention: rnnsearch}\n    tuning:")
    )
    with pytest.raises(DataError, match="systems that start from another one are not tuned"):
        load_paper(str(paper))


@pytest.mark.timeout(600)
def test_a_group_is_tuned_and_trained_by_one_command(paper: Path):
    assert research(command(paper)) == 0
    out = paper.parent / "out"
    for system in ("rnnsearch", "word_attention"):
        tuning = SystemTuning.model_validate_json((out / f"tunings/paper.toy.{system}.small.json").read_bytes())
        assert tuning.record.trials[0].settings == [] and len(tuning.record.trials) == 2
        assert {"model.dropout", "training.warmup"} == set(tuning.record.space)
        run = json.loads((out / f"runs/paper.toy.{system}.small.1.json").read_text())
        base = load_paper(str(paper)).groups["toy"].training(system, "small")
        assert TrainingSpec.model_validate(run["training"]).settings == base.settings | tuning.run_settings
    before = {path: path.read_bytes() for path in out.glob("*/*.json")}
    assert research(command(paper)) == 0
    assert all(path.read_bytes() == text for path, text in before.items() if path.parent.name != "paper")
