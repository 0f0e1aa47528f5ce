"""What a model is: text, encoders, attention, decoder, losses, search, metrics, explanation, bundle.

The stable surface: `build(config)` makes a model, `load(folder)` reads a bundle; `Model.teacher_forced` and
`seq2seq.search` are what everything else stands on.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from seq2seq.bundle import Bundle, load
    from seq2seq.config import ModelConfig
    from seq2seq.model.model import Model, build

__all__ = ["Bundle", "Model", "ModelConfig", "build", "load"]

_HOMES = {"Bundle": "bundle", "load": "bundle", "ModelConfig": "config", "Model": "model.model", "build": "model.model"}


def __getattr__(name: str) -> Any:
    """Import on first use: a command that only prints its help need not load torch."""
    if name not in _HOMES:
        raise AttributeError(f"module 'seq2seq' has no attribute '{name}'")
    from importlib import import_module

    return getattr(import_module(f"seq2seq.{_HOMES[name]}"), name)
