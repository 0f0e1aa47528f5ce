"""Systems of a table are tuned and trained, each once, and are in MLflow with their scores."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from interlinear.cli import run as interlinear
from research.records import TrainingSpec
from research.tunings import SystemTuning
from tests.research.conftest import command, reproduce, toy_settings, write_paper
from tests.training.toy import write_corpus

pytestmark = pytest.mark.slow

FIRST, SECOND = "rnnsearch_star", "interactive_attention"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with its own table and the toy corpus, and the results of one command."""
    folder = tmp_path_factory.mktemp("reproduce")
    keys = {"published": "bleu", "systems": {FIRST: 20.0, SECOND: 21.5}, "starts_from": {SECOND: FIRST}}
    small = {"settings": toy_settings() | {"training.epochs": 2}}
    figures = ["toys.curves", "toys.gates"]  # of which these systems have none
    data = str(write_corpus(folder))
    write_paper(folder, "bleu,exact-match", figures=figures, data=data, small=small, **keys)
    assert reproduce(folder, "--only", FIRST) == 0
    return folder


def test_a_table_is_completed_run_by_run_without_repeated_training(folder: Path, capsys: pytest.CaptureFixture[str]):
    first = folder / f"runs/paper.toys.{FIRST}.small.1.json"
    before = first.read_bytes()
    assert reproduce(folder, "--dry-run") == 0
    (planned,) = capsys.readouterr().out.splitlines()
    assert f"training.init_from={folder}/trained/paper.toys.{FIRST}.small.1/bundle" in planned
    assert reproduce(folder) == 0
    assert first.read_bytes() == before
    page = (folder / "paper/table.md").read_text()
    assert f"| {FIRST} | 1 |" in page and f"| {SECOND} | 1 |" in page and "| +1.50 |" in page
    (bleu, exact) = json.loads((folder / "paper/table.json").read_text())
    assert [row["system"] for row in bleu["rows"]] == [FIRST, SECOND]
    assert bleu["rows"][1]["published_gain"] == 1.5 and exact["rows"][1]["published_gain"] is None
    result = json.loads(first.read_text())
    assert bleu["rows"][0]["ours"] == pytest.approx(result["tests"]["test"]["scores"]["bleu"]["score"])
    assert "statistics" not in result["tests"]["test"] and len(result["curve"]) == 2
    assert re.findall(r"!\[[^]]+\]\(([^)]+)\)", page) == ["toys.curves.png"]
    assert (folder / "paper/toys.curves.png").read_bytes()[1:4] == b"PNG"


def test_runs_are_in_mlflow_with_their_table_cell_and_scores(folder: Path):
    from interlinear.registry.store import MlflowStore

    client = MlflowStore(f"sqlite:///{folder}/mlflow.db").client
    paper = client.get_experiment_by_name("paper").experiment_id
    (run, *_) = client.search_runs([paper], "attributes.run_name = 'paper.toys.rnnsearch_star.small.1'")
    assert run.data.tags["table"] == "paper" and run.data.tags["scale"] == "small"
    assert 0 <= run.data.metrics["test/bleu"] <= 100
    assert run.data.tags["test_bleu"] == f"{run.data.metrics['test/bleu']:.2f}"
    assert run.data.tags["test_bleu_signature"].startswith("nrefs:1|case:mixed")
    assert [one.tags[0].value for one in run.inputs.dataset_inputs].count("test") == 1
    (whole,) = client.search_runs([run.info.experiment_id], "tags.family = 'paper.small'")
    files = {file.path for file in client.list_artifacts(whole.info.run_id)}
    assert {"table.md", "table.json", "toys.curves.png"} <= files
    above = client.get_run(run.data.tags["mlflow.parentRunId"])
    assert above.info.run_name == f"{run.data.tags['group']}.{run.data.tags['system']}.small"
    assert "mlflow.parentRunId" not in above.data.tags and above.info.status == "FINISHED"


