"""Every shipped system, and some unpublished combinations, as tiny models in float64."""

from functools import cache
from typing import Any

import pytest
import torch

from interlinear.config import RecurrentConfig, TextVocabulary, TransformerConfig
from interlinear.models.model import Model, build
from tests.parameters import slow_but
from training.recipe import load_recipe

TRANSLATION = (
    "rnnsearch", "word_attention", "contextual_gates", "rnnsearch_star", "interactive_attention", "coverage_neural",
    "coverage_linguistic",
)  # fmt: skip
HEADLINES = ("luong", "selective_gate", "uam")
SYSTEMS = (*TRANSLATION, *HEADLINES)
COMBINED: dict[str, dict[str, Any]] = {
    "gates, written memory, UAM": {
        "word_attention": True, "contextual_gates": True, "writing": "separate", "alignment_module": True, "layers": 2,
    },
    "words and coverage under a selective gate": {
        "word_attention": True, "coverage": "neural", "selective_gate": "sum", "decoder": "conditional", "layers": 2,
    },
    "luong's order, writing to what it reads": {"decoder": "luong", "attention": "bilinear", "writing": "shared"},
    "layer normalisation": {"layer_norm": True, "layers": 2},
    "layer normalisation under contextual gates": {
        "layer_norm": True, "cell": "gru", "decoder": "conditional", "word_attention": True, "contextual_gates": True,
    },
}  # fmt: skip
TRANSFORMERS: dict[str, dict[str, Any]] = {
    "transformer": {"layers": 2, "heads": 2, "feed_forward": 7},
    "transformer with SSRU": {"layers": 2, "heads": 3, "feed_forward": 7, "decoder": "ssru", "norm": "pre"},
    "transformer with a head that aligns": {
        "heads": 2,
        "feed_forward": 7,
        "encoder_layers": 1,
        "decoder_layers": 2,
        "aligned_layer": 1,
        "aligned_head": 2,
        "activation": "swiglu",
        "tie_embeddings": "all",
        "positions": "concatenated",
        "first_word": "zero",
    },
}
ALL = (*SYSTEMS, *COMBINED, *TRANSFORMERS)
# Each order of a step and each extension once: what `make test` has. The other systems repeat them.
COVERING = (
    "contextual_gates", "interactive_attention", "coverage_linguistic", "uam",
    "words and coverage under a selective gate", "layer normalisation", "transformer", "transformer with SSRU",
)  # fmt: skip
every_system = pytest.mark.parametrize("system", slow_but(COVERING, ALL))


@cache
def model_of(system: str, vocabulary: int = 9) -> Model:
    """The model of a recipe, of a combination or a Transformer, with weights far from zero."""
    torch.manual_seed(5)
    words = TextVocabulary(vocabulary=vocabulary)
    drawn = {"embedding": 6, "initialization": "uniform", "initialization_scale": 1.2}
    if system in TRANSFORMERS:
        config = TransformerConfig(**TRANSFORMERS[system], **drawn, sources={"source": words}, target=words)
        return build(config).double().eval()
    chosen = COMBINED.get(system) or load_recipe(system).model.model_dump(
        exclude={"dropout", "word_dropout", "state_dropout"}
    )
    chosen = {**chosen, **drawn, "hidden": 5}
    return build(RecurrentConfig(**chosen, sources={"source": words}, target=words)).double().eval()
