"""An observer that records a training's events, and a process that asks for a stop."""

import signal
from dataclasses import dataclass, field

from training.events import EpochReport, Outcome, StartReport, StepReport, TrainingJob
from training.loop.process_group import SingleProcess


@dataclass
class RecordingObserver:
    steps: list[StepReport] = field(default_factory=list)
    epochs: list[EpochReport] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    done: int = 0

    def started(self, job: TrainingJob, start: StartReport) -> None:
        self.done = start.updates_done

    def step(self, report: StepReport) -> None:
        self.steps.append(report)

    def epoch(self, report: EpochReport) -> None:
        self.epochs.append(report)

    def warned(self, message: str) -> None:
        self.warnings.append(message)

    def finished(self, outcome: Outcome) -> None: ...


class StopAfterUpdates(SingleProcess):
    """Requests a stop at the n-th update of this process."""

    def __init__(self, updates: int) -> None:
        super().__init__()
        self.left = updates

    def stop_requested(self) -> int:
        self.left -= 1
        return signal.SIGTERM if self.left <= 0 else 0
