"""Ray with real workers, on the toy corpus."""

import os
import re
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import psutil
import pytest
import torch

import interlinear
from interlinear.errors import TrainingError, UsageError
from tests.training.observers import RecordingObserver
from tests.training.toy import toy_job
from training.events import EpochReport, Outcome, StartReport, StepReport, TrainingJob
from training.loop.checkpoints.checkpoint_manager import CheckpointManager
from training.loop.checkpoints.training_state import TrainingState
from training.loop.trainer import train
from training.ray.cluster import WorkerGroupConfig
from training.ray.driver import _TrainerThread, train_on_ray

# Dropout's random numbers depend on the rank; without dropout, one worker and two compute the same.
SHORT = ["training.epochs=2", "training.average=1", "model.dropout=0"]
LONG = ["training.epochs=30", "training.patience=100"]


class HookedObserver(RecordingObserver):
    """Records the events' names too, and may run a function at the first step."""

    def __init__(self, at_first_step: Callable[[], None] = lambda: None) -> None:
        super().__init__()
        self.events: list[str] = []
        self.at_first_step = at_first_step

    def started(self, job: TrainingJob, start: StartReport) -> None:
        self.events.append("started")

    def step(self, report: StepReport) -> None:
        if "step" not in self.events:
            self.at_first_step()
        self.events.append("step")

    def epoch(self, report: EpochReport) -> None:
        super().epoch(report)
        self.events.append("epoch")

    def finished(self, outcome: Outcome) -> None:
        self.events.append("finished")


def rays_processes() -> list[str]:
    """Ray's processes below this one."""
    names = [child.name() for child in psutil.Process().children(recursive=True)]
    return [name for name in names if "ray" in name or "gcs" in name]


def test_two_workers_equal_one_and_events_reach_the_driver(tmp_path: Path):
    alone, heard = HookedObserver(), HookedObserver()
    train(toy_job(tmp_path, "alone", settings=SHORT), None, [alone])
    outcome = train_on_ray(job := toy_job(tmp_path, "together", settings=SHORT), WorkerGroupConfig(2, 2), [heard])

    assert heard.events[0] == "started" and heard.events[-1] == "finished"
    assert heard.events.count("epoch") == 2 and heard.warnings == []
    for ours, theirs in zip(heard.epochs, alone.epochs, strict=True):
        assert ours.update == theirs.update
        assert ours.train_loss == pytest.approx(theirs.train_loss, rel=1e-4)
        assert ours.dev_perplexity == pytest.approx(theirs.dev_perplexity, rel=1e-4)
    assert outcome.bundle == job.run / "bundle"
    assert interlinear.load(outcome.bundle).card.weights_sha256 == outcome.weights_sha256
    assert rays_processes() == []


@pytest.mark.slow
def test_a_local_cluster_starts_if_ray_was_imported_first():
    # RAY_AUTH_MODE, set after the import, held for the cluster's processes and not for this one.
    program = (
        "import ray; from training.ray.cluster import WorkerGroupConfig, ray_cluster\n"
        "with ray_cluster(WorkerGroupConfig(1, 1)): print(ray.is_initialized())"
    )
    environment = {name: value for name, value in os.environ.items() if name != "RAY_AUTH_MODE"}
    ran = subprocess.run(
        [sys.executable, "-c", program],
        check=False,
        capture_output=True,
        text=True,
        env=environment,
        cwd=Path(__file__).parents[3],
    )
    assert ran.stdout == "True\n", ran.stderr


@pytest.mark.timeout(60)
def test_addresses_without_a_cluster_are_refused(tmp_path: Path):
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        nobody = f"127.0.0.1:{closed.getsockname()[1]}"
    for address, error, sentence in (
        (nobody, TrainingError, f"{nobody}: no Ray cluster answers"),
        (f"ray://{nobody}", UsageError, "is for Ray's client"),
        ("nonsense", UsageError, "is not a Ray cluster's address"),
        ("http://host/", UsageError, "is not a Ray cluster's address"),
    ):
        with pytest.raises(error, match=sentence):
            train_on_ray(toy_job(tmp_path, "nowhere"), WorkerGroupConfig(1, 1, address=address))


