"""Learning rates, worked out by hand."""

import pytest
import torch

from training.loop.optim import LearningRateSchedule, build_optimizer
from training.loop.remaining_time import RemainingTime
from training.recipe import TrainingSettings


def settings(**keys: object) -> TrainingSettings:
    return TrainingSettings.model_validate({"learning_rate": 0.8, "batch_tokens": 100, **keys})


def rates(schedule: LearningRateSchedule, better: list[bool]) -> list[float]:
    """The rate in the middle of each epoch, given whether each epoch was the best so far."""
    seen = []
    for epoch, is_better in enumerate(better, 1):
        seen.append(schedule.rate(10_000, (epoch - 0.5) / len(better)))
        schedule = schedule.after_epoch(epoch, is_better)
    return [*seen, schedule.rate(10_000, 1.0)]


def test_halve_on_plateau() -> None:
    one = LearningRateSchedule(settings(schedule="halve_on_plateau"))
    assert rates(one, [True, False, False, True, False]) == [0.8, 0.8, 0.4, 0.2, 0.2, 0.1]
    two = LearningRateSchedule(settings(schedule="halve_on_plateau", plateau=2))
    assert rates(two, [True, False, True, False, False]) == [0.8, 0.8, 0.8, 0.8, 0.8, 0.4]


def test_the_remaining_time_is_of_the_last_minute_and_has_the_dev_evaluations() -> None:
    remaining = RemainingTime()
    for seconds, updates in ((1.0, 1), (30.0, 30), (30.0, 60), (1.0, 20)):
        remaining.add(seconds, updates)
    assert remaining.estimate(110, 3) == pytest.approx(110 * 61 / 110)  # the first interval is forgotten
    remaining.dev_seconds = 20.0
    assert remaining.estimate(110, 3) == pytest.approx(61 + 60)


def test_halve_from_epoch() -> None:
    schedule = LearningRateSchedule(settings(schedule="halve_from_epoch", halve_from=2))
    assert rates(schedule, [True] * 4) == [0.8, 0.8, 0.4, 0.2, 0.1]


def test_constant_and_warm_up() -> None:
    schedule = LearningRateSchedule(settings(schedule="constant", warmup=4))
    assert [schedule.rate(update, update / 6) for update in range(6)] == pytest.approx([0.2, 0.4, 0.6, 0.8, 0.8, 0.8])


def test_inverse_square_root() -> None:
    schedule = LearningRateSchedule(settings(schedule="inverse_square_root", warmup=4))
    assert [schedule.rate(update, update / 64) for update in (0, 3, 15, 63)] == pytest.approx([0.2, 0.8, 0.4, 0.2])


def test_linear_falls_to_0_after_the_last_epoch() -> None:
    schedule = LearningRateSchedule(settings(schedule="linear"))
    assert rates(schedule, [True, False, False, True]) == pytest.approx([0.7, 0.5, 0.3, 0.1, 0.0])
    warmed_up = LearningRateSchedule(settings(schedule="linear", warmup=4))
    assert [warmed_up.rate(update, update / 8) for update in (0, 1, 3, 7)] == pytest.approx([0.2, 0.35, 0.5, 0.1])


@pytest.mark.parametrize(
    ("keys", "kind"),
    [
        ({"optimizer": "adam"}, torch.optim.Adam),
        ({"optimizer": "adamw", "weight_decay": 0.1}, torch.optim.AdamW),
        ({"optimizer": "adadelta", "rho": 0.9, "epsilon": 1e-7}, torch.optim.Adadelta),
    ],
)
def test_optimizers_have_the_recipes_settings(keys: dict[str, object], kind: type) -> None:
    made = build_optimizer(settings(**keys), [torch.nn.Parameter(torch.zeros(2))])
    assert type(made) is kind
    assert made.defaults["lr"] == 0.8
    assert made.defaults["weight_decay"] == keys.get("weight_decay", 0.0)
    assert made.defaults.get("rho") == keys.get("rho")
