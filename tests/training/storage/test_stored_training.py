"""Training with checkpoints on a storage: uploaded checkpoints are not lost, and training resumes on any machine."""

import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import psutil
import pytest

import interlinear
from interlinear.errors import CorruptedError, StorageError, TrainingError, UsageError
from tests.processes import in_ranks
from tests.s3 import S3Server, s3_server
from tests.training.observers import RecordingObserver, StopAfterUpdates
from tests.training.ray.test_driver import HookedObserver
from tests.training.toy import SETTINGS, write_corpus
from training.events import StartReport, StepReport, TrainingJob
from training.loop import process_group
from training.loop.checkpoints.checkpoint_upload import CheckpointUploader, complete_states
from training.loop.trainer import train
from training.ray.cluster import WorkerGroupConfig
from training.ray.driver import train_on_ray
from training.runs.job import create_job
from training.runs.stored_runs import RecordsUploader
from training.storage.staging import check_shared_disk, fetch_inputs, stage_inputs, write_token
from training.storage.storage import Storage

FAST = ["training.save_minutes=0.0001"]  # a checkpoint at every update
LONG = ["training.epochs=30", "training.patience=100", "training.save_minutes=0.005"]


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("INTERLINEAR_CACHE", str(tmp_path / "cache"))


@pytest.fixture(scope="module")
def s3() -> Iterator[S3Server]:
    with s3_server() as server:
        yield server


def stored_job(
    folder: Path, storage: Storage | None, run: str = "toy", resume: bool = False, settings: tuple[str, ...] = ()
) -> TrainingJob:
    """The toy training that writes to `folder` and to the storage; its corpus is outside that folder."""
    corpus = folder.parent / "corpus"
    if not corpus.exists():
        corpus.mkdir()
        write_corpus(corpus)
    return create_job(
        "rnnsearch", str(corpus / "toy.yaml"), [*SETTINGS, *settings],
        prepared=folder / "prepared", runs=folder / "runs", run=run, resume=resume, storage=storage,
    )  # fmt: skip


def disk(tmp_path: Path, patience: float | None = None) -> Storage:
    return Storage(str(tmp_path / "storage"), retry_seconds=patience)


@pytest.mark.parametrize("updates", [20, pytest.param(7, marks=pytest.mark.slow)])
def test_a_driver_with_an_empty_disk_resumes_from_the_storage(tmp_path: Path, updates: int, toy_weights: str) -> None:
    first = train(
        stored_job(tmp_path / "first", disk(tmp_path)), StopAfterUpdates(updates), [RecordsUploader(disk(tmp_path))]
    )
    assert first.signal == signal.SIGTERM
    shutil.rmtree(tmp_path / "first")
    notes = RecordingObserver()
    job = stored_job(tmp_path / "second", disk(tmp_path), resume=True)
    second = train(job, observers=[notes, RecordsUploader(disk(tmp_path))])
    assert notes.done == updates
    assert second.weights_sha256 == toy_weights
    disk(tmp_path).get("runs/toy/bundle", tmp_path / "bundle")
    assert interlinear.load(tmp_path / "bundle").card.weights_sha256 == toy_weights
    (job.run / "mlflow.json").write_text("{}")
    RecordsUploader(disk(tmp_path)).started(
        job, StartReport(parameters=1, pairs=1, updates_per_epoch=1, updates_done=0)
    )
    run_in_third_epoch = stored_job(tmp_path / "third", disk(tmp_path), resume=True)
    assert (run_in_third_epoch.run / "mlflow.json").read_text() == "{}"
    assert train(run_in_third_epoch).weights_sha256 == toy_weights  # it was finished: resuming only completes it


