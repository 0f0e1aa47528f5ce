"""The loop: it learns, goes on exactly where it stopped, and says in a sentence why it cannot."""

import json
import os
import random
import signal
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path

import pytest
import torch
from torch import multiprocessing

import seq2seq
from seq2seq.errors import TrainingError
from seq2seq.generation import Generation, Request
from tests.training.toy import SETTINGS, toy_job, write_corpus
from training.checkpoints import Checkpoints, TrainingState
from training.loop import train
from training.reports import EpochReport, Outcome, Started, StepReport, TrainingJob
from training.workers import Alone, Group


@dataclass
class Notes:
    """An observer that remembers, and may wish to stop after so many updates."""

    worker: Alone = field(default_factory=Alone)
    stop_after: int | None = None
    epochs: list[EpochReport] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    done: int = 0

    def started(self, job: TrainingJob, start: Started) -> None:
        self.done = start.done

    def step(self, report: StepReport) -> None:
        if self.stop_after is not None and report.update >= self.stop_after:
            self.worker.signal = signal.SIGTERM

    def epoch(self, report: EpochReport) -> None:
        self.epochs.append(report)

    def warned(self, message: str) -> None:
        self.warnings.append(message)

    def finished(self, outcome: Outcome) -> None: ...


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Outcome, Notes]:
    """A training that nobody disturbed."""
    folder = tmp_path_factory.mktemp("whole")
    notes = Notes()
    outcome = train(toy_job(folder, settings=["training.epochs=8"]), observers=[notes])
    return folder, outcome, notes


def test_it_learns_and_its_bundle_translates(whole: tuple[Path, Outcome, Notes]) -> None:
    folder, outcome, notes = whole
    assert outcome.dev_bleu is not None and outcome.dev_bleu.score > 90
    assert notes.epochs[-1].train_loss < notes.epochs[0].train_loss / 5
    assert outcome.bundle is not None
    bundle = seq2seq.load(outcome.bundle)
    assert bundle.card.weights_sha256 == outcome.weights_sha256
    assert bundle.card.languages == {"source": "de", "target": "en"}
    sources = (folder / "test.source").read_text().splitlines()
    expected = (folder / "test.target").read_text().splitlines()
    requests = [Request({"source": line}, bundle.card.search, explain=True) for line in sources]
    answers = list(Generation(bundle).answers(requests))
    right = [answer.candidates[0].text == line for answer, line in zip(answers, expected, strict=True)]
    assert sum(right) >= 0.8 * len(right)
    links = [
        (i, len(line.split()) - 1 - j) in answer.explanation.alignment
        for answer, line, good in zip(answers, sources, right, strict=True)
        if good
        for i, j in zip(range(len(line.split())), range(len(line.split())), strict=True)
    ]
    assert sum(links) >= 0.8 * len(links)


def test_rouge_decides_where_it_is_asked_to(tmp_path: Path) -> None:
    notes = Notes()
    outcome = train(toy_job(tmp_path, settings=["training.score=rouge-l", "training.average=1"]), observers=[notes])
    rouge = [report.dev_rouge.score for report in notes.epochs if report.dev_rouge]
    assert len(rouge) == 3 and outcome.averaged == (rouge.index(max(rouge)) + 1,)
    card = seq2seq.load(outcome.bundle).card if outcome.bundle else None
    assert card and card.metrics["dev_rouge_l"].score == pytest.approx(max(rouge))


def test_the_average_of_the_best_epochs_is_used_where_dev_prefers_it(whole: tuple[Path, Outcome, Notes]) -> None:
    _, outcome, notes = whole
    ranked = sorted(notes.epochs, key=lambda report: -report.dev_bleu.score)
    assert outcome.dev_bleu.score >= ranked[0].dev_bleu.score
    assert len(outcome.averaged) in (1, 2)


class Impatient(Alone):
    """Wishes to stop at the n-th update of this process, wherever that is."""

    def __init__(self, updates: int) -> None:
        super().__init__()
        self.left = updates

    def asked_to_stop(self) -> int:
        self.left -= 1
        return signal.SIGTERM if self.left <= 0 else 0


@pytest.mark.parametrize("updates", [1, 7, 11])
def test_a_stopped_training_goes_on_to_the_same_weights(tmp_path: Path, updates: int) -> None:
    expected = train(toy_job(tmp_path)).weights_sha256
    first = train(toy_job(tmp_path, "stopped"), Impatient(updates))
    assert (first.signal, first.bundle, first.updates) == (signal.SIGTERM, None, updates)
    notes = Notes()
    second = train(toy_job(tmp_path, "stopped", resume=True), Impatient(updates + 3), [notes])
    assert notes.done == updates and second.updates == 2 * updates + 3
    third = train(toy_job(tmp_path, "stopped", resume=True))
    assert third.weights_sha256 == expected


