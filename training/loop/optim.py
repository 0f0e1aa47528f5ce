"""Optimizers and learning-rate schedules by their names in a recipe."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import nn

from interlinear.components import OPTIMIZERS
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
    optimizer: torch.optim.Optimizer = OPTIMIZERS[settings.optimizer](
        settings, [parameter for parameter in parameters if parameter.requires_grad]
    )
    return optimizer


@OPTIMIZERS.register("adadelta")
def adadelta(settings: TrainingSettings, parameters: Sequence[nn.Parameter]) -> torch.optim.Optimizer:
    """Zeiler 2012."""
    rho, epsilon = settings.rho or 0.95, settings.epsilon or 1e-6
    return torch.optim.Adadelta(parameters, lr=settings.learning_rate, rho=rho, eps=epsilon, foreach=True)


@OPTIMIZERS.register("adam")
def adam(settings: TrainingSettings, parameters: Sequence[nn.Parameter]) -> torch.optim.Optimizer:
    """Kingma and Ba 2015."""
    fused = can_be_fused(parameters)
    return torch.optim.Adam(parameters, fused=fused, foreach=not fused, **adam_options(settings))


@OPTIMIZERS.register("adamw")
def adamw(settings: TrainingSettings, parameters: Sequence[nn.Parameter]) -> torch.optim.Optimizer:
    """Adam with decoupled weight decay (Loshchilov and Hutter 2019)."""
    decay = 0.01 if settings.weight_decay is None else settings.weight_decay
    fused = can_be_fused(parameters)
    return torch.optim.AdamW(parameters, weight_decay=decay, fused=fused, foreach=not fused, **adam_options(settings))


def adam_options(settings: TrainingSettings) -> dict[str, Any]:
    """The options that Adam and AdamW share."""
    betas = settings.betas or (0.9, 0.999)
    return {"lr": settings.learning_rate, "betas": betas, "eps": settings.epsilon or 1e-8}


def can_be_fused(parameters: Sequence[nn.Parameter]) -> bool:
    """Whether one kernel can step all parameters; torch has none for its meta device, on which tests run an update."""
    return all(parameter.device.type != "meta" for parameter in parameters)
