"""ASHA (Li et al. 2020, asynchronous successive halving) that knows trials by name, and can be told earlier results.

A resumed tuning makes its decisions from the recorded epochs of all trials. Tune's own `Tuner.restore` would need a
pickled state that is some seconds old after a kill.
"""

from dataclasses import dataclass
from typing import Any

from ray.tune.schedulers import ASHAScheduler, TrialScheduler

from training.ray.tune_trial import EPOCH, LAST, SCORE
from training.tuning.record import ENDED, TuningRecord


@dataclass(frozen=True)
class NamedTrial:
    """All that ASHA reads of a trial. Tune's own trials have a new id in every process."""

    trial_id: str


class ResumableAsha(ASHAScheduler):
    """ASHA over epochs and the deciding dev score. A trial's last epoch is never stopped: the trial then finishes."""

    def __init__(self, baseline: str, epochs: int, grace: int, reduction: float) -> None:
        """`baseline`: the trial that is never stopped, since others are compared with it; `epochs`: of the longest
        trial; `grace`: epochs before a trial may be stopped; `reduction`: of so many trials that reach a rung about
        one goes on."""
        self.baseline = baseline
        super().__init__(EPOCH, SCORE, "max", max_t=epochs, grace_period=grace, reduction_factor=reduction)

    def replay(self, record: TuningRecord, epochs: dict[str, int]) -> list[str]:
        """Give ASHA the recorded epochs of all trials, in the order of time.

        `epochs`: the number of epochs of each trial that has not ended. Returns the names of those that are now
        stopped: their last result was recorded, but the process was killed before its decision.
        """
        for trial in record.trials:
            self.on_trial_add(None, NamedTrial(trial.name))
        results = [(result, trial) for trial in record.trials for result in trial.curve]
        stopped = []
        for result, trial in sorted(results, key=lambda pair: pair[0].time):
            last = result.epoch >= epochs.get(trial.name, result.epoch)
            seen = {EPOCH: result.epoch, SCORE: record.goodness(result), LAST: last}
            action = self.on_trial_result(None, NamedTrial(trial.name), seen)
            if action == TrialScheduler.STOP and trial.state not in ENDED and result is trial.curve[-1]:
                stopped.append(trial.name)
        return stopped

    def on_trial_add(self, tune_controller: Any, trial: Any) -> None:
        super().on_trial_add(tune_controller, named(trial))

    def on_trial_result(self, tune_controller: Any, trial: Any, result: dict[str, Any]) -> str:
        action = super().on_trial_result(tune_controller, named(trial), result)
        never = result.get(LAST) or named(trial).trial_id == self.baseline
        return TrialScheduler.CONTINUE if never else action

    def on_trial_complete(self, tune_controller: Any, trial: Any, result: dict[str, Any]) -> None:
        """Nothing: the trial's results were all received when they came."""

    def on_trial_remove(self, tune_controller: Any, trial: Any) -> None:
        """Nothing: the trial stays known by its name."""


def named(trial: Any) -> Any:
    """Tune's trial by the name that its configuration has."""
    return trial if isinstance(trial, NamedTrial) else NamedTrial(trial.config["trial"])
