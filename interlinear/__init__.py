"""Sequence-to-sequence models with attention: load, build and run them.

`load(folder)` reads a bundle, `build(config)` creates a model, `Model.teacher_forced` computes training outputs, and
`interlinear.search` decodes.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from interlinear.bundle import Bundle, load
    from interlinear.config import ModelConfig
    from interlinear.models.model import Model, build

__all__ = ["Bundle", "Model", "ModelConfig", "build", "load"]

_MODULES = {
    "Bundle": "bundle.bundle",
    "load": "bundle.bundle",
    "ModelConfig": "config",
    "Model": "models.model",
    "build": "models.model",
}


def __getattr__(name: str) -> Any:
    """Import an exported name on first use, so that a command that only prints its help does not load torch."""
    if name not in _MODULES:
        raise AttributeError(f"module 'interlinear' has no attribute '{name}'")
    return getattr(import_module(f"interlinear.{_MODULES[name]}"), name)
