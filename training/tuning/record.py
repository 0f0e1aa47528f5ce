"""The record of a tuning, `tuning.json`, and the observers that keep it up to date.

It has the options, and each trial with its values, state and curve.

A resumed tuning reads it, together with the epochs that each trial's own process has written (`EpochFile`).
"""

import json
import os
import time
from contextlib import suppress
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, ValidationError

from interlinear.errors import TrainingError
from training.data.arrays import write_atomically
from training.events import EpochReport, Outcome, StartReport, StepReport, TrainingJob
from training.tuning.space import Range

TUNING_FILE = "tuning.json"
METRIC_NAMES = {"perplexity": "perplexity", "bleu": "BLEU", "rouge-l": "ROUGE-L"}
Metric = Literal["perplexity", "bleu", "rouge-l"]
TrialState = Literal["pending", "running", "stopped", "finished", "failed"]
ENDED: tuple[TrialState, ...] = ("stopped", "finished")


class EpochResult(BaseModel):
    """An epoch of a trial: its scores on the dev set, and when it ended (seconds since 1970)."""

    epoch: int
    update: int
    train_loss: float
    dev_perplexity: float
    dev_bleu: float
    dev_rouge: float | None = None
    seconds: float
    time: float

    @classmethod
    def of(cls, report: EpochReport, time: float) -> "EpochResult":
        return cls(
            epoch=report.epoch,
            update=report.update,
            train_loss=report.train_loss,
            dev_perplexity=report.dev_perplexity,
            dev_bleu=report.dev_bleu.score,
            dev_rouge=report.dev_rouge.score if report.dev_rouge else None,
            seconds=report.seconds,
            time=time,
        )


def goodness(metric: Metric, result: EpochResult) -> float:
    """The dev score that selects epochs of a recipe (`training.score`), as a number that is higher for better
    epochs."""
    if metric == "perplexity":
        return -result.dev_perplexity
    return result.dev_bleu if metric == "bleu" or result.dev_rouge is None else result.dev_rouge


class TrialRecord(BaseModel):
    """A trial: its name (also its folder's), the values of all keys that are tuned, its state and its epochs.

    `settings`: the differences from the recipe; empty for the first trial.
    """

    name: str
    values: dict[str, Any]
    settings: list[str]
    state: TrialState = "pending"
    problem: str = ""
    curve: list[EpochResult] = []


class TuningRecord(BaseModel):
    """A tuning: its options, and its trials. `settings` hold for all; `grace` and `reduction` are ASHA's.

    `fitted`: the epochs and the patience that small data gives the recipe, so that all trials have the same.
    """

    model_config = ConfigDict(extra="forbid")

    recipe: str
    data: str
    settings: list[str]
    space: dict[str, Range]
    seed: int
    epochs: int | None = None
    fitted: list[str] = []
    grace: int
    reduction: float
    metric: Metric
    git_commit: str | None = None
    machine: str = ""
    trials: list[TrialRecord]
    best: str | None = None

    def score(self, result: EpochResult) -> float:
        """The deciding dev score of an epoch."""
        return abs(goodness(self.metric, result))

    def goodness(self, result: EpochResult) -> float:
        """The deciding score as a number that is higher for a better epoch."""
        return goodness(self.metric, result)

    def best_epoch(self, trial: TrialRecord) -> EpochResult | None:
        """A trial's best epoch; None where it has none yet."""
        return max(trial.curve, key=self.goodness, default=None)

    def best_trial(self) -> TrialRecord | None:
        """The trial with the best epoch of all; the earlier one of two equals. None where no trial has an epoch yet."""
        scored = [(trial, best) for trial in self.trials if (best := self.best_epoch(trial))]
        return max(scored, key=lambda pair: self.goodness(pair[1]))[0] if scored else None

    def trial(self, name: str) -> TrialRecord:
        return next(trial for trial in self.trials if trial.name == name)

    def write(self, folder: Path) -> None:
        """Write tuning.json, complete or not at all."""
        best = self.best_trial()
        self.best = best.name if best else None
        write_atomically(folder / TUNING_FILE, f"{self.model_dump_json(indent=1, exclude_none=True)}\n".encode())


def read_record(folder: Path) -> TuningRecord:
    """The record of a tuning. Raises TrainingError where there is none, or it cannot be read."""
    try:
        return TuningRecord.model_validate_json((folder / TUNING_FILE).read_bytes())
    except FileNotFoundError:
        raise TrainingError(
            str(folder), "there is no tuning of that name to resume", "start it without --resume"
        ) from None
    except (OSError, ValidationError) as error:
        reason = f"{error.error_count()} invalid values" if isinstance(error, ValidationError) else error.strerror
        raise TrainingError(
            str(folder / TUNING_FILE), f"cannot be read ({reason})", "restore it, or start a tuning of another name"
        ) from None


EPOCH_FILE = "epochs.jsonl"  # in a trial's folder


class EpochFile:
    """Observer that writes each epoch as a line of JSON. The loop calls it before it saves the epoch's checkpoint, so
    the file has every epoch that a checkpoint contains."""

    def __init__(self, run: Path) -> None:
        """`run`: the trial's folder."""
        self.path = run / EPOCH_FILE

    def started(self, job: TrainingJob, start: StartReport) -> None: ...

    def step(self, report: StepReport) -> None: ...

    def epoch(self, report: EpochReport) -> None:
        line = EpochResult.of(report, time.time()).model_dump_json(exclude_none=True)
        with self.path.open("a", encoding="utf-8") as file:
            file.write(f"\n{line}")  # a line that a kill has cut off corrupts no other
            file.flush()
            os.fsync(file.fileno())

    def warned(self, message: str) -> None: ...

    def finished(self, outcome: Outcome) -> None: ...


def read_epochs(run: Path) -> list[EpochResult]:
    """The epochs of a trial, in order. An epoch that was trained again after a kill counts with its last result."""
    epochs: dict[int, EpochResult] = {}
    with suppress(FileNotFoundError):
        for line in (run / EPOCH_FILE).read_text(encoding="utf-8").splitlines():
            with suppress(ValidationError, json.JSONDecodeError):
                result = EpochResult.model_validate_json(line)
                epochs[result.epoch] = result
    return [epochs[epoch] for epoch in sorted(epochs)]


class Recorder:
    """Observer that writes tuning.json after every epoch and every change of a trial's state."""

    def __init__(self, record: TuningRecord, folder: Path) -> None:
        self.record, self.folder = record, folder

    def started(self, trial: str, job: TrainingJob, start: StartReport) -> None:
        # A process that survived a kill for a moment may have ended an epoch after the record was read.
        record = self.record.trial(trial)
        record.curve = read_epochs(job.run) or record.curve
        self.set_state(trial, "running")

    def step(self, trial: str, report: StepReport) -> None: ...

    def epoch(self, trial: str, report: EpochReport) -> None:
        record = self.record.trial(trial)
        # An epoch that is trained again after a kill replaces the recorded one.
        before = [result for result in record.curve if result.epoch < report.epoch]
        record.curve = [*before, EpochResult.of(report, time.time())]
        self.record.write(self.folder)

    def warned(self, trial: str, message: str) -> None: ...

    def finished(self, trial: str, outcome: Outcome) -> None:
        self.set_state(trial, "finished")

    def stopped(self, trial: str) -> None:
        self.set_state(trial, "stopped")

    def failed(self, trial: str, problem: str) -> None:
        self.record.trial(trial).problem = problem
        self.set_state(trial, "failed")

    def set_state(self, trial: str, state: TrialState) -> None:
        self.record.trial(trial).state = state
        self.record.write(self.folder)
