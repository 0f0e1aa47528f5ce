"""Optimizers and learning-rate schedules by their names in a recipe."""

from collections.abc import Iterable
from dataclasses import dataclass, replace

import torch
from torch import nn

from training.recipe import TrainingSettings


@dataclass(frozen=True)
class LearningRateSchedule:
    """The learning rate at any point of a training. `halvings` and `waited` are its whole state."""

    settings: TrainingSettings
    halvings: int = 0
    waited: int = 0

    def rate(self, update: int, share: float) -> float:
        """The learning rate of an update, counted from 0 over the whole training.

        share: the part of all epochs that was done before the update, from 0 to 1.
        """
        settings, done = self.settings, update + 1
        rate = settings.learning_rate * 0.5**self.halvings
        if settings.schedule == "linear":
            rate *= 1 - share
        if done < settings.warmup:
            return rate * done / settings.warmup
        if settings.schedule == "inverse_square_root":  # Vaswani et al. 2017, scaled to peak at the recipe's rate
            return float(rate * (settings.warmup / done) ** 0.5)
        return rate

    def after_epoch(self, epoch: int, improved: bool) -> "LearningRateSchedule":
        """The schedule after an epoch (counted from 1). `improved`: whether its dev score was better than all
        before."""
        if self.settings.schedule == "halve_from_epoch":
            return replace(self, halvings=max(0, epoch - (self.settings.halve_from or 9) + 1))
        if self.settings.schedule != "halve_on_plateau" or improved:
            return replace(self, waited=0)
        if self.waited + 1 < (self.settings.plateau or 1):
            return replace(self, waited=self.waited + 1)
        return replace(self, halvings=self.halvings + 1, waited=0)


def build_optimizer(settings: TrainingSettings, parameters: Iterable[nn.Parameter]) -> torch.optim.Optimizer:
    """The recipe's optimizer for the trainable parameters; the loop sets the learning rate before every step."""
    rate, parameters = settings.learning_rate, [parameter for parameter in parameters if parameter.requires_grad]
    if settings.optimizer == "adadelta":
        return torch.optim.Adadelta(
            parameters, lr=rate, rho=settings.rho or 0.95, eps=settings.epsilon or 1e-6, foreach=True
        )
    kind = torch.optim.AdamW if settings.optimizer == "adamw" else torch.optim.Adam
    decay = 0.01 if settings.weight_decay is None else settings.weight_decay
    # torch has no fused step for its meta device, on which tests run an update
    fused = all(parameter.device.type != "meta" for parameter in parameters)
    return kind(
        parameters,
        lr=rate,
        eps=settings.epsilon or 1e-8,
        weight_decay=decay if settings.optimizer == "adamw" else 0.0,
        fused=fused,
        foreach=not fused,
    )
