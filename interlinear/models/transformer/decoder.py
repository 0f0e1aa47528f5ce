"""The decoder of a Transformer (Vaswani et al. 2017, section 3.1), with self-attention or an SSRU in each layer.

Known words take one pass (`unroll`); search runs the same layers word by word (`step`).

Axes: B sentences, K hypotheses of each, L target positions, Q hypotheses or their positions (K L), T source positions,
E embedding, D size of a layer (E = D), R readout (R = D).
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import cast

import torch
from torch import Tensor, nn

from interlinear.models.attention_weights import STATES, AttentionWeights
from interlinear.models.layers.step_linear import product_dtype
from interlinear.models.memory import Memory, View, view_name
from interlinear.models.protocol import Decoder, EncoderOutput, Step, Unrolled
from interlinear.models.state import State
from interlinear.models.transformer.autoregressive import AUTOREGRESSIVE, Autoregressive
from interlinear.models.transformer.layers import FeedForward, LayerConfig, Residual, Top, skip_layer, with_positions
from interlinear.models.transformer.multi_source import STRATEGIES, Attended, CrossAttention

POSITION = "position"  # the leaf of the state with the number of tokens so far, (B, K)


@dataclass(frozen=True)
class DecoderConfig:
    """A decoder's own sizes and parts.

    layers: their number. sources: their names. annotation: the size of an encoder's states. autoregressive: the part of
    a layer over the previous words (`AUTOREGRESSIVE`). strategy: how it attends to several sources (`STRATEGIES`).
    aligned_layer: the layer whose attention to the sources is returned, the last if it is -1. aligned_head: one of its
    heads (a guided one, Garg et al. 2019), or None for the mean of all.
    """

    layers: int
    sources: Sequence[str]
    annotation: int
    autoregressive: str = "transformer"
    strategy: str = "serial"
    aligned_layer: int = -1
    aligned_head: int | None = None


class DecoderLayer(nn.Module):
    """Self-attention (or an SSRU) over the previous words, attention to the sources, then a feed-forward layer."""

    def __init__(self, config: LayerConfig, own: DecoderConfig) -> None:
        super().__init__()
        self.residual, self.autoregressive = Residual(config), AUTOREGRESSIVE[own.autoregressive](config)
        self.cross: CrossAttention = STRATEGIES[own.strategy](config, own.sources, own.annotation)
        self.feedforward = FeedForward(config)
        self.layer_drop = config.layer_drop

    def forward(
        self, x_BQD: Tensor, read: Callable[[Tensor], Tensor], views: Mapping[str, View], with_weights: bool
    ) -> Attended:
        """The layer's output, and its attention to the sources if it is asked for. `read`: the part over the previous
        words, (B, Q, D) -> (B, Q, D)."""
        own_BQD = self.residual.leave(x_BQD, read(self.residual.enter(x_BQD)))
        attended = self.cross(own_BQD, views, with_weights)
        after_BQD = skip_layer(x_BQD, self.feedforward(attended.states), self.layer_drop, self.training)
        return Attended(after_BQD, attended.weights, attended.source_weights)


class TransformerDecoder(Decoder):
    """Layers over the embeddings of the previous words, to which it adds positions.

    State: the leaf `position`, and one of every layer, `cache.I` or `cell.I`. Readouts are the last layer's states.
    """

    def __init__(self, config: LayerConfig, own: DecoderConfig) -> None:
        super().__init__()
        self.config, self.own = config, own
        self.aligned_layer = range(own.layers)[own.aligned_layer]
        self.layers = nn.ModuleList(DecoderLayer(config, own) for _ in range(own.layers))
        self.top = Top(config)

    def views(self, source: str, read: EncoderOutput) -> dict[str, View]:
        """Every layer's keys and values of a source, once a sentence, for all hypotheses."""
        views = {}
        for i, layer in enumerate(self.decoder_layers):
            keys_BTA, values_BTA = layer.cross.prepare(source, read.states_BTD)
            views[layer_view(source, i)] = View(source, keys_BTA, values_BTA, keys_BTA[..., :0], read.padding_BT)
        return views

    def start(self, memory: Memory) -> State:
        """The state before the first token, one hypothesis a sentence. Caches have no position yet: resize them to at
        least as many as there will be words."""
        position_B1 = torch.zeros(memory.rows, 1, dtype=torch.long, device=memory.first.padding_BT.device)
        leaves, axes = {POSITION: position_B1}, {}
        for name, part in self.autoregressive_parts():
            leaves[name] = part.start(memory.rows)
            if part.axis is not None:
                axes[name] = part.axis
        return State(leaves, axes)

    def step(self, memory: Memory, state: State, words_BKE: Tensor) -> Step:
        """One more token of each hypothesis, at its own position: the state after it, readouts (B, K, R), and the
        weights of the aligned layer."""
        position_BK, leaves = state.leaves[POSITION], {POSITION: state.leaves[POSITION] + 1}

        def read(name: str, part: Autoregressive) -> Callable[[Tensor], Tensor]:
            def step(x_BKD: Tensor) -> Tensor:
                output_BKD, leaves[name] = part.step(x_BKD, state.leaves[name], position_BK)
                return output_BKD

            return step

        x_BKD = with_positions(words_BKE, position_BK, self.config, self.training)
        reads = (read(name, part) for name, part in self.autoregressive_parts())
        readout_BKR, weights = self.run(memory, x_BKD, reads, True)
        return Step(State(leaves, state.axes), readout_BKR, weights)

    def unroll(self, memory: Memory, words_BKLE: Tensor, attention: bool = False) -> Unrolled:
        """Readouts (B, K, L, R) of known words, each from the words up to it; and, if they are asked for, the aligned
        layer's weights (B, K, L, ...)."""
        steps = words_BKLE.shape[1:3]
        reads = (
            lambda x_BQD, part=part: part.unroll(x_BQD.unflatten(1, steps)).flatten(1, 2)
            for _, part in self.autoregressive_parts()
        )
        readout_BQR, weights = self.run(memory, self.enter(words_BKLE), reads, attention)
        weights = weights.map(lambda tensor: tensor.unflatten(1, steps))
        return Unrolled(readout_BQR.unflatten(1, steps), weights)

    def full_context_weights(self, memory: Memory, words_BKLE: Tensor, padding_BKL: Tensor) -> AttentionWeights:
        """The aligned layer's weights (B, K, L, ...), where every position attends to the whole target but its padding
        (True), later words included (Garg et al. 2019, section 3.3). Raises ValueError for an SSRU."""
        steps = words_BKLE.shape[1:3]
        reads = (
            lambda x_BQD, part=part: part.whole(x_BQD.unflatten(1, steps), padding_BKL).flatten(1, 2)
            for _, part in self.autoregressive_parts()
        )
        _, weights = self.run(memory, self.enter(words_BKLE), reads, True, self.aligned_layer + 1)
        return weights.map(lambda tensor: tensor.unflatten(1, steps))

    def enter(self, words_BKLE: Tensor) -> Tensor:
        """The input of the first layer, all positions of a sentence's targets side by side, (B, K L, D)."""
        position_L = torch.arange(words_BKLE.shape[2], device=words_BKLE.device)
        return with_positions(words_BKLE, position_L, self.config, self.training).flatten(1, 2)

    def run(
        self,
        memory: Memory,
        x_BQD: Tensor,
        reads: Iterable[Callable[[Tensor], Tensor]],
        with_weights: bool,
        layers: int | None = None,
    ) -> tuple[Tensor, AttentionWeights]:
        """The output of the first `layers` layers, by default all: readouts (B, Q, R) and weights (B, Q, ...)."""
        weights = AttentionWeights({})
        for i, (layer, read) in enumerate(zip(self.decoder_layers[:layers], reads, strict=False)):
            views = {source: memory.views[layer_view(source, i)] for source in self.own.sources}
            with_own = with_weights and i == self.aligned_layer
            attended: Attended = layer(x_BQD, read, views, with_own)
            x_BQD = attended.states
            weights = self.aligned(attended) if with_own else weights
        return self.top(x_BQD, product_dtype(self.decoder_layers[0].feedforward.inner.weight)), weights

    def aligned(self, attended: Attended) -> AttentionWeights:
        """The weights (B, Q, T) of the aligned head, or the mean of all heads."""
        head = self.own.aligned_head

        def of_head(weights: Tensor) -> Tensor:
            return weights.mean(1) if head is None else weights[:, head]

        return AttentionWeights(
            {(source, STATES): of_head(weights) for source, weights in attended.weights.items()},
            source_weights={source: of_head(weights) for source, weights in attended.source_weights.items()},
        )

    @property
    def decoder_layers(self) -> list[DecoderLayer]:
        return cast(list[DecoderLayer], list(self.layers))

    def autoregressive_parts(self) -> list[tuple[str, Autoregressive]]:
        """The part of each layer over the previous words, with the name of its leaf."""
        parts = [layer.autoregressive for layer in self.decoder_layers]
        return [(f"{part.leaf}.{i}", part) for i, part in enumerate(parts)]


def layer_view(source: str, layer: int) -> str:
    """The name of a layer's view of a source in `Memory.views`."""
    return view_name(source, f"{STATES}.{layer}")
