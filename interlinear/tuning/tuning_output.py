"""What `tune` prints: a line of progress, the ends of trials, and the result."""

import shlex
import sys
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

from interlinear.console import FAILED, say
from interlinear.progress import LiveLine

if TYPE_CHECKING:
    from training.events import EpochReport, Outcome, StartReport, StepReport, TrainingJob
    from training.tuning import TuningRecord


class TuningProgress(LiveLine):
    """Observer of a tuning that prints progress and the ends of trials. It follows the one that keeps the record."""

    def __init__(self, record: "TuningRecord") -> None:
        super().__init__()
        self.record = record

    def summary(self) -> str:
        """How many trials are running and done, and the best so far."""
        states = Counter(trial.state for trial in self.record.trials)
        done = states["finished"] + states["stopped"] + states["failed"]
        text = f"{states['running']} running, {done} of {len(self.record.trials)} trials done"
        best = self.record.best_trial()
        return f"{text}, best {self.score_of(best.name)}" if best else text

    def score_of(self, name: str) -> str:
        """A trial's name and best dev score so far."""
        from training.tuning.record import METRIC_NAMES
        from training.tuning.report import best_score

        trial = self.record.trial(name)
        return f"{name}: dev {METRIC_NAMES[self.record.metric]} {best_score(self.record, trial)}"

    def started(self, trial: str, job: "TrainingJob", start: "StartReport") -> None:
        record = self.record.trial(trial)
        on = f", going on after update {start.updates_done:,}" if start.updates_done else ""
        self.line(f"{trial} started{on}: {' '.join(record.settings) or 'the recipe itself'}")
        self.show(self.summary())

    def step(self, trial: str, report: "StepReport") -> None:
        self.show(self.summary())

    def epoch(self, trial: str, report: "EpochReport") -> None:
        self.show(self.summary())

    def warned(self, trial: str, message: str) -> None:
        self.line(f"{trial}: {message}")

    def finished(self, trial: str, outcome: "Outcome") -> None:
        self.line(f"{self.score_of(trial)}, finished after epoch {outcome.epochs}")

    def stopped(self, trial: str) -> None:
        self.line(f"{self.score_of(trial)}, stopped after epoch {len(self.record.trial(trial).curve)}")

    def failed(self, trial: str, problem: str) -> None:
        self.line(f"{trial} failed: {problem}")


def report_tuning(record: "TuningRecord", best: Path, overridden: list[str]) -> int:
    """Print the table of trials and how to train with the best values; on stdout, the best recipe's path. Returns the
    exit code: a tuning with failed trials has failed."""
    from training.tuning.report import best_settings, trial_table

    print(trial_table(record), file=sys.stderr)
    chosen = set_options(best_settings(record))
    say(f"best values, of {record.best}:{chosen or ' the recipe as it is'}")
    also = set_options(overridden)
    why = f" (the defaults of {record.data} would override what --set repeats)" if also else ""
    say(f"train with them by: interlinear train {best} --data {record.data}{also}{why}")
    failed = [trial.name for trial in record.trials if trial.state == "failed"]
    if failed:
        say(f"{', '.join(failed)} failed, as is said above; --resume tries again.")
    print(best)
    return FAILED if failed else 0


def set_options(settings: list[str]) -> str:
    """Settings as options for a shell, each after a space."""
    return "".join(f" --set {shlex.quote(setting)}" for setting in settings)


def report_interruption(record: "TuningRecord", signal: int) -> int:
    """Print how to continue an interrupted tuning; returns the exit code."""
    arguments = [word for word in sys.argv[1:] if word != "--resume"]
    done = sum(trial.state in ("finished", "stopped") for trial in record.trials)
    say(
        f"interrupted; {done} of {len(record.trials)} trials are done, and the others are saved. "
        f"Go on with: interlinear {shlex.join(arguments)} --resume"
    )
    return 128 + signal