def test_a_registered_model_s_version_and_card_have_its_test_scores(folder: Path, capsys: pytest.CaptureFixture[str]):
    from interlinear.registry.resolve import fetch_bundle
    from interlinear.registry.store import MlflowStore

    client = MlflowStore(f"sqlite:///{folder}/mlflow.db").client
    version = client.get_model_version(f"paper.toys.{FIRST}", "1")
    bleu, signature = version.tags["test_bleu"], version.tags["test_bleu_signature"]
    result = json.loads((folder / f"runs/paper.toys.{FIRST}.small.1.json").read_text())
    judged = result["tests"]["test"]["scores"]["bleu"]
    assert (bleu, signature) == (f"{judged['score']:.2f}", judged["signature"])
    (model,) = client.search_logged_models(
        [client.get_experiment_by_name("paper").experiment_id], f"source_run_id = '{version.run_id}'"
    )
    assert model.tags["test_bleu"] == bleu and "test/bleu" in {metric.key for metric in model.metrics}

    own = folder / f"trained/paper.toys.{FIRST}.small.1/bundle"
    logged = fetch_bundle(f"models:/paper.toys.{FIRST}/1", f"sqlite:///{folder}/mlflow.db").folder
    for text in (version.description, (own / "README.md").read_text(), (logged / "README.md").read_text()):
        assert "| dev BLEU (40 sentences, beam 1) |" in text
        assert f"test: BLEU (40 sentences, beam 5) | {bleu} | `nrefs:1\\|" in text
    assert interlinear(["models", "--tracking", f"sqlite:///{folder}/mlflow.db"]) == 0
    assert "(40 sentences, beam 1)" in capsys.readouterr().out


def test_a_stopped_command_stops_its_training_which_resumes_later(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    """SIGTERM to the command only: the training in its own process saves its state and ends."""
    endless = toy_settings() | {"training.epochs": 5000, "training.patience": 5000}
    systems = {"rnnsearch": 0.0, "luong": 0.0}
    write_paper(tmp_path, "bleu", data=str(write_corpus(tmp_path)), systems=systems, small={"settings": endless})
    words = [*command(tmp_path), "--only", "rnnsearch"]
    started = subprocess.Popen(
        [sys.executable, "-m", "research", *words],
        stderr=subprocess.PIPE, env={**os.environ, "PYTHONPATH": str(Path.cwd())}, text=True,
    )  # fmt: skip
    assert started.stderr
    for line in started.stderr:
        if "epoch 2 " in line:
            started.terminate()
            break
    _, said = started.communicate(timeout=120)
    assert started.returncode == 143 and "--resume" in said
    assert reproduce(tmp_path, "--only", "rnnsearch", "--dry-run") == 0
    assert "--resume" in capsys.readouterr().out


@pytest.mark.timeout(600)
def test_a_group_is_tuned_and_trained_by_one_command(tmp_path: Path):
    systems = ("rnnsearch", "word_attention")
    tuning = {"trials": 2, "epochs": 2, "grace": 2, "settings": {"training.score": "bleu"}}
    tuned = toy_settings("model.dropout", "training.warmup", "training.score") | {"training.epochs": 1}
    keys = {"systems": dict.fromkeys(systems, 0.0), "tuning": tuning, "small": {"settings": tuned}}
    table = write_paper(tmp_path, "bleu", data=str(write_corpus(tmp_path)), **keys)
    assert reproduce(tmp_path) == 0
    for system in systems:
        found = SystemTuning.model_validate_json((tmp_path / f"tunings/paper.toys.{system}.small.json").read_bytes())
        assert found.record.trials[0].settings == [] and len(found.record.trials) == 2
        assert {"model.dropout", "training.warmup"} == set(found.record.space)
        run = json.loads((tmp_path / f"runs/paper.toys.{system}.small.1.json").read_text())
        base = table.groups["toys"].training(system, "small")
        assert TrainingSpec.model_validate(run["training"]).settings == base.settings | found.run_settings
    before = {path: path.read_bytes() for folder in ("runs", "tunings") for path in (tmp_path / folder).glob("*.json")}
    assert len(before) == 4 and reproduce(tmp_path) == 0
    assert all(path.read_bytes() == content for path, content in before.items())
