"""Attention weights of decoding steps.

Axes: B sentences, K hypotheses of each, L target positions, T source positions, H hidden size.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import torch
from torch import Tensor

from interlinear.models.attention_reading import POSTERIOR, AttentionReading
from interlinear.models.memory import pad_or_trim

STATES, WORDS = "attention", "word_attention"  # kinds of attention: over the encoder's states, and over its embeddings


@dataclass(frozen=True)
class AttentionWeights:
    """Attention weights of one step, (B, K, ...), or of L steps, (B, K, L, ...). Returned, never stored on a module.

    weights: by (source, kind) over source positions, (..., T). A row sums to 1 (with a flat combination the rows of all
        sources together), and to 0 for an absent source. Kinds: attention, word_attention.
    gates: the contextual gate's vector o (..., H) for every decoder layer.
    fertility: by source the fertility that linguistic coverage predicts for each position, (B, T), equal at every step.
    source_weights: by source, and `sentinel`, its total weight, (...); empty unless a softmax covers the sources. With
        a flat combination a source's `weights` sum to it.
    members: for an ensemble the weights of each member, until `mean` averages them.
    """

    weights: dict[tuple[str, str], Tensor]
    gates: tuple[Tensor, ...] = ()
    fertility: dict[str, Tensor] = field(default_factory=dict)
    source_weights: dict[str, Tensor] = field(default_factory=dict)
    members: tuple["AttentionWeights", ...] = ()

    def map(self, change: Callable[[Tensor], Tensor]) -> "AttentionWeights":
        """Apply `change` to every tensor that has a hypothesis axis."""
        return self.combine([self], lambda tensors: change(tensors[0]))

    def map_all(self, change: Callable[[Tensor], Tensor]) -> "AttentionWeights":
        """Apply `change` to every tensor, also to tensors without a hypothesis axis."""
        return AttentionWeights(
            {name: change(weights) for name, weights in self.weights.items()},
            tuple(change(gate) for gate in self.gates),
            {source: change(fertility) for source, fertility in self.fertility.items()},
            {name: change(weights) for name, weights in self.source_weights.items()},
            tuple(member.map_all(change) for member in self.members),
        )

    @staticmethod
    def combine(several: Sequence["AttentionWeights"], join: Callable[[list[Tensor]], Tensor]) -> "AttentionWeights":
        """Join weights of the same kinds; `join` combines corresponding tensors that have a hypothesis axis."""
        first = several[0]
        return AttentionWeights(
            {name: join([each.weights[name] for each in several]) for name in first.weights},
            tuple(join(list(layer)) for layer in zip(*(each.gates for each in several), strict=True)),
            first.fertility,
            {name: join([each.source_weights[name] for each in several]) for name in first.source_weights},
            tuple(AttentionWeights.combine(one, join) for one in zip(*(each.members for each in several), strict=True)),
        )

    @staticmethod
    def stack(steps: Sequence["AttentionWeights"]) -> "AttentionWeights":
        """Stack the weights of successive steps along a new axis after (B, K)."""
        return AttentionWeights.combine(steps, lambda tensors: torch.stack(tensors, 2))

    def resize(self, capacity: Mapping[str, int]) -> "AttentionWeights":
        """Pad or trim the weights to `capacity[source]` positions for each source."""
        return replace(
            self,
            weights={(s, kind): pad_or_trim(w, w.dim() - 1, capacity[s], 0.0) for (s, kind), w in self.weights.items()},
            members=tuple(member.resize(capacity) for member in self.members),
        )

    def of_hypothesis(self, row: int, hypothesis: int) -> "AttentionWeights":
        """The weights of one hypothesis, without the axes B and K."""
        return self.map(lambda tensor: tensor[row, hypothesis])

    def of_sentence(self, row: int, hypotheses: int) -> "AttentionWeights":
        """The weights of one sentence's first n hypotheses, (1, n, ...)."""
        selected = self.map(lambda tensor: tensor[row : row + 1, :hypotheses])
        return replace(selected, fertility={source: f[row : row + 1] for source, f in self.fertility.items()})

    def of_output(self, k: int) -> "AttentionWeights":
        """The weights of one hypothesis of a single sentence, (1, 1, ...)."""
        return self.map(lambda tensor: tensor[:, k : k + 1])

    def of_next_step(self) -> "AttentionWeights":
        """The weights of the steps at which the L - 1 first target tokens are the decoder's input (..., L - 1, ...).

        Step l outputs token l, so that token l enters step l + 1; the last one enters the step of the end symbol
        (Shift-Att, Chen et al. 2020, section 3). Without the kinds `uam` and `posterior`, of a step's output.
        """
        outputs_left_out = {
            name: weights for name, weights in self.weights.items() if name[1] not in ("uam", POSTERIOR)
        }
        return replace(self, weights=outputs_left_out).map(lambda tensor: tensor[:, :, 1:])

    @staticmethod
    def mean(several: Sequence["AttentionWeights"]) -> "AttentionWeights":
        """The mean over several models, for every kind that all of them have, `gated` included.

        Gates and fertilities describe the internals of one model and are not averaged but left out.
        """
        tables = [each.weights | each.gated for each in several]
        common = [name for name in tables[0] if all(name in table for table in tables)]
        shared = [name for name in several[0].source_weights if all(name in each.source_weights for each in several)]
        return AttentionWeights(
            {name: torch.stack([table[name] for table in tables]).mean(0) for name in common},
            source_weights={
                name: torch.stack([each.source_weights[name] for each in several]).mean(0) for name in shared
            },
        )

    @property
    def attention(self) -> Tensor:
        """The attention weights of the first source, (..., T); for an ensemble, the mean over its members."""
        if self.members:
            return torch.stack([member.attention for member in self.members]).mean(0)
        return next(weights for (_, kind), weights in self.weights.items() if kind == "attention")

    @property
    def gate(self) -> Tensor | None:
        """The mean of the contextual gates' values over all layers, (...): the share of the annotations."""
        return torch.stack([gate.mean(-1) for gate in self.gates]).mean(0) if self.gates else None

    @property
    def gated(self) -> dict[tuple[str, str], Tensor]:
        """With contextual gates, the source's kind `gated`: o alpha + (1 - o) beta (Wu et al. 2018, figure 2)."""
        if (gate := self.gate) is None:
            return {}
        ((source, words_LT),) = (
            (name, weights) for (name, kind), weights in self.weights.items() if kind == "word_attention"
        )
        annotations_share = gate[..., None].to(words_LT.dtype)  # with bf16 only the weights are in fp32
        return {(source, "gated"): torch.lerp(words_LT, self.weights[source, "attention"], annotations_share)}

    def matrices(self, source: str, reading: AttentionReading | None = None) -> dict[str, Tensor]:
        """The weights of one source by kind, `gated` included; and, if the source has the kind of `reading` and that is
        of the next step, its weights under the reading's name, (B, K, L - 1, T)."""
        kinds = {kind: weights for (name, kind), weights in (self.weights | self.gated).items() if name == source}
        if reading and reading.next_step:
            following = self.of_next_step().matrices(source)
            kinds |= {reading.matrix: following[reading.kind]} if reading.kind in following else {}
        return kinds
