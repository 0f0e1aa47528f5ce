"""Text processing: tokenizers, vocabularies, sentence splitting, and edit scripts."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from interlinear.text.config import BEGIN, BYTES, DELETE, END, KEEP, PAD, SPECIAL, UNKNOWN, TextConfig
    from interlinear.text.detokenizer import Decoded
    from interlinear.text.normalization import join_subwords
    from interlinear.text.tokenizer import Encoded, Tokenizer
    from interlinear.text.words import word_spans

__all__ = [
    "BEGIN",
    "BYTES",
    "DELETE",
    "END",
    "KEEP",
    "PAD",
    "SPECIAL",
    "UNKNOWN",
    "Decoded",
    "Encoded",
    "TextConfig",
    "Tokenizer",
    "join_subwords",
    "word_spans",
]

MODULES = {
    "Decoded": "detokenizer",
    "Encoded": "tokenizer",
    "Tokenizer": "tokenizer",
    "join_subwords": "normalization",
    "word_spans": "words",
}


def __getattr__(name: str) -> Any:
    """Import an exported name on first use, so that a process that only splits a document loads no tokenizer."""
    if name not in __all__:
        raise AttributeError(f"module 'interlinear.text' has no attribute '{name}'")
    return getattr(import_module(f"interlinear.text.{MODULES.get(name, 'config')}"), name)