@pytest.mark.parametrize(
    ("ended_by", "rate"), [("training.epochs=2", 0.01), ("training.patience=1", 3.0)], ids=["epochs", "patience"]
)
def test_a_training_that_has_ended_goes_on_to_more_epochs(tmp_path: Path, ended_by: str, rate: float) -> None:
    """To the weights of one that had them from the start; where none are asked for, nothing is trained."""
    whole = [f"training.learning_rate={rate}", "training.epochs=5", "training.patience=null"]
    expected = train(toy_job(tmp_path, settings=whole)).weights_sha256
    first = train(toy_job(tmp_path, "short", settings=[*whole, ended_by]))
    assert first.epochs < 5
    again = train(toy_job(tmp_path, "short", resume=True, settings=[*whole, ended_by]))
    assert (again.updates, again.weights_sha256) == (first.updates, first.weights_sha256)
    longer = train(toy_job(tmp_path, "short", resume=True, settings=whole))
    assert (longer.epochs, longer.weights_sha256) == (5, expected)


def test_a_damaged_checkpoint_is_passed_over(tmp_path: Path) -> None:
    job = toy_job(tmp_path)
    expected = train(job).weights_sha256
    damaged = sorted((job.run / "checkpoints").glob("state-*"))[-2:]
    with (damaged[1] / "tensors.safetensors").open("r+b") as file:
        file.seek(-9, os.SEEK_END)
        file.write(b"x")
    notes = Notes()
    outcome = train(toy_job(tmp_path, resume=True), observers=[notes])
    assert len(notes.warnings) == 1 and str(damaged[1]) in notes.warnings[0]
    assert outcome.weights_sha256 == expected


def test_what_a_killed_process_has_half_written_is_cleared(tmp_path: Path) -> None:
    job = toy_job(tmp_path)
    train(job, Impatient(2))
    (job.run / "checkpoints/.state-000000001").mkdir()
    (job.run / "checkpoints/.epoch-0001.safetensors").touch()
    (job.run / ".bundle-x1y2").mkdir()
    train(toy_job(tmp_path, resume=True))
    assert not [path for path in job.run.rglob(".*") if path.name != ".lock"]


def test_a_state_of_the_same_update_takes_the_place_of_one_without_a_moment_between(tmp_path: Path) -> None:
    """An epoch's last update is saved before the epoch is judged, and after: of both, one is always there."""
    job = toy_job(tmp_path, settings=["training.keep_last=1"])
    train(job, Impatient(2))
    checkpoints = Checkpoints(job.run, keep=1)
    state = checkpoints.newest()
    assert state is not None
    (folder,) = checkpoints.states()
    before = folder.stat().st_ino
    later = state.progress.model_copy(update={"epoch": 2, "position": 0})
    checkpoints.save(TrainingState(later, state.tensors))
    assert checkpoints.states() == [folder] and folder.stat().st_ino == before
    after = checkpoints.newest()
    assert after is not None and after.progress == later
    (folder / "tensors.safetensors").unlink()  # whose tensors are mapped, so that it cannot be written over
    (folder / "tensors.safetensors").write_bytes(b"damaged")
    checkpoints.save(TrainingState(later, state.tensors))
    assert checkpoints.newest() is not None


def test_another_recipe_or_other_data_is_not_resumed(tmp_path: Path) -> None:
    train(toy_job(tmp_path), Impatient(2))
    with pytest.raises(TrainingError, match=r"training\.learning_rate \(0\.01 -> 0\.02\)"):
        train(toy_job(tmp_path, resume=True, settings=["training.learning_rate=0.02"]))
    write_corpus(tmp_path, pairs=500)
    with pytest.raises(TrainingError, match="other data"):
        train(toy_job(tmp_path, resume=True))


def test_there_must_be_something_to_resume(tmp_path: Path) -> None:
    with pytest.raises(TrainingError, match="no run of that name"):
        toy_job(tmp_path, "never", resume=True)


def test_a_loss_that_is_not_finite_ends_in_a_sentence(tmp_path: Path) -> None:
    with pytest.raises(TrainingError, match="not finite") as caught:
        train(toy_job(tmp_path, settings=["training.learning_rate=1e38", "training.clip=null"]))
    assert "learning_rate" in caught.value.remedy