def test_the_storage_keeps_the_same_checkpoints_as_the_disk(tmp_path: Path) -> None:
    settings = (*FAST, "training.average=2", "training.keep_last=3")
    job = stored_job(tmp_path / "here", disk(tmp_path), settings=settings)
    train(job)
    states = [path.name for path in sorted((job.run / "checkpoints").glob("state-*"))]
    epochs = {path.stem for path in (job.run / "checkpoints").glob("epoch-*")}
    there = disk(tmp_path).names("runs/toy/checkpoints")
    assert len(states) == 3 and len(epochs) >= 2
    assert [name for name in there if name.startswith("state-")][-2:] == states[-2:]  # a waiting upload may be skipped
    assert len([name for name in there if name.startswith("state-")]) == 3
    progress = [json.loads((tmp_path / f"storage/runs/toy/checkpoints/{name}/progress.json").read_text())
                for name in there if name.startswith("state-")]  # fmt: skip
    kept = {f"epoch-{one['epoch']:04d}" for each in progress for one in each["progress"]["kept"]}
    assert {name for name in there if name.startswith("epoch-")} == kept


def test_a_new_run_is_also_new_on_the_storage(tmp_path: Path) -> None:
    train(stored_job(tmp_path / "first", disk(tmp_path)), StopAfterUpdates(3))
    assert stored_job(tmp_path / "second", disk(tmp_path)).run.name == "toy-2"
    with pytest.raises(TrainingError, match="no run of that name"):
        stored_job(tmp_path / "third", disk(tmp_path), run="other", resume=True)


def test_a_run_started_without_a_storage_resumes_with_one(tmp_path: Path, toy_weights: str) -> None:
    train(stored_job(tmp_path / "here", None), StopAfterUpdates(33))
    notes = RecordingObserver()
    outcome = train(stored_job(tmp_path / "here", disk(tmp_path), resume=True), observers=[notes])
    assert (notes.done, outcome.weights_sha256) == (33, toy_weights)


def test_a_damaged_checkpoint_on_the_storage_is_skipped(tmp_path: Path, toy_weights: str) -> None:
    train(stored_job(tmp_path / "first", disk(tmp_path), settings=("training.keep_last=9",)), StopAfterUpdates(31))
    newest = tmp_path / "storage/runs/toy/checkpoints/state-000000031/tensors.safetensors"
    with newest.open("r+b") as file:
        file.seek(-9, os.SEEK_END)
        file.write(b"x")
    notes = RecordingObserver()
    outcome = train(stored_job(tmp_path / "second", disk(tmp_path), resume=True), observers=[notes])
    assert notes.done == 30 and outcome.weights_sha256 == toy_weights
    (said,) = notes.warnings
    assert "tensors.safetensors: is damaged" in said and "Trying the checkpoint before" in said


def test_another_recipe_or_other_data_is_refused_with_the_difference(tmp_path: Path) -> None:
    train(stored_job(tmp_path / "first", disk(tmp_path)), StopAfterUpdates(3))
    owner = (tmp_path / "storage/runs/toy/owner.json").read_text()
    with pytest.raises(TrainingError, match=r"training\.learning_rate \(0\.01 -> 0\.02\)"):
        stored_job(tmp_path / "second", disk(tmp_path), resume=True, settings=("training.learning_rate=0.02",))
    shutil.copytree(tmp_path / "first/prepared", tmp_path / "third/prepared")
    (record,) = (tmp_path / "third/prepared").glob("*/prepared.json")
    record.write_text(record.read_text() + " ")  # the same name with other contents
    with pytest.raises(TrainingError, match=r"other data \(toy-\w+ with fingerprint \w{12}, now \w{12}\)"):
        stored_job(tmp_path / "third", disk(tmp_path), resume=True)
    write_corpus(tmp_path / "corpus", pairs=500)
    with pytest.raises(TrainingError, match=r"other data \(toy-\w+, now toy-\w+\)"):
        stored_job(tmp_path / "fourth", disk(tmp_path), resume=True)
    assert (tmp_path / "storage/runs/toy/owner.json").read_text() == owner  # the owner of the run keeps it


class AtUpdate(RecordingObserver):
    """Runs a function once, after a number of updates was reported."""

    def __init__(self, update: int, act: Callable[[], None]) -> None:
        super().__init__()
        self.update, self.act = update, act

    def step(self, report: StepReport) -> None:
        if self.update <= report.update:
            self.update = 1 << 60
            self.act()