@pytest.mark.slow
def test_a_lost_worker_and_a_signal_lose_no_training_progress(tmp_path: Path):
    uninterrupted = train_on_ray(toy_job(tmp_path, "whole", settings=LONG), WorkerGroupConfig(2, 2), [])

    def kill_a_worker() -> None:
        (victim, *_) = [p for p in psutil.Process().children(recursive=True) if "ray::RayTrainW" in p.name()]
        victim.kill()

    killed = HookedObserver(kill_a_worker)
    outcome = train_on_ray(toy_job(tmp_path, "killed", settings=LONG), WorkerGroupConfig(2, 2), [killed])
    died, onwards = killed.warnings
    assert re.fullmatch(r"killed: a worker failed: rank \d \(process \d+ on [\d.]+\) has died\.", died)
    assert onwards == "2 workers go on from the newest checkpoint (restart 1)."
    assert outcome.weights_sha256 == uninterrupted.weights_sha256

    for number in (signal.SIGTERM, signal.SIGINT):
        stopped = HookedObserver(lambda number=number: os.kill(os.getpid(), number))
        resume = number == signal.SIGINT
        outcome = train_on_ray(toy_job(tmp_path, "stopped", resume, LONG), WorkerGroupConfig(2, 2), [stopped])
        assert (outcome.signal, outcome.bundle) == (number, None)
    outcome = train_on_ray(toy_job(tmp_path, "stopped", True, LONG), WorkerGroupConfig(2, 2), [])
    assert outcome.weights_sha256 == uninterrupted.weights_sha256
    assert rays_processes() == []


def job_with_a_misshapen_state(folder: Path) -> TrainingJob:
    """A job that resumes from a state of another model's shape, which raises the same error as code in a step."""
    short = ["training.epochs=1", "training.average=1"]
    before = toy_job(folder, "shapes", settings=short)
    train(before)
    checkpoints = CheckpointManager(before.run, keep=1)
    state = checkpoints.load_newest()
    assert state is not None
    name = next(name for name, tensor in state.tensors.items() if name.startswith("model.") and tensor.dim() == 2)
    progress = state.progress.model_copy(update={"updates": state.progress.updates + 1, "done": False})
    checkpoints.save(TrainingState(progress, state.tensors | {name: torch.ones(3, 5)}))
    return toy_job(folder, "shapes", resume=True, settings=[*short, "training.epochs=2"])


@pytest.mark.slow
def test_an_error_in_a_worker_is_reported_by_the_driver(tmp_path: Path):
    with pytest.raises(TrainingError, match="is not finite"):
        wild = ["training.learning_rate=1e38", "training.clip=null"]
        train_on_ray(toy_job(tmp_path, "diverges", settings=wild), WorkerGroupConfig(2, 2), [])
    job = toy_job(tmp_path, "bug")
    with pytest.raises(TrainingError, match=r"a worker failed: .* Its traceback is in"):
        train_on_ray(replace(job, dev=replace(job.dev, references=())), WorkerGroupConfig(2, 2), [])
    assert "Traceback" in (job.run / "failure.txt").read_text()
    with pytest.raises(TrainingError, match=r"a worker failed: RuntimeError.* Its traceback is in"):
        train_on_ray(job_with_a_misshapen_state(tmp_path), WorkerGroupConfig(2, 2), [heard := HookedObserver()])
    assert heard.warnings == [], "what would fail again is not tried again"
    with pytest.raises(UsageError, match="each needs a GPU of its own, and this machine has 0"):
        train_on_ray(toy_job(tmp_path, "gpu"), WorkerGroupConfig(2, 2, gpu=True), [])
    assert rays_processes() == []


@pytest.mark.slow
@pytest.mark.parametrize("seconds", [4, 6, 8])
def test_a_signal_while_ray_starts_ends_the_command(tmp_path: Path, seconds: int):
    job = toy_job(tmp_path, "early", settings=LONG)
    threading.Timer(seconds, os.kill, (os.getpid(), signal.SIGINT)).start()
    with pytest.raises(KeyboardInterrupt):
        train_on_ray(job, WorkerGroupConfig(2, 2), [])
    assert not (job.run / "checkpoints").exists()
    assert not any(isinstance(thread, _TrainerThread) for thread in threading.enumerate()), "it would start Ray again"
    assert rays_processes() == []
