"""`tune`: invalid calls are refused in one sentence and leave no files; a killed tuning goes on."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import mlflow
import pytest

from interlinear import cli
from interlinear.registry.curves import PARENT
from tests.training.toy import SETTINGS, write_corpus
from training.loop.checkpoints.checkpoint_manager import CheckpointManager
from training.recipe import load_recipe
from training.tuning.record import EPOCH_FILE

RANGES = {"model.dropout": "{choice: [0, 0.1, 0.2]}", "training.learning_rate": "{log: [0.003, 0.03]}"}
FIXED = [setting for setting in SETTINGS if setting.partition("=")[0] not in {*RANGES, "training.epochs"}]


@pytest.fixture
def corpus(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    write_corpus(tmp_path)
    monkeypatch.chdir(tmp_path)
    return "toy.yaml"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--at-once", "640"], "--at-once 640: each needs a processor of its own, and this machine has"),
        (["--range", "model.droput={choice: [0.1]}"], "unknown key. Did you mean dropout?"),
        (["--range", "model.dropout={uniform: [0.3, 0.1]}"], "the range [0.3, 0.1] is inverted"),
        (["--space", "none.yaml"], "none.yaml: cannot be read: No such file or directory."),
        (["--address", "ray://host:10001"], "runs on a node of the cluster only"),
        (["--resume"], "there is no tuning of that name to resume. Start it without --resume."),
        (["--epochs", "2", "--grace", "3"], "--grace: 3 is more than a trial's 2 epochs"),
        (["--tracking", "none", "--experiment", "x"], "No such option: --experiment"),
        (["--trials", "0"], "--trials"),
        (["--per-gpu", "4"], "--per-gpu: it has no effect without --gpu"),
        (["--per-gpu", "4", "--gpu"], "--at-once 1: 4 share a GPU, and this machine has 0"),
    ],
)
def test_an_invalid_call_leaves_no_files(
    corpus: str, words: list[str], said: str, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    before = set(tmp_path.iterdir())
    code = cli.run(["tune", "rnnsearch", "--data", corpus, *words])
    captured = capsys.readouterr()
    assert code in (1, 2) and captured.out == "" and said in captured.err and captured.err.count("\n") == 1
    assert set(tmp_path.iterdir()) == before


class Tuning:
    """A tuning of three trials as a user's command, in a folder with a corpus and an MLflow store of its own."""

    def __init__(self, folder: Path) -> None:
        write_corpus(folder, 300)
        self.folder, self.runs = folder, folder / "runs/toy"
        self.uri = f"sqlite:///{folder}/mlflow.db"
        self.stderr = folder / "stderr"

    def start(self, *words: str) -> "subprocess.Popen[str]":
        """Start the command in a process group of its own."""
        call = ["tune", "rnnsearch", "--data", "toy.yaml", "--trials", "3", "--epochs", "3", "--run", "toy"]
        ranges = [word for key, values in RANGES.items() for word in ("--range", f"{key}={values}")]
        settings = [word for setting in FIXED for word in ("--set", setting)]
        return subprocess.Popen(
            [sys.executable, "-m", "interlinear", *call, *ranges, *settings, "--tracking", self.uri, *words],
            cwd=self.folder, env={**os.environ, "PYTHONPATH": str(Path.cwd())}, start_new_session=True,
            stdout=subprocess.PIPE, stderr=self.stderr.open("w"), text=True,
        )  # fmt: skip

    def wait_until(self, holds: Callable[[], bool], process: "subprocess.Popen[str]") -> None:
        """Wait while the command runs until something holds."""
        while not holds():
            assert process.poll() is None, self.messages()
            time.sleep(0.05)

    def messages(self) -> str:
        """What the command that was started last has printed on stderr."""
        return self.stderr.read_text()

    def saved(self) -> dict[str, int]:
        """The number of epochs in each trial's newest checkpoint."""
        managers = {run.name: CheckpointManager(run, keep=1) for run in self.runs.glob("trial-*")}
        newest = {name: manager.newest_intact() for name, manager in managers.items()}
        return {name: managers[name].read_progress(path).epoch - 1 for name, path in newest.items() if path}

    def record(self) -> dict[str, Any]:
        content: dict[str, Any] = json.loads((self.runs / "tuning.json").read_text())
        return content

    def trained(self) -> dict[str, list[int]]:
        """The epochs that each trial has trained, as often as it has trained them."""
        return {
            path.parent.name: [json.loads(line)["epoch"] for line in path.read_text().split("\n") if line]
            for path in self.runs.glob(f"*/{EPOCH_FILE}")
        }


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_a_killed_tuning_goes_on_with_the_same_trials(tmp_path: Path) -> None:
    tuning = Tuning(tmp_path)
    process = tuning.start()
    tuning.wait_until(lambda: sum(map(len, tuning.trained().values())) >= 2, process)
    os.killpg(process.pid, signal.SIGKILL)
    process.communicate()
    begun, saved = tuning.record(), [tuning.saved()]

    process = tuning.start("--resume")
    # Not until an epoch is trained: a trial's process that survived the kill for a moment may have done that.
    tuning.wait_until(lambda: " started" in tuning.messages(), process)
    process.send_signal(signal.SIGTERM)
    out, _ = process.communicate()
    assert (process.returncode, out) == (143, ""), tuning.messages()
    assert "are saved. Go on with: interlinear tune" in tuning.messages()
    saved.append(tuning.saved())

    process = tuning.start("--resume")
    out, _ = process.communicate()
    assert (process.returncode, out) == (0, "runs/toy/best.yaml\n"), tuning.messages()
    assert "Traceback" not in tuning.messages()
    ended = tuning.record()
    assert [(trial["name"], trial["values"]) for trial in ended["trials"]] == [
        (trial["name"], trial["values"]) for trial in begun["trials"]
    ]
    assert ended["trials"][0]["settings"] == [] and ended["best"]
    assert {trial["state"] for trial in ended["trials"]} <= {"finished", "stopped"}
    assert any(trial["state"] == "finished" for trial in ended["trials"])
    for trial in ended["trials"]:
        epochs = [result["epoch"] for result in trial["curve"]]
        assert epochs == list(range(1, len(epochs) + 1))
    for name, epochs in tuning.trained().items():
        kept = max(state.get(name, 0) for state in saved)
        assert sorted(set(epochs)) == list(range(1, max(epochs) + 1))
        assert all(epochs.count(epoch) == 1 for epoch in range(1, kept + 1)), "a saved epoch was trained again"
    load_recipe(str(tuning.runs / "best.yaml"))
    assert not list(tuning.runs.glob("ray")) and not (tmp_path / "ray_results").exists()

    client = mlflow.MlflowClient(tuning.uri)
    (experiment,) = client.search_experiments(filter_string="name = 'toy'")
    runs = {run.info.run_name: run for run in client.search_runs([experiment.experiment_id])}
    assert sorted(runs) == ["toy", "trial-01", "trial-02", "trial-03"]
    for trial in ended["trials"]:
        run = runs[trial["name"]]
        assert run.info.status == "FINISHED" and run.data.tags[PARENT] == runs["toy"].info.run_id
        assert ("stopped" in run.data.tags) == (trial["state"] == "stopped")
        assert len(client.get_metric_history(run.info.run_id, "dev/bleu")) >= len(trial["curve"])
    assert runs["toy"].data.tags["best_trial"] == ended["best"]