def test_a_storage_outage_does_not_affect_training(tmp_path: Path, toy_weights: str) -> None:
    place, away = tmp_path / "storage", tmp_path / "away"

    def go() -> None:
        place.rename(away)
        threading.Timer(1, away.rename, [place]).start()

    notes = AtUpdate(15, go)
    outcome = train(stored_job(tmp_path / "here", disk(tmp_path), settings=tuple(FAST)), observers=[notes])
    assert outcome.weights_sha256 == toy_weights
    assert notes.warnings and all("trying again in" in warning for warning in notes.warnings)
    assert complete_states(disk(tmp_path), "runs/toy/checkpoints")[-1].endswith("-done")


def test_a_long_outage_ends_the_training_and_the_disk_has_all_checkpoints(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, toy_weights: str
) -> None:
    place, away = tmp_path / "storage", tmp_path / "away"
    job = stored_job(tmp_path / "here", disk(tmp_path), settings=tuple(FAST))
    monkeypatch.setenv("INTERLINEAR_STORAGE_PATIENCE", "1")
    with pytest.raises(StorageError, match="the storage failed for 1 s"):
        train(job, observers=[AtUpdate(15, lambda: place.rename(away) and None)])
    newest = max((job.run / "checkpoints").glob("state-*")).name
    away.rename(place)
    notes = RecordingObserver()
    outcome = train(stored_job(tmp_path / "here", disk(tmp_path), resume=True), observers=[notes])
    assert newest == f"state-{notes.done:09d}" and outcome.weights_sha256 == toy_weights


def test_a_run_that_another_command_took_over_stops(tmp_path: Path) -> None:
    def take_over() -> None:
        stored_job(tmp_path / "there", disk(tmp_path), resume=True)

    job = stored_job(tmp_path / "here", disk(tmp_path), settings=tuple(FAST))
    with pytest.raises(StorageError, match=r"runs/toy: another command has taken this run over \("):
        train(job, observers=[AtUpdate(15, take_over)])


def test_a_waiting_state_is_replaced_by_a_newer_one_but_weights_are_not(tmp_path: Path) -> None:
    job = stored_job(tmp_path / "here", disk(tmp_path))
    assert job.run_storage is not None
    copies = CheckpointUploader(job.run_storage, job.name, job.run / "checkpoints", 9, print)
    (tmp_path / "storage").rename(tmp_path / "away")
    for number in range(1, 6):
        state = job.run / f"checkpoints/state-{number}"
        state.mkdir(parents=True)
        kept = [{"epoch": number}]
        (state / "progress.json").write_text(json.dumps({"progress": {"kept": kept}}))
        weights = job.run / f"checkpoints/epoch-{number:04d}.safetensors"
        weights.touch()
        copies.upload_weights(weights)
        copies.upload_state(state)
    assert copies.is_pending(job.run / "checkpoints/state-5") and not copies.is_pending(job.run / "checkpoints/state-2")
    (tmp_path / "away").rename(tmp_path / "storage")
    copies.wait(lambda: None)
    there = disk(tmp_path).names("runs/toy/checkpoints")
    assert [name for name in there if name.startswith("state-")] == ["state-5"]
    assert [name for name in there if name.startswith("epoch-")] == ["epoch-0005"]  # whose state is there
    assert not copies.is_pending(job.run / "checkpoints/state-5")


@pytest.mark.timeout(60)
def test_an_upload_thread_that_cannot_connect_ends_the_training_with_the_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = stored_job(tmp_path / "here", disk(tmp_path))
    assert job.run_storage is not None
    copies = CheckpointUploader(job.run_storage, job.name, job.run / "checkpoints", 9, print)
    monkeypatch.setenv("INTERLINEAR_STORAGE_PATIENCE", "long")  # the thread connects later, and refuses this
    (job.run / "checkpoints/state-1").mkdir(parents=True)
    copies.upload_state(job.run / "checkpoints/state-1")
    with pytest.raises(UsageError, match="'long' is no number of seconds"):
        copies.wait(lambda: None)
    with pytest.raises(UsageError, match="'long' is no number of seconds"):
        copies.upload_state(job.run / "checkpoints/state-1")


