"""ASHA that is told earlier results decides as if the tuning had never been interrupted."""

from typing import Any

import pytest
from ray.tune.schedulers import TrialScheduler

from training.ray.tune import NamedTrial, ResumableAsha
from training.ray.tune_trial import EPOCH, LAST, SCORE
from training.tuning.record import EpochResult, TrialRecord, TuningRecord

EPOCHS = 4
PERPLEXITIES = {"recipe": [40.0, 30.0], "good": [9.0, 6.0, 5.0, 4.0], "bad": [20.0, 19.0], "late": [30.0, 2.0]}
ORDER = [("good", 1), ("bad", 1), ("recipe", 1), ("good", 2), ("late", 1), ("good", 3), ("recipe", 2), ("good", 4)]


def result(trial: str, epoch: int, time: float) -> EpochResult:
    value = PERPLEXITIES[trial][epoch - 1]
    return EpochResult(epoch=epoch, update=epoch, train_loss=1, dev_perplexity=value, dev_bleu=0, seconds=1, time=time)


def decide(asha: ResumableAsha, trial: str, epoch: int) -> str:
    """ASHA's decision for an epoch."""
    seen: dict[str, Any] = {EPOCH: epoch, SCORE: -PERPLEXITIES[trial][epoch - 1], LAST: epoch == EPOCHS}
    return asha.on_trial_result(None, NamedTrial(trial), seen)


def uninterrupted() -> dict[tuple[str, int], str]:
    """The decisions for all results in their order."""
    asha = ResumableAsha("recipe", EPOCHS, grace=1, reduction=2)
    for trial in PERPLEXITIES:
        asha.on_trial_add(None, NamedTrial(trial))
    return {(trial, epoch): decide(asha, trial, epoch) for trial, epoch in ORDER}


def record_of(seen: int) -> TuningRecord:
    """The record of a tuning that was killed after so many results, before it wrote what ASHA decided of the last."""
    decisions = uninterrupted()
    trials = []
    for trial in PERPLEXITIES:
        curve = [result(trial, epoch, time) for time, (name, epoch) in enumerate(ORDER[:seen]) if name == trial]
        stopped = any(decisions[each] == TrialScheduler.STOP for each in ORDER[: seen - 1] if each[0] == trial)
        state = "stopped" if stopped else "running"
        trials.append(TrialRecord(name=trial, values={}, settings=[], state=state, curve=curve))
    return TuningRecord(
        recipe="r", data="d", settings=[], space={}, seed=1, grace=1, reduction=2, metric="perplexity", trials=trials
    )


def test_a_weak_trial_is_stopped_and_a_last_epoch_never() -> None:
    stops = [each for each, decision in uninterrupted().items() if decision == TrialScheduler.STOP]
    assert stops == [("bad", 1), ("late", 1)]


def test_the_recipe_itself_is_never_stopped() -> None:
    """Others are compared with it, so it is trained to its end, however slowly it learns."""
    decisions = uninterrupted()
    assert decisions["recipe", 1] == decisions["recipe", 2] == TrialScheduler.CONTINUE


@pytest.mark.parametrize("seen", range(1, len(ORDER)))
def test_a_resumed_tuning_decides_as_an_uninterrupted_one(seen: int) -> None:
    decisions = uninterrupted()
    asha = ResumableAsha("recipe", EPOCHS, grace=1, reduction=2)
    stopped = asha.replay(record_of(seen), dict.fromkeys(PERPLEXITIES, EPOCHS))
    last = ORDER[seen - 1]
    assert stopped == ([last[0]] if decisions[last] == TrialScheduler.STOP else [])
    for trial, epoch in ORDER[seen:]:
        assert decide(asha, trial, epoch) == decisions[trial, epoch]
