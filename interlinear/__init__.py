"""Attention-based translation and summarization: train a model, load it by its name, translate and align with it."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from interlinear.alignment.links import Alignment
    from interlinear.api import align, load, translate
    from interlinear.bundle import Bundle
    from interlinear.config import ModelConfig, RecurrentConfig, TransformerConfig
    from interlinear.explanation import Explanation
    from interlinear.generation.request import GenerationResult
    from interlinear.models.model import Model, build
    from interlinear.search import SearchOptions
    from training.api import train

_MODULES = {
    "Alignment": "interlinear.alignment.links",
    "Bundle": "interlinear.bundle",
    "Explanation": "interlinear.explanation",
    "GenerationResult": "interlinear.generation.request",
    "Model": "interlinear.models.model",
    "ModelConfig": "interlinear.config",
    "RecurrentConfig": "interlinear.config",
    "SearchOptions": "interlinear.search",
    "TransformerConfig": "interlinear.config",
    "align": "interlinear.api",
    "build": "interlinear.models.model",
    "load": "interlinear.api",
    "train": "training.api",
    "translate": "interlinear.api",
}

__all__ = [
    "Alignment",
    "Bundle",
    "Explanation",
    "GenerationResult",
    "Model",
    "ModelConfig",
    "RecurrentConfig",
    "SearchOptions",
    "TransformerConfig",
    "align",
    "build",
    "load",
    "train",
    "translate",
]


def __getattr__(name: str) -> Any:
    """Import an exported name on first use, so that a command that only prints its help does not load torch."""
    if name not in _MODULES:
        raise AttributeError(f"module 'interlinear' has no attribute '{name}'")
    return getattr(import_module(_MODULES[name]), name)


def __dir__() -> list[str]:
    """The exported names, also those that were not used yet."""
    return sorted({*globals(), *__all__})
