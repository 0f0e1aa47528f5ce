"""The command is killed 20 times, at times spread over all of its stages: nothing is lost, no file stays half written.

Times are measured in CPU seconds, so that they do not depend on the machine's load.
"""

import os
import random
import re
import subprocess
import sys
import time
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from uuid import uuid4

import mlflow
import psutil
import pytest
from mlflow.entities import LoggedModelStatus

import interlinear
from interlinear.registry.curves import DEV_BLEU, DEV_PERPLEXITY, TRAIN_LOSS, Curves, read_curves
from interlinear.registry.resolve import fetch_bundle
from interlinear.registry.store import MlflowStore
from tests.training.toy import SETTINGS, write_corpus
from training.loop.checkpoints.checkpoint_manager import CheckpointManager

KILLS, RUNS = 20, 2
EVERY_UPDATE = "training.save_minutes=0.0001"
LOOK = 0.002  # seconds between two reads of the CPU time


@dataclass(frozen=True)
class EndedProcess:
    """A process of the command that was killed or ended: its output, its CPU seconds, and the CPU time at which each
    stage began."""

    killed: bool
    output: str
    seconds: float
    began: dict[str, float]


class Run:
    """A run with a corpus, prepared data and a store of its own, all in one folder."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir()
        write_corpus(folder, 300)
        self.folder, self.run = folder, folder / "runs/toy"
        self.uri = f"sqlite:///{folder}/mlflow.db"
        self.mark = uuid4().hex
        self.updates = 0

    def go(self, until: float | None = None) -> EndedProcess:
        """Start the command, resuming if there is a state; kill it after so many CPU seconds."""
        given = [word for setting in (*SETTINGS, EVERY_UPDATE, "training.epochs=4") for word in ("--set", setting)]
        words = ["train", "rnnsearch", "--data", "toy.yaml", "--no-ray", "--tracking", self.uri, "--register", "toy"]
        command = [sys.executable, "-m", "interlinear", *words, "--run", "toy", *given]
        with (self.folder / "said").open("w+") as said:
            process = psutil.Popen(
                [*command, *(["--resume"] if self.run.is_dir() else [])],
                cwd=self.folder, env={**os.environ, "PYTHONPATH": str(Path.cwd()), "MARK": self.mark},
                stdout=said, stderr=subprocess.STDOUT,
            )  # fmt: skip
            seconds, killed, began = 0.0, False, {self.stage(): 0.0}
            while process.poll() is None:
                with process.oneshot():
                    times = process.cpu_times()
                seconds = max(seconds, times.user + times.system)
                began.setdefault(self.stage(), seconds)
                if until is not None and seconds >= until:
                    process.kill()
                    killed = process.wait() < 0
                time.sleep(LOOK)
            said.seek(0)
            output = said.read()
        assert killed or process.returncode == 0, output
        return EndedProcess(killed, output, seconds, began)

    def check(self, expected: str) -> None:
        """Invariants after a kill at any time."""
        assert no_process_is_left(self.mark)
        for path in CheckpointManager(self.run, keep=2).states():
            CheckpointManager(self.run, keep=2).read_progress(path)  # raises if it is incomplete
        warnings: list[str] = []
        newest = CheckpointManager(self.run, keep=2).load_newest(warnings.append)
        assert not warnings
        assert (newest.progress.updates if newest else 0) >= self.updates, "an update that was saved is lost"
        self.updates = newest.progress.updates if newest else 0
        if (self.run / "bundle").exists():
            assert interlinear.load(self.run / "bundle").card.weights_sha256 == expected
        store = self.folder / "mlflow.db"
        if store.exists() and store.stat().st_size:
            for record in MlflowStore(self.uri).list_models():  # a registered version is complete
                found = fetch_bundle(f"models:/toy/{record.version}", self.uri)
                assert interlinear.load(found.folder).card.weights_sha256 == expected

    def stage(self) -> str:
        if not self.run.is_dir():
            return "starting"
        states = CheckpointManager(self.run, keep=2).states()
        return "finishing" if states and states[-1].name.endswith("-done") else "training"

    def curves(self) -> Curves:
        """The points by epoch, without times; after checking the invariants of a finished run."""
        client = mlflow.MlflowClient(self.uri)
        (experiment,) = client.search_experiments(filter_string="name = 'toy'")
        (run,) = client.search_runs([experiment.experiment_id])
        assert run.info.status == "FINISHED" and run.data.params["model.hidden"] == "32"
        assert len(run.inputs.dataset_inputs) == 2
        (logged,) = client.search_logged_models([experiment.experiment_id])
        assert logged.status == LoggedModelStatus.READY
        assert [output.model_id for output in run.outputs.model_outputs] == [logged.model_id]
        (record,) = MlflowStore(self.uri).list_models()
        assert (record.version, record.aliases, record.run_id) == ("1", ("champion",), run.info.run_id)
        files = {file.path for file in client.list_artifacts(run.info.run_id)}
        assert files == {"recipe.yaml", "figures"}
        assert not [path for folder in (self.run, self.folder / "prepared") for path in folder.rglob(".*")]
        curves = read_curves(MlflowStore(self.uri), run.info.run_id)
        by_epoch = {name: curves[name] for name in (DEV_BLEU, DEV_PERPLEXITY, TRAIN_LOSS)}
        recorded = {point.step for point in client.get_metric_history(run.info.run_id, "train/loss")}
        assert recorded >= set(by_epoch[DEV_BLEU]), "an epoch's last update is always told"
        return by_epoch


def no_process_is_left(mark: str) -> bool:
    """Whether all processes of the command ended with it, after a short wait."""
    deadline = time.monotonic() + 10
    while any(has_mark(process, mark) for process in psutil.process_iter()):
        if time.monotonic() > deadline:
            return False
        time.sleep(0.05)
    return True


def has_mark(process: psutil.Process, mark: str) -> bool:
    try:
        return process.environ().get("MARK") == mark and process.status() != psutil.STATUS_ZOMBIE
    except (psutil.Error, OSError):
        return False


def weights_sha256(output: str) -> str:
    """The hash of the weights, which has a line of its own."""
    (found,) = re.findall("^[0-9a-f]{64}$", output, re.MULTILINE)
    return str(found)


def assert_equals(run: Run, weights: str, curves: Curves) -> None:
    """A run that goes on to its end has these weights and curves, and registers its model once."""
    assert weights_sha256(run.go().output) == weights
    run.check(weights)
    assert run.curves() == curves


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_twenty_kills_lose_nothing_and_leave_no_incomplete_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("INTERLINEAR_CACHE", str(tmp_path / "cache"))
    whole = Run(tmp_path / "whole")
    undisturbed = whole.go()
    expected = weights_sha256(undisturbed.output)
    curves = whole.curves()
    assert len(curves[DEV_BLEU]) == 4
    again = whole.go().seconds  # of a finished run

    chance = random.Random(seed := random.randrange(1 << 32))
    print(f"seed {seed}")
    # A run's first kill comes during its start, the second during training, so that both stages are always tested.
    bounds = [undisturbed.began[stage] / undisturbed.seconds for stage in ("starting", "training", "finishing")]
    aimed = [[chance.uniform(*span) for _ in range(RUNS)] for span in pairwise(bounds)]
    moments = [(number + chance.random()) / (KILLS - 2 * RUNS) for number in range(KILLS - 2 * RUNS)]
    chance.shuffle(moments)
    stages, runs = [], 0
    while moments:
        run, kills = Run(tmp_path / f"run-{runs}"), 0
        runs += 1
        while kills < KILLS // RUNS and moments:
            left = aimed[kills] if kills < len(aimed) and aimed[kills] else moments
            stage = run.stage()
            ended = run.go(left[-1] * (again if stage == "finishing" else undisturbed.seconds))
            if not ended.killed:
                break
            left.pop()
            kills += 1
            stages.append(run.stage())
            run.check(expected)
        assert_equals(run, expected, curves)
    assert len(stages) == KILLS and runs >= RUNS
    while "finishing" not in stages:  # the shortest stage, which few moments hit
        run, runs = Run(tmp_path / f"run-{runs}"), runs + 1
        if run.go(chance.uniform(bounds[-1], 1) * undisturbed.seconds).killed:
            stages.append(run.stage())
            run.check(expected)
            assert_equals(run, expected, curves)
    assert {"starting", "training", "finishing"} == set(stages), stages
    print({stage: stages.count(stage) for stage in set(stages)}, f"{runs} runs")
