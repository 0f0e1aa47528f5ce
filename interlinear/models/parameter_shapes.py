"""Shapes and number of a model's parameters, computed without allocating them."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import nn
from torch.overrides import TorchFunctionMode

from interlinear.config import ModelConfig
from interlinear.models.model import build

RANDOM_FILLS = (torch.Tensor.normal_, torch.Tensor.uniform_)


def parameter_shapes(config: ModelConfig) -> dict[str, tuple[int, ...]]:
    """Shapes of all parameters by name; a shared parameter appears once. Nothing is allocated.

    Raises RuntimeError, OverflowError or TypeError for a size that no tensor can have.
    """
    with torch.device("meta"), _SkipInitialization():
        return {name: tuple(parameter.shape) for name, parameter in build(config).named_parameters()}


def parameter_counts(config: ModelConfig) -> dict[str, int]:
    """Number of parameters by part, as `Model.parameter_counts`. Nothing is allocated. Raises as `parameter_shapes`."""
    with torch.device("meta"), _SkipInitialization():
        return build(config).parameter_counts()


class _SkipInitialization(TorchFunctionMode):
    """Skips parameter initialization: on the meta device there are no values, and torch would load its compiler for
    it, which takes seconds."""

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Sequence[type],
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        if func in RANDOM_FILLS or getattr(func, "__module__", None) == nn.init.__name__:
            return args[0] if args else (kwargs or {})["tensor"]
        return func(*args, **(kwargs or {}))
