"""The training loop: learning, exact resumption, and error messages."""

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from safetensors.torch import load_file

import interlinear
from interlinear import cli
from interlinear.bundle import hash_weights
from interlinear.errors import TrainingError
from interlinear.generation.generator import SequenceGenerator
from interlinear.generation.request import Request
from tests.damage import DAMAGE, Damage
from tests.processes import command, in_ranks
from tests.training.observers import RecordingObserver, StopAfterUpdates
from tests.training.toy import SETTINGS, toy_job, write_corpus
from training.events import Outcome, StepReport, TrainingJob
from training.loop.checkpoints.checkpoint_manager import CheckpointManager
from training.loop.checkpoints.training_state import TrainingProgress, TrainingState
from training.loop.process_group import SingleProcess, TorchProcessGroup
from training.loop.trainer import Trainer, own_weights_on_cpu, train
from training.runs.run_lock import run_lock

ROOT = Path(__file__).parents[3]


@pytest.fixture(scope="module")
def uninterrupted(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Outcome, RecordingObserver]:
    """An uninterrupted training."""
    folder = tmp_path_factory.mktemp("whole")
    notes = RecordingObserver()
    outcome = train(toy_job(folder, settings=["training.epochs=8"]), observers=[notes])
    return folder, outcome, notes


def test_it_learns_and_its_bundle_translates(uninterrupted: tuple[Path, Outcome, RecordingObserver]) -> None:
    folder, outcome, notes = uninterrupted
    assert outcome.dev_bleu is not None and outcome.dev_bleu.score > 90
    assert notes.epochs[-1].train_loss < notes.epochs[0].train_loss / 5
    assert outcome.bundle is not None
    bundle = interlinear.load(outcome.bundle)
    assert bundle.card.weights_sha256 == outcome.weights_sha256
    assert bundle.card.languages == {"source": "de", "target": "en"}
    dev = (folder / "dev.source").read_text().splitlines()
    assert len(bundle.card.examples) == 3
    assert all(set(example) == {"source"} and example["source"] in dev for example in bundle.card.examples)
    references = dict(zip(dev, (folder / "dev.target").read_text().splitlines(), strict=True))
    shown = [Request(example, bundle.card.search) for example in bundle.card.examples]
    written = [answer.candidates[0].text for answer in SequenceGenerator(bundle).generate(shown)]
    assert written == [references[example["source"]] for example in bundle.card.examples], "it writes the references"
    sources = (folder / "test.source").read_text().splitlines()
    expected = (folder / "test.target").read_text().splitlines()
    requests = [Request({"source": line}, bundle.card.search, explain=True) for line in sources]
    answers = list(SequenceGenerator(bundle).generate(requests))
    right = [answer.candidates[0].text == line for answer, line in zip(answers, expected, strict=True)]
    assert sum(right) >= 0.8 * len(right)
    links = [
        (i, len(line.split()) - 1 - j) in answer.explanation.alignment
        for answer, line, good in zip(answers, sources, right, strict=True)
        if good
        for i, j in zip(range(len(line.split())), range(len(line.split())), strict=True)
    ]
    assert sum(links) >= 0.8 * len(links)


@pytest.mark.slow
def test_rouge_selects_the_best_epoch_when_configured(tmp_path: Path) -> None:
    notes = RecordingObserver()
    outcome = train(toy_job(tmp_path, settings=["training.score=rouge-l", "training.average=1"]), observers=[notes])
    rouge = [report.dev_rouge.score for report in notes.epochs if report.dev_rouge]
    assert len(rouge) == 3 and outcome.averaged == (rouge.index(max(rouge)) + 1,)
    card = interlinear.load(outcome.bundle).card if outcome.bundle else None
    assert card and card.metrics["dev_rouge_l"].score == pytest.approx(max(rouge))


def test_the_average_of_the_best_epochs_is_used_if_its_dev_score_is_better(
    uninterrupted: tuple[Path, Outcome, RecordingObserver],
) -> None:
    _, outcome, notes = uninterrupted
    ranked = sorted(notes.epochs, key=lambda report: -report.dev_bleu.score)
    assert outcome.dev_bleu.score >= ranked[0].dev_bleu.score
    assert len(outcome.averaged) in (1, 2)


