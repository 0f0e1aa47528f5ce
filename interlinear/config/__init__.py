"""The configuration of models: architectures by kind, sources, the choices of a search's precision, and tasks."""

from typing import Literal

from interlinear.config.architecture import Architecture
from interlinear.config.model import (
    KINDS,
    AnyArchitecture,
    AnyModelConfig,
    ModelConfig,
    RecurrentConfig,
    TransformerConfig,
    kind_of,
)
from interlinear.config.recurrent import RecurrentArchitecture
from interlinear.config.sources import ImageGrid, ImageNetwork, SourceConfig, TextVocabulary
from interlinear.config.transformer import TransformerArchitecture

CompileChoice = Literal["auto", "on", "off"]  # whether a search is compiled; auto: see interlinear.search.compiled
Precision = Literal["fp32", "bf16", "int8", "auto"]  # of a search; auto: see interlinear.bundle.precision
Task = Literal["translation", "summarization", "multimodal", "post-edit"]

__all__ = [
    "KINDS",
    "AnyArchitecture",
    "AnyModelConfig",
    "Architecture",
    "CompileChoice",
    "ImageGrid",
    "ImageNetwork",
    "ModelConfig",
    "Precision",
    "RecurrentArchitecture",
    "RecurrentConfig",
    "SourceConfig",
    "Task",
    "TextVocabulary",
    "TransformerArchitecture",
    "TransformerConfig",
    "kind_of",
]
