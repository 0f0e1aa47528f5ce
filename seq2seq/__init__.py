"""Sequence-to-sequence models: text processing, encoders, attention, decoder, losses, search, metrics and bundles.

Stable interface: `build(config)` creates a model, `load(folder)` reads a bundle, `Model.teacher_forced` computes
training outputs, and `seq2seq.search` decodes.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from seq2seq.bundle import Bundle, load
    from seq2seq.config import ModelConfig
    from seq2seq.model.model import Model, build

__all__ = ["Bundle", "Model", "ModelConfig", "build", "load"]

_MODULES = {
    "Bundle": "bundle.bundle",
    "load": "bundle.bundle",
    "ModelConfig": "config",
    "Model": "model.model",
    "build": "model.model",
}


def __getattr__(name: str) -> Any:
    """Import an exported name on first use, so that a command that only prints its help does not load torch."""
    if name not in _MODULES:
        raise AttributeError(f"module 'seq2seq' has no attribute '{name}'")
    from importlib import import_module

    return getattr(import_module(f"seq2seq.{_MODULES[name]}"), name)