@pytest.mark.parametrize("updates", [7, *(pytest.param(more, marks=pytest.mark.slow) for more in (1, 11))])
def test_a_stopped_training_resumes_to_the_same_weights(tmp_path: Path, toy_weights: str, updates: int) -> None:
    first = train(toy_job(tmp_path, "stopped"), StopAfterUpdates(updates))
    assert (first.signal, first.bundle, first.updates) == (signal.SIGTERM, None, updates)
    notes = RecordingObserver()
    second = train(toy_job(tmp_path, "stopped", resume=True), StopAfterUpdates(updates + 3), [notes])
    assert notes.done == updates and second.updates == 2 * updates + 3
    run_in_third_epoch = train(toy_job(tmp_path, "stopped", resume=True))
    assert run_in_third_epoch.weights_sha256 == toy_weights


@pytest.mark.slow
def test_the_linear_schedule_falls_within_epochs_and_continues_after_an_interruption(tmp_path: Path) -> None:
    class Rates(RecordingObserver):
        def step(self, report: StepReport) -> None:  # one for the last update of each epoch, and perhaps others
            rates[report.update] = (report.learning_rate, report.updates)

    linear = ["training.schedule=linear"]
    rates: dict[int, tuple[float, int]] = {}
    expected = train(toy_job(tmp_path, settings=linear), observers=[Rates()])
    assert len(rates) >= 3
    for update, (rate, updates) in rates.items():  # reports count updates from 1; SETTINGS' rate
        assert rate == pytest.approx(0.01 * (1 - (update - 1) / updates))
    train(toy_job(tmp_path, "stopped", settings=linear), StopAfterUpdates(expected.updates // 2))
    resumed = train(toy_job(tmp_path, "stopped", resume=True, settings=linear))
    assert resumed.weights_sha256 == expected.weights_sha256


def test_a_training_ends_when_its_rate_is_under_a_hundredth(tmp_path: Path) -> None:
    halving = ["training.schedule=halve_from_epoch", "training.halve_from=1", "training.epoch_updates=2"]
    outcome = train(toy_job(tmp_path, settings=[*halving, "training.epochs=9", "training.patience=null"]))
    assert (outcome.epochs, outcome.updates) == (7, 14)  # 1/128 of the rate would be next


@pytest.mark.parametrize(
    ("ended_by", "rate"),
    [("training.epochs=2", 0.01), ("training.patience=1", 1e-6)],  # with so small a rate the dev BLEU does not change
    ids=["epochs", "patience"],
)
def test_a_finished_training_resumes_for_more_epochs(tmp_path: Path, ended_by: str, rate: float) -> None:
    """The weights equal those of a training with all epochs from the start; without further epochs nothing is
    trained."""
    uninterrupted = [f"training.learning_rate={rate}", "training.epochs=5", "training.patience=null"]
    expected = train(toy_job(tmp_path, settings=uninterrupted)).weights_sha256
    first = train(toy_job(tmp_path, "short", settings=[*uninterrupted, ended_by]))
    assert first.epochs < 5
    again = train(toy_job(tmp_path, "short", resume=True, settings=[*uninterrupted, ended_by]))
    assert (again.updates, again.weights_sha256) == (first.updates, first.weights_sha256)
    longer = train(toy_job(tmp_path, "short", resume=True, settings=uninterrupted))
    assert (longer.epochs, longer.weights_sha256) == (5, expected)


def test_a_damaged_checkpoint_is_skipped(finished_run: tuple[Path, Outcome], tmp_path: Path) -> None:
    folder, finished = finished_run
    shutil.copytree(folder, tmp_path, dirs_exist_ok=True)
    damaged = sorted((tmp_path / "runs/toy/checkpoints").glob("state-*"))[-2:]
    with (damaged[1] / "tensors.safetensors").open("r+b") as file:
        file.seek(-9, os.SEEK_END)
        file.write(b"x")
    notes = RecordingObserver()
    outcome = train(toy_job(tmp_path, resume=True), observers=[notes])
    assert len(notes.warnings) == 1 and str(damaged[1]) in notes.warnings[0]
    assert outcome.weights_sha256 == finished.weights_sha256


def flip(path: Path, place: int = -9) -> None:
    content = bytearray(path.read_bytes())
    content[place] ^= 4
    path.unlink()  # may be memory-mapped
    path.write_bytes(content)


@pytest.mark.parametrize("last", [True, False])
def test_damaged_weights_of_an_epoch_are_reported_at_the_start(
    finished_run: tuple[Path, Outcome], tmp_path: Path, last: bool
) -> None:
    """They are restored if a checkpoint still contains them; otherwise they are dropped, with a warning."""
    folder, outcome = finished_run
    shutil.copytree(folder, tmp_path, dirs_exist_ok=True)
    checkpoints = CheckpointManager(tmp_path / "runs/toy", keep=2)
    kept = checkpoints.load_newest().progress.kept
    assert {3} < {one.epoch for one in kept}  # the last epoch is one of two
    damaged = checkpoints.weights_path(3 if last else min(one.epoch for one in kept))
    flip(damaged)
    notes = RecordingObserver()
    again = train(toy_job(tmp_path, resume=True), observers=[notes])
    assert str(damaged) in notes.warnings[0]
    if last:
        assert "made again from" in notes.warnings[0] and again.weights_sha256 == outcome.weights_sha256
        return
    assert f"without the weights of epoch {damaged.stem[-1]}," in notes.warnings[-1]
    assert again.averaged == (3,)
    for path in checkpoints.folder.glob("*/tensors.safetensors"):
        flip(path)
    with pytest.raises(TrainingError, match="none of the 2 checkpoints can be read"):
        train(toy_job(tmp_path, resume=True))


def edit(run: Path, change: Callable[[dict[str, Any]], object]) -> Path:
    """Change the newest checkpoint's progress."""
    path = max((run / "checkpoints").glob("state-*")) / "progress.json"
    content = json.loads(path.read_text())
    change(content)
    path.write_text(json.dumps(content))
    return path


def test_a_changed_position_is_detected_and_the_checkpoint_skipped(
    toy_weights: str, run_in_third_epoch: Path, tmp_path: Path
) -> None:
    shutil.copytree(run_in_third_epoch.parents[1], tmp_path, dirs_exist_ok=True)
    run = tmp_path / "runs/toy"
    path = edit(run, lambda content: content["progress"].update(position=content["progress"]["position"] - 1))
    notes = RecordingObserver()
    assert train(toy_job(tmp_path, resume=True), observers=[notes]).weights_sha256 == toy_weights
    assert str(path.parent) in notes.warnings[0] and "own checksum" in notes.warnings[0]


@pytest.fixture(scope="module")
def run_in_third_epoch(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The run of a training that was stopped in its third epoch."""
    job = toy_job(
        tmp_path_factory.mktemp("stopped"), settings=["training.save_minutes=0.00001", "training.keep_last=4"]
    )
    assert train(job, StopAfterUpdates(32)).epochs == 2
    return job.run


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(place=st.integers(0, 20), damage=DAMAGE)
def test_a_damaged_file_of_a_run_is_named_or_has_no_effect(
    run_in_third_epoch: Path, tmp_path: Path, place: int, damage: Damage
) -> None:
    """For every file and every kind of damage: training resumes from what was saved, or the file is named."""
    saved = {folder.name: contents(folder) for folder in CheckpointManager(run_in_third_epoch, keep=4).states()}
    run = tmp_path / "run"
    shutil.rmtree(run, ignore_errors=True)
    shutil.copytree(run_in_third_epoch, run)
    files = sorted(path for path in (run / "checkpoints").rglob("*") if path.is_file())
    damage(files[place % len(files)], run_in_third_epoch / files[place % len(files) - 1].relative_to(run))
    checkpoints, warnings = CheckpointManager(run, keep=4), list[str]()
    try:
        state = checkpoints.load_newest(warnings.append)
    except TrainingError:
        return
    assert state is not None
    name = f"state-{state.progress.updates:09d}"
    progress, tensors = saved[name]
    if warnings:
        assert all(str(run) in warning and "\n" not in warning for warning in warnings)
    else:
        assert name == max(saved) and state.progress.kept == progress.kept
    assert state.progress.model_copy(update={"kept": []}) == progress.model_copy(update={"kept": []})
    assert state.tensors.keys() == tensors.keys()
    assert all(torch.equal(tensor, tensors[name]) for name, tensor in state.tensors.items())
    before = {
        kept.epoch: load_file(CheckpointManager(run_in_third_epoch, keep=4).weights_path(kept.epoch))
        for kept in progress.kept
    }
    for kept in state.progress.kept:
        weights = checkpoints.load_weights(kept)
        assert all(torch.equal(tensor, before[kept.epoch][name]) for name, tensor in weights.items())


def contents(state: Path) -> tuple[TrainingProgress, dict[str, torch.Tensor]]:
    return CheckpointManager(state.parents[1], keep=4).read_progress(state), load_file(state / "tensors.safetensors")


@pytest.mark.parametrize("content", ["[]", "{}", '{"progress": []}', "", "[" * 100_000, '{"sha256": 1}'])
def test_invalid_progress_is_skipped_with_a_warning(run_in_third_epoch: Path, tmp_path: Path, content: str) -> None:
    run = Path(shutil.copytree(run_in_third_epoch, tmp_path / "run"))
    newest = CheckpointManager(run, keep=4).states()[-1]
    (newest / "progress.json").write_text(content)
    warnings: list[str] = []
    state = CheckpointManager(run, keep=4).load_newest(warnings.append)
    assert state is not None and len(warnings) == 1 and str(newest) in warnings[0]


def test_incomplete_files_of_a_killed_process_are_removed(tmp_path: Path) -> None:
    job = toy_job(tmp_path)
    train(job, StopAfterUpdates(2))
    (job.run / "checkpoints/.state-000000001").mkdir()
    (job.run / "checkpoints/.epoch-0001.safetensors").touch()
    (job.run / ".bundle-x1y2").mkdir()
    train(toy_job(tmp_path, resume=True))
    assert not [path for path in job.run.rglob(".*") if path.name != ".lock"]


def test_a_state_of_the_same_update_is_replaced_atomically(tmp_path: Path) -> None:
    """An epoch's last update is saved before and after evaluation: one of both states always exists."""
    job = toy_job(tmp_path, settings=["training.keep_last=1"])
    train(job, StopAfterUpdates(2))
    checkpoints = CheckpointManager(job.run, keep=1)
    state = checkpoints.load_newest()
    assert state is not None
    (folder,) = checkpoints.states()
    before = folder.stat().st_ino
    later = state.progress.model_copy(update={"epoch": 2, "position": 0})
    checkpoints.save(TrainingState(later, state.tensors))
    assert checkpoints.states() == [folder] and folder.stat().st_ino == before
    after = checkpoints.load_newest()
    assert after is not None and after.progress == later
    (folder / "tensors.safetensors").unlink()  # its tensors are memory-mapped, so it cannot be overwritten
    (folder / "tensors.safetensors").write_bytes(b"damaged")
    checkpoints.save(TrainingState(later, state.tensors))
    assert checkpoints.load_newest() is not None


def test_another_recipe_or_other_data_is_not_resumed(tmp_path: Path) -> None:
    train(toy_job(tmp_path), StopAfterUpdates(2))
    with pytest.raises(TrainingError, match=r"training\.learning_rate \(0\.01 -> 0\.02\)"):
        train(toy_job(tmp_path, resume=True, settings=["training.learning_rate=0.02"]))
    write_corpus(tmp_path, pairs=500)
    with pytest.raises(TrainingError, match="other data"):
        train(toy_job(tmp_path, resume=True))


def test_resuming_requires_a_state(tmp_path: Path) -> None:
    with pytest.raises(TrainingError, match="no run of that name"):
        toy_job(tmp_path, "never", resume=True)


def test_a_non_finite_loss_ends_with_a_message(tmp_path: Path) -> None:
    with pytest.raises(TrainingError, match="not finite") as caught:
        train(toy_job(tmp_path, settings=["training.learning_rate=1e38", "training.clip=null"]))
    assert "learning_rate" in caught.value.remedy


def test_a_full_disk_ends_with_a_message_and_keeps_the_last_checkpoint(tmp_path: Path) -> None:
    job = toy_job(tmp_path)
    train(job, StopAfterUpdates(2))
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


def shared_training(_rank: int, job: TrainingJob) -> str | None:
    return train(job, TorchProcessGroup()).weights_sha256


def assert_the_updates_of_one(alone: TrainingJob, shared: TrainingJob, tolerance: float) -> None:
    """Assert that two workers end with the same weights, equal to those of one process up to rounding."""
    assert len(set(in_ranks(2, shared_training, shared))) == 1
    outcome = train(alone)
    ours, theirs = (interlinear.load(outcome.bundle), interlinear.load(shared.run / "bundle"))
    for (name, one), (_, two) in zip(ours.model.named_parameters(), theirs.model.named_parameters(), strict=True):
        torch.testing.assert_close(one, two, rtol=0, atol=tolerance, msg=lambda m, n=name: f"{n}: {m}")


@pytest.mark.slow
def test_two_workers_make_the_same_updates_as_one(tmp_path: Path) -> None:
    alone, shared = (toy_job(tmp_path, run, settings=["model.dropout=0"]) for run in ("of-1", "of-2"))
    assert_the_updates_of_one(alone, shared, 2e-3)


@dataclass(frozen=True)
class RankOutcome:
    """The outcome of a rank: its final weights' hash and its warnings, or its error message."""

    weights_sha256: str | None
    done: int
    warnings: tuple[str, ...]
    error: str = ""


def resumed_rank(rank: int, jobs: list[TrainingJob]) -> RankOutcome:
    """Each rank has a job of its own."""
    notes = RecordingObserver()
    try:
        outcome = train(jobs[rank], TorchProcessGroup(), [notes])
    except TrainingError as error:
        return RankOutcome(None, notes.done, tuple(notes.warnings), str(error))
    return RankOutcome(outcome.weights_sha256, notes.done, tuple(notes.warnings))


def cut_off(state: Path) -> None:
    """A state with truncated tensors, as left by a full or failing disk."""
    with (state / "tensors.safetensors").open("r+b") as file:
        file.truncate(1000)


@pytest.fixture(scope="module")
def stopped(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a training with states of updates 3 and 7."""
    folder = tmp_path_factory.mktemp("stopped")
    train(toy_job(folder), StopAfterUpdates(3))
    train(toy_job(folder, resume=True), StopAfterUpdates(4))
    return folder


@pytest.mark.slow
@pytest.mark.parametrize("rank", [0, 1])
def test_ranks_resume_from_one_state_if_one_rank_cannot_read_the_newest(
    tmp_path: Path, stopped: Path, rank: int
) -> None:
    """Each rank has a copy of the run; the newest state of one copy is truncated."""
    job = toy_job(stopped, resume=True)
    jobs = [replace(job, run=tmp_path / f"of-{number}" / job.name) for number in range(2)]
    for own in jobs:
        shutil.copytree(job.run, own.run)
    cut_off(jobs[rank].run / "checkpoints" / "state-000000007")

    first, second = in_ranks(2, resumed_rank, jobs)

    assert first.error == second.error == ""
    assert first.done == second.done == (3 if rank == 0 else 7)
    assert first.weights_sha256 == second.weights_sha256 is not None
    assert [str(jobs[0].run / "checkpoints/state-000000007") in said for said in first.warnings] == [True] * (rank == 0)
    assert interlinear.load(jobs[0].run / "bundle").card.weights_sha256 == first.weights_sha256


@pytest.mark.slow
def test_if_no_state_is_readable_every_rank_fails_with_the_same_message(tmp_path: Path, stopped: Path) -> None:
    """A training does not start again as if no state existed, which would overwrite the run."""
    before = toy_job(stopped, resume=True)
    job = replace(before, run=tmp_path / before.name)
    shutil.copytree(before.run, job.run)
    for state in (job.run / "checkpoints").glob("state-*"):
        cut_off(state)
    first, second = in_ranks(2, resumed_rank, [job, job])
    assert first.error == second.error and "none of the 2 checkpoints can be read" in first.error


def own_start(rank: int, jobs: list[TrainingJob]) -> str:
    training = Trainer(jobs[rank], TorchProcessGroup(), [], torch.device("cpu"))
    training.initialize()
    return hash_weights(own_weights_on_cpu(training.model))


@pytest.mark.slow
def test_weights_initialized_differently_by_ranks_are_those_of_rank_0(tmp_path: Path) -> None:
    """Different processors may initialize differently; another seed stands for that here."""
    jobs = [toy_job(tmp_path, f"of-{seed}", settings=[f"training.seed={seed}"]) for seed in (1, 2)]
    drawn = {
        hash_weights(own_weights_on_cpu(Trainer(job, SingleProcess(), [], torch.device("cpu")).model)) for job in jobs
    }
    assert len(drawn) == 2
    begun = set(in_ranks(2, own_start, jobs))
    assert len(begun) == 1 and begun < drawn


def test_a_run_in_use_is_reported_with_its_process_and_not_changed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Also if that process has been stopped (SIGSTOP); after it was killed, the run resumes."""
    write_corpus(tmp_path)
    settings = [word for setting in [*SETTINGS, "training.save_minutes=0.0001"] for word in ("--set", setting)]
    words = ["train", "rnnsearch", "--data", "toy.yaml", "--no-ray", "--tracking", "none", "--run", "live", *settings]
    monkeypatch.chdir(tmp_path)
    live = command(tmp_path, *words)
    run = tmp_path / "runs/live"
    deadline = time.monotonic() + 120
    while not list(run.glob("checkpoints/state-*")) and time.monotonic() < deadline:
        time.sleep(0.005)
    os.kill(live.pid, signal.SIGSTOP)

    def files() -> dict[str, int]:
        return {str(path.relative_to(run)): path.stat().st_mtime_ns for path in run.rglob("*")}

    before = files()
    assert cli.run([*words, "--resume"]) == 1
    out, said = capsys.readouterr()
    assert out == "" and said.count("\n") == 1
    assert f"process {live.pid} on " in said and str(run) in said
    assert files() == before
    live.kill()
    live.join()
    with run_lock(run):
        pass
    assert sorted(path.name for path in (tmp_path / "runs").iterdir()) == ["live"]


def test_a_killed_training_resumes_to_the_same_weights(
    toy_weights: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The command in processes of its own: kill -9 at a random time, or Ctrl-C; then the same with --resume."""
    write_corpus(tmp_path)
    monkeypatch.chdir(tmp_path)
    settings = [word for setting in [*SETTINGS, "training.save_minutes=0.002"] for word in ("--set", setting)]
    words = ["train", "rnnsearch", "--data", "toy.yaml", "--no-ray", "--tracking", "none", *settings]

    def until_saved(run: str) -> None:
        deadline = time.monotonic() + 60
        while not list(tmp_path.glob(f"runs/{run}/checkpoints/state-*")) and time.monotonic() < deadline:
            time.sleep(0.005)

    process = command(tmp_path, *words, "--run", "killed")
    until_saved("killed")
    time.sleep(random.random() * 0.3)
    process.kill()
    process.join()
    newest = max((tmp_path / "runs/killed/checkpoints").glob("state-*"))
    assert json.loads((newest / "progress.json").read_text())["progress"]["updates"] > 0
    assert cli.run([*words, "--run", "killed", "--resume"]) == 0
    assert capsys.readouterr().out.strip().splitlines()[-1] == toy_weights

    stopped = subprocess.Popen(
        [sys.executable, "-m", "interlinear", *words, "--run", "stopped", "--set", "training.epochs=99",
         "--set", "training.patience=null"],
        cwd=tmp_path, env={**os.environ, "PYTHONPATH": str(ROOT)}, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    until_saved("stopped")
    stopped.send_signal(signal.SIGINT)
    _, err = stopped.communicate(timeout=60)
    assert stopped.returncode == 130 and "Traceback" not in err
    assert "--run stopped" in err and "--resume" in err