def test_a_full_disk_ends_in_a_sentence_and_leaves_the_last_checkpoint(tmp_path: Path) -> None:
    job = toy_job(tmp_path)
    train(job, Impatient(2))
    before = sorted(path.name for path in (job.run / "checkpoints").iterdir())
    small = tmp_path / "small"
    small.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=200k", "tmpfs", small], check=False, capture_output=True
    )
    if mounted.returncode:
        pytest.skip("a small disk can be mounted by root only")
    try:
        full = toy_job(tmp_path, "full")
        (full.run / "checkpoints").symlink_to(small, target_is_directory=True)
        with pytest.raises(TrainingError, match="disk is full"):
            train(full)
        assert not list(small.glob("state-*"))
    finally:
        subprocess.run(["umount", small], check=True)
    assert sorted(path.name for path in (job.run / "checkpoints").iterdir()) == before


def worker(rank: int, world: int, port: int, job: TrainingJob, answers: "multiprocessing.Queue[str | None]") -> None:
    torch.set_num_threads(1)
    torch.distributed.init_process_group("gloo", f"tcp://127.0.0.1:{port}", world_size=world, rank=rank)
    answers.put(train(job, Group()).weights_sha256)
    torch.distributed.destroy_process_group()


def assert_the_updates_of_one(alone: TrainingJob, shared: TrainingJob, tolerance: float) -> None:
    """Two workers end with the same weights, those of one process but for rounding."""
    context = multiprocessing.get_context("spawn")
    answers: multiprocessing.Queue[str | None] = context.Queue()
    port = 20000 + random.randrange(20000)
    processes = [context.Process(target=worker, args=(rank, 2, port, shared, answers)) for rank in range(2)]
    for process in processes:
        process.start()
    outcome = train(alone)
    hashes = {answers.get(timeout=60) for _ in processes}
    for process in processes:
        process.join(30)
    assert len(hashes) == 1
    ours, theirs = (seq2seq.load(outcome.bundle), seq2seq.load(shared.run / "bundle"))
    for (name, one), (_, two) in zip(ours.model.named_parameters(), theirs.model.named_parameters(), strict=True):
        torch.testing.assert_close(one, two, rtol=0, atol=tolerance, msg=lambda m, n=name: f"{n}: {m}")


def test_two_workers_make_the_updates_of_one(tmp_path: Path) -> None:
    alone, shared = (toy_job(tmp_path, run, settings=["model.dropout=0"]) for run in ("of-1", "of-2"))
    assert_the_updates_of_one(alone, shared, 2e-3)


def test_a_killed_training_goes_on_to_the_same_weights(tmp_path: Path) -> None:
    """The command itself, in processes of its own: kill -9 at a moment of chance, then the same with --resume."""
    write_corpus(tmp_path)
    settings = [word for setting in [*SETTINGS, "training.save_minutes=0.002"] for word in ("--set", setting)]
    command = [
        sys.executable, "-m", "interlinear", "train", "rnnsearch", "--data", "toy.yaml", "--no-ray", "--no-tracking",
        *settings,
    ]  # fmt: skip
    environment = {**os.environ, "PYTHONPATH": str(Path.cwd())}

    def start(run: str, *more: str) -> "subprocess.Popen[str]":
        return subprocess.Popen(
            [*command, "--run", run, *more], cwd=tmp_path, env=environment, text=True,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )  # fmt: skip

    out, err = start("whole").communicate(timeout=120)
    expected = out.strip().splitlines()[-1]
    assert len(expected) == 64, err

    process = start("killed")
    deadline = time.monotonic() + 60
    while not list((tmp_path / "runs/killed/checkpoints").glob("state-*")) and time.monotonic() < deadline:
        time.sleep(0.005)
    time.sleep(random.random() * 0.3)
    process.kill()
    process.communicate()
    newest = max((tmp_path / "runs/killed/checkpoints").glob("state-*"))
    assert json.loads((newest / "progress.json").read_text())["progress"]["updates"] > 0
    out, err = start("killed", "--resume").communicate(timeout=120)
    assert out.strip().splitlines()[-1] == expected, err

    process = start("stopped")
    while not list((tmp_path / "runs/stopped/checkpoints").glob("state-*")) and time.monotonic() < deadline + 60:
        time.sleep(0.005)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    if process.returncode != 0:  # it may have been done by then
        assert process.returncode == 130 and "--run stopped --resume" in err and "Traceback" not in err
