"""Keeps a tuning's record up to date, in memory and on disk."""

import time
from pathlib import Path

from training.events import EpochReport, Outcome, StartReport, StepReport, TrainingJob
from training.tuning.epoch_file import read_epochs
from training.tuning.record import EpochResult, TrialState, TuningRecord


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
        # An epoch that is trained again after a kill replaces what was recorded.
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
