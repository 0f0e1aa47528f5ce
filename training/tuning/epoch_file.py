"""The epochs of a trial, written by the process that trains it, so that a killed tuning knows all of them."""

import json
import os
import time
from contextlib import suppress
from pathlib import Path

from pydantic import ValidationError

from training.events import EpochReport, Outcome, StartReport, StepReport, TrainingJob
from training.tuning.record import EpochResult

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
    """The epochs of a trial, in order. An epoch that was trained again after a kill counts as it was at last."""
    epochs: dict[int, EpochResult] = {}
    with suppress(FileNotFoundError):
        for line in (run / EPOCH_FILE).read_text(encoding="utf-8").splitlines():
            with suppress(ValidationError, json.JSONDecodeError):
                result = EpochResult.model_validate_json(line)
                epochs[result.epoch] = result
    return [epochs[epoch] for epoch in sorted(epochs)]
