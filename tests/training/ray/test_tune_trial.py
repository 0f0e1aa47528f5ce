"""A trial waits after every epoch, stops there or within one, and goes on from its checkpoint."""

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.training.toy import toy_job
from training.events import EpochReport, Outcome, StartReport, TrainingJob
from training.loop.checkpoints.checkpoint_manager import CheckpointManager
from training.loop.trainer import train
from training.ray.control import WorkerEvent, WorkerFailed
from training.ray.tune_trial import EVENTS, STOP_FILE, TrialActor, TrialThread
from training.storage.staging import write_token
from training.tuning.record import EPOCH_FILE, read_epochs

SHORT = ["training.epochs=3", "training.average=1", "model.dropout=0.1"]


def job_of(folder: Path, run: str) -> TrainingJob:
    return toy_job(folder, run, (folder / "runs" / run).is_dir(), SHORT)


def thread_of(job: TrainingJob) -> TrialThread:
    return TrialThread(job, write_token(job), "cpu")


def next_epoch(thread: TrialThread) -> list[WorkerEvent]:
    """The events up to the next epoch or the end."""
    events: list[WorkerEvent] = []
    while not (thread.ended or (events and isinstance(events[-1], EpochReport))):
        events += thread.events()
    return events


def test_a_trial_that_was_stopped_goes_on_to_the_same_weights(tmp_path: Path) -> None:
    whole = train(job_of(tmp_path, "whole"))
    thread = thread_of(job_of(tmp_path, "trial"))
    thread.start()
    first = next_epoch(thread)
    assert isinstance(first[0], StartReport) and isinstance(first[-1], EpochReport) and first[-1].epoch == 1
    thread.stop()
    run = tmp_path / "runs/trial"
    newest = CheckpointManager(run, keep=1).load_newest()
    assert newest and (newest.progress.epoch, newest.progress.position) == (2, 1)  # not more than an update further
    assert [result.epoch for result in read_epochs(run)] == [1]

    thread = thread_of(job_of(tmp_path, "trial"))
    thread.start()
    events = [*next_epoch(thread), *next_epoch(thread), *next_epoch(thread)]
    assert [event.epoch for event in events if isinstance(event, EpochReport)] == [2, 3]
    assert isinstance(outcome := events[-1], Outcome) and outcome.weights_sha256 == whole.weights_sha256
    results = read_epochs(run)
    assert [result.epoch for result in results] == [1, 2, 3]
    assert results[0].dev_bleu == first[-1].dev_bleu.score


def test_a_file_in_the_tunings_folder_makes_a_trial_save_and_end(tmp_path: Path) -> None:
    thread = thread_of(job_of(tmp_path, "trial"))
    (tmp_path / "runs" / STOP_FILE).touch()
    thread.start()
    events = next_epoch(thread)
    assert isinstance(outcome := events[-1], Outcome) and outcome.signal and outcome.epochs == 0
    assert CheckpointManager(tmp_path / "runs/trial", keep=1).newest_intact()


def test_an_error_is_an_event_and_not_a_lost_process(tmp_path: Path) -> None:
    job = job_of(tmp_path, "trial")
    (job.run / "checkpoints").mkdir()
    state = job.run / "checkpoints/state-000000001"
    state.mkdir()
    (state / "progress.json").write_text("{}")
    thread = thread_of(job_of(tmp_path, "trial"))
    thread.start()
    events = next_epoch(thread)
    assert isinstance(failed := events[-1], WorkerFailed) and "none of the 1 checkpoints can be read" in str(
        failed.error
    )


@pytest.mark.parametrize("lacking", ["run", "prepared"])
def test_a_node_that_does_not_see_the_drivers_files_is_an_event_and_not_a_lost_process(
    tmp_path: Path, lacking: str
) -> None:
    job = job_of(tmp_path, "trial")
    staged = write_token(job)

    class Actor(TrialActor):
        """As on a node with another disk."""

        def setup(self, config: dict[str, Any]) -> None:
            there = replace(job, **{lacking: tmp_path / "elsewhere"})
            super().setup(config, {"trial": there}, {"trial": staged}, "cpu")

    actor = Actor({"trial": "trial"})
    result = actor.train()
    assert result["done"]
    (failed,) = result[EVENTS]
    assert isinstance(failed, WorkerFailed)
    assert re.match(rf"node [\d.]+: it .*{tmp_path}/elsewhere", str(failed.error))
    actor.cleanup()


def test_a_line_that_a_kill_cut_off_is_left_out(tmp_path: Path) -> None:
    thread = thread_of(job_of(tmp_path, "trial"))
    thread.start()
    next_epoch(thread)
    thread.stop()
    file = tmp_path / "runs/trial" / EPOCH_FILE
    whole = file.read_text()
    second = whole.replace('"epoch":1', '"epoch":2')
    file.write_text(whole + whole[: len(whole) // 2] + second)
    assert [result.epoch for result in read_epochs(file.parent)] == [1, 2]
