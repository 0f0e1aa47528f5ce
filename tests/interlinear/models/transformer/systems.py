"""Encoders and decoders of a Transformer as tiny modules, with weights far from zero."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from interlinear.batch import Batch, collate
from interlinear.models.memory import Memory
from interlinear.models.state import WRITTEN, State
from interlinear.models.transformer.decoder import DecoderConfig, TransformerDecoder
from interlinear.models.transformer.encoder import TransformerEncoder
from interlinear.models.transformer.layers import LayerConfig

SIZE, VOCABULARY = 8, 12
KINDS: dict[str, dict[str, Any]] = {
    "transformer": {},
    "ssru": {"autoregressive": "ssru"},
    "pre-norm": {"norm": "pre", "activation": "swiglu", "positions": "concatenated"},
    "ssru, pre-norm": {"autoregressive": "ssru", "norm": "pre"},
    "serial": {"sources": ["source", "mt"]},
    "parallel": {"sources": ["source", "mt"], "strategy": "parallel", "norm": "pre"},
    "flat": {"sources": ["source", "mt"], "strategy": "flat"},
    "hierarchical": {"sources": ["source", "mt"], "strategy": "hierarchical", "autoregressive": "ssru"},
}
OF_DECODER = ("sources", "strategy", "autoregressive", "aligned_layer", "aligned_head")


@dataclass(frozen=True)
class System:
    """Encoders by source, and a decoder."""

    encoders: nn.ModuleDict
    decoder: TransformerDecoder

    def encode(self, batch: Batch) -> Memory:
        views = {}
        for source, encoder in self.encoders.items():
            views |= self.decoder.views(source, encoder(batch.text(source)))
        return Memory(views)

    def start(self, memory: Memory, hypotheses: int, written: int) -> State:
        """As a table of search has it: equal hypotheses, and room for the words."""
        state = self.decoder.start(memory).resize({WRITTEN: written})
        return state.map(lambda leaf: leaf.expand(-1, hypotheses, *leaf.shape[2:]).contiguous())

    def map(self, change: Any) -> "System":
        return System(change(self.encoders), change(self.decoder))


def system(kind: str | Mapping[str, Any], layers: int = 2, **variant: Any) -> System:
    """A system in float64, in evaluation."""
    torch.manual_seed(3)
    options = {**(KINDS[kind] if isinstance(kind, str) else kind), **variant}
    sources: Sequence[str] = options.get("sources", ["source"])
    shared = {name: value for name, value in options.items() if name not in OF_DECODER}
    config = LayerConfig(SIZE, 2, 12, **shared)
    own = {"sources": sources, **{name: options[name] for name in OF_DECODER if name in options}}
    encoders = nn.ModuleDict({source: TransformerEncoder(config, layers, VOCABULARY) for source in sources})
    made = System(encoders, TransformerDecoder(config, DecoderConfig(layers, annotation=SIZE, **own)))
    return made.map(perturbed)


@torch.no_grad()
def perturbed(module: Any) -> Any:
    """The module in float64, with initial weights that are far from zero and from one."""
    for parameter in module.double().eval().parameters():
        parameter.add_(torch.randn_like(parameter), alpha=0.3)
    return module


def batch_of(made: System, sentences: Sequence[Sequence[int] | None]) -> Batch:
    """The sentences as the first source; a second one has them in another order."""
    texts = {source: [*sentences[i:], *sentences[:i]] for i, source in enumerate(made.encoders)}
    return collate(texts)


def words(*axes: int) -> Tensor:
    """Embeddings of previous words."""
    return torch.randn(*axes, SIZE, dtype=torch.float64)