def leaver(_rank: int, job: TrainingJob) -> tuple[bool, bool]:
    outcome = train(job, process_group.TorchProcessGroup())
    assert job.run_storage and outcome.bundle
    stored = Storage(job.run_storage.uri).manifest(f"runs/{job.name}/bundle") is not None
    return outcome.bundle.is_dir(), stored


@pytest.mark.slow
def test_no_worker_exits_before_the_bundle_is_on_the_storage(tmp_path: Path) -> None:
    """A worker that exits clears its node's cache, which other nodes may share, e.g. containers with one volume."""
    job = stored_job(tmp_path / "here", disk(tmp_path))
    assert in_ranks(2, leaver, job) == [(True, True)] * 2


def test_a_node_downloads_once_for_all_its_workers(tmp_path: Path) -> None:
    job = stored_job(tmp_path / "driver", disk(tmp_path))
    network = tmp_path / "network.safetensors"
    network.write_bytes(b"weights")
    train(replace(job, run_storage=None))
    job = replace(job, network_weights={"image": network}, init_from=job.run / "bundle")
    delivery = stage_inputs(job, disk(tmp_path))
    assert stage_inputs(job, disk(tmp_path)) == delivery
    shutil.rmtree(tmp_path / "driver")
    network.unlink()
    with ThreadPoolExecutor(4) as pool:
        here = list(pool.map(lambda _: fetch_inputs(job, delivery, "node", print), range(4)))
    assert all(each == here[0] for each in here)
    assert here[0].prepared.name == job.prepared.name and here[0].network_weights["image"].read_bytes() == b"weights"
    assert here[0].init_from is not None and interlinear.load(here[0].init_from)
    before = here[0].prepared.stat().st_ino
    ids = here[0].prepared / "train.source.ids.npy"
    assert fetch_inputs(job, delivery, "node", print).prepared.stat().st_ino == before
    ids.write_bytes(b"cut")  # damaged files in the cache are downloaded again
    assert fetch_inputs(job, delivery, "node", print).prepared.stat().st_ino != before and ids.stat().st_size > 3
    flipped = bytearray(ids.read_bytes())
    flipped[-1] ^= 1
    for path, content in ((ids, bytes(flipped)), (here[0].network_weights["image"], b"weighty")):
        uninterrupted = path.read_bytes()
        path.write_bytes(content)
        fetch_inputs(job, delivery, "node", print)
        assert path.read_bytes() == uninterrupted
    shutil.rmtree(here[0].prepared)
    shard = tmp_path / "storage" / delivery.prepared / "train.source.ids.npy"
    shard.unlink()
    with pytest.raises(CorruptedError, match=r"train\.source\.ids\.npy: is missing"):
        fetch_inputs(job, delivery, "node", print)


def test_a_node_with_another_view_of_the_storage_is_named(tmp_path: Path) -> None:
    job = stored_job(tmp_path / "driver", None)
    delivery = write_token(job)
    check_shared_disk(job, delivery, "10.0.0.2")
    advice = "Have --runs and --prepared on a disk that all nodes share"
    with pytest.raises(TrainingError, match=rf"node 10\.0\.0\.2: it does not see the run's folder .* {advice}"):
        check_shared_disk(replace(job, run=tmp_path / "elsewhere"), delivery, "10.0.0.2")
    record = job.prepared / "prepared.json"
    record.write_text(record.read_text() + " ")
    with pytest.raises(TrainingError, match=r"node 10\.0\.0\.2: it sees other data than the driver \("):
        check_shared_disk(job, delivery, "10.0.0.2")
    record.unlink()
    with pytest.raises(TrainingError, match=r"node 10\.0\.0\.2: it sees no prepared data in "):
        check_shared_disk(job, delivery, "10.0.0.2")


