"""The events of a tuning: each trial's training events, by the trial's name, and the ends of trials."""

from collections.abc import Sequence
from typing import Protocol

from training.events import EpochReport, Outcome, StartReport, StepReport, TrainingJob


class TuningObserver(Protocol):
    """Receives the events of all trials, in the process of the command."""

    def started(self, trial: str, job: TrainingJob, start: StartReport) -> None:
        """A trial starts or resumes."""

    def step(self, trial: str, report: StepReport) -> None:
        """Some updates of a trial are done."""

    def epoch(self, trial: str, report: EpochReport) -> None:
        """An epoch of a trial is done."""

    def warned(self, trial: str, message: str) -> None:
        """A trial's training warns."""

    def finished(self, trial: str, outcome: Outcome) -> None:
        """A trial has trained to its end, and has a bundle."""

    def stopped(self, trial: str) -> None:
        """ASHA has stopped a trial between two epochs; it may not have started in this process."""

    def failed(self, trial: str, problem: str) -> None:
        """A trial has failed; the others continue."""


class TuningObservers:
    """Several observers as one; each event is passed to all of them, in order."""

    def __init__(self, observers: Sequence[TuningObserver]) -> None:
        self._observers = observers

    def started(self, trial: str, job: TrainingJob, start: StartReport) -> None:
        for observer in self._observers:
            observer.started(trial, job, start)

    def step(self, trial: str, report: StepReport) -> None:
        for observer in self._observers:
            observer.step(trial, report)

    def epoch(self, trial: str, report: EpochReport) -> None:
        for observer in self._observers:
            observer.epoch(trial, report)

    def warned(self, trial: str, message: str) -> None:
        for observer in self._observers:
            observer.warned(trial, message)

    def finished(self, trial: str, outcome: Outcome) -> None:
        for observer in self._observers:
            observer.finished(trial, outcome)

    def stopped(self, trial: str) -> None:
        for observer in self._observers:
            observer.stopped(trial)

    def failed(self, trial: str, problem: str) -> None:
        for observer in self._observers:
            observer.failed(trial, problem)
