"""Bundles of untrained models for any tokenizers."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

from interlinear.bundle import Bundle, ModelCard, load, write_bundle
from interlinear.config import ImageGrid, RecurrentConfig, TextVocabulary
from interlinear.models.model import Model, build
from interlinear.text import Tokenizer


def untrained(
    folder: Path,
    tokenizers: Mapping[str, Tokenizer],
    seed: int,
    card: dict[str, Any] | None = None,
    images: dict[str, ImageGrid] | None = None,
    **config: Any,
) -> Bundle[Model]:
    """A model with weights far from zero that was saved and loaded. `card`: keys of its card, `config`: of the model,
    which reads all tokenizers' texts but `target`, and then the images."""
    texts = {name: TextVocabulary(vocabulary=tokenizer.size) for name, tokenizer in tokenizers.items()}
    target = texts.pop("target")
    sizes = {"embedding": 8, "hidden": 8, "initialization": "uniform", "initialization_scale": 1.2}
    torch.manual_seed(seed)
    model = build(RecurrentConfig(**sizes | config, sources={**texts, **(images or {})}, target=target)).eval()
    write_bundle(folder, model, dict(tokenizers), ModelCard(model=model.config, **(card or {})))
    return load(folder)