def name_of(process: psutil.Process) -> str:
    with suppress(psutil.NoSuchProcess):
        return process.name()
    return ""


def a_worker() -> psutil.Process:
    return next(p for p in psutil.Process().children(recursive=True) if "ray::RayTrainW" in p.name())


@pytest.mark.slow
def test_workers_without_a_shared_disk_survive_a_kill_and_an_outage(s3: S3Server, tmp_path: Path) -> None:
    uninterrupted = train_on_ray(
        stored_job(tmp_path / "whole", None, settings=tuple(LONG)), WorkerGroupConfig(2, 2), []
    )

    storage = Storage(s3.uri("killed"))
    killed = HookedObserver(lambda: a_worker().kill())
    job = stored_job(tmp_path / "killed", storage, settings=tuple(LONG))
    outcome = train_on_ray(job, WorkerGroupConfig(2, 2), [killed, RecordsUploader(storage)])
    failed, went_on = killed.warnings
    assert "has died" in failed and went_on == "2 workers go on from the newest checkpoint (restart 1)."
    assert outcome.weights_sha256 == uninterrupted.weights_sha256
    assert outcome.bundle == job.run / "bundle"
    assert interlinear.load(outcome.bundle).card.weights_sha256 == uninterrupted.weights_sha256
    assert not (job.run / "checkpoints").exists() and storage.names("runs/toy/checkpoints")
    assert not [path for path in (tmp_path / "cache/runs").rglob("*") if path.is_file()]

    def cut() -> None:
        s3.stop()
        threading.Timer(12, s3.start).start()

    storage = Storage(s3.uri("away"))
    away = HookedObserver(cut)
    outcome = train_on_ray(
        stored_job(tmp_path / "away", storage, settings=tuple(LONG)), WorkerGroupConfig(2, 2), [away]
    )
    assert outcome.weights_sha256 == uninterrupted.weights_sha256
    assert away.warnings and all("the storage failed" in warning for warning in away.warnings)


@pytest.mark.slow
def test_after_a_kill_a_new_driver_with_an_empty_disk_resumes(s3: S3Server, tmp_path: Path) -> None:
    """The command itself: kill -9 after the storage has a checkpoint, then the same with --resume in another folder."""
    uninterrupted = train_on_ray(
        stored_job(tmp_path / "whole", None, settings=tuple(LONG)), WorkerGroupConfig(2, 2), []
    )
    storage = Storage(s3.uri("driver"))
    environment = {**os.environ, "PYTHONPATH": str(Path.cwd()), "INTERLINEAR_STORAGE": storage.uri}
    command = [
        sys.executable, "-m", "interlinear", "train", "rnnsearch", "--data", str(tmp_path / "corpus/toy.yaml"),
        "--workers", "2", "--run", "toy", *(word for setting in [*SETTINGS, *LONG] for word in ("--set", setting)),
    ]  # fmt: skip

    def start(folder: Path, *more: str) -> "subprocess.Popen[str]":
        folder.mkdir()
        return subprocess.Popen(
            [*command, *more], cwd=folder, env=environment, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )

    driver = start(tmp_path / "one")
    deadline = time.monotonic() + 120
    while not complete_states(storage, "runs/toy/checkpoints") and time.monotonic() < deadline:
        time.sleep(0.2)
    tree = psutil.Process(driver.pid).children(recursive=True)
    driver.kill()
    driver.wait()
    psutil.wait_procs([process for process in tree if "RayTrainW" in name_of(process)], 60)
    newest = complete_states(storage, "runs/toy/checkpoints")[-1]
    assert not newest.endswith("-done"), "the training was over before its driver was killed"
    shutil.rmtree(tmp_path / "one")
    shutil.rmtree(tmp_path / "cache")
    out, err = start(tmp_path / "two", "--resume").communicate(timeout=200)
    assert out.strip().endswith(uninterrupted.weights_sha256), err
    _, left = psutil.wait_procs(tree, 60)  # Ray's agents check for their raylet periodically
    assert left == []
