"""Attention weights of decoding steps, and the explanation of an output between words (also the JSON of the API).

Axes: B sentences, K hypotheses of each, L target positions, T source positions, H hidden size.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace

import torch
from pydantic import BaseModel, Field
from torch import Tensor

from seq2seq.layers.state import pad_or_trim


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

    def matrices(self, source: str) -> dict[str, Tensor]:
        """The weights of one source by kind, `gated` included."""
        return {kind: weights for (name, kind), weights in (self.weights | self.gated).items() if name == source}


class Span(BaseModel):
    """A word and its character offsets [start, end) in the text."""

    text: str
    start: int
    end: int


class SourceExplanation(BaseModel):
    """Attention weights of an output's words over one of several sources.

    Rows of a matrix are target words. Columns are the source's words, or an image's regions in row-major order.
    """

    words: list[Span] | None = Field(None, description="a text's words")
    grid: tuple[int, int] | None = Field(None, description="an image's rows and columns of regions")
    matrices: dict[str, list[list[float]]] = Field(description="weights by name; a row sums to at most 1")


class Explanation(BaseModel):
    """Attention weights and word alignment of an output. Rows of a matrix are target words, columns source words.

    For a model with several sources, `source`, `matrices` and `alignment` belong to the first text of the request.
    """

    source: list[Span] = Field(description="the words of the request")
    target: list[Span] = Field(description="the words of the answer")
    matrices: dict[str, list[list[float]]] = Field(description="weights by name; a row sums to at most 1")
    gate: list[float] | None = Field(
        None, description="with contextual gates: share of the annotations in each target word's context"
    )
    fertility: list[float] | None = Field(
        None, description="with linguistic coverage: predicted number of target words for each source word"
    )
    alignment: list[tuple[int, int]] = Field(description="pairs of a source word and a target word")
    sentences: list[tuple[int, int]] | None = Field(
        None, description="for a text with several sentences: the numbers of source and target words of each"
    )
    sources: dict[str, SourceExplanation] | None = Field(
        None, description="for a model with several sources: each source of the request, by name"
    )
    between: dict[str, list[float]] | None = Field(
        None, description="total weight of each source, and of the sentinel, for every target word"
    )


ALIGNMENT_KINDS = ("uam", "gated", "attention")  # kinds of weights that alignments are computed from, best first


def best_kind(kinds: Collection[str]) -> str:
    """The preferred kind of weights for computing alignments."""
    return next(kind for kind in ALIGNMENT_KINDS if kind in kinds)


def explain(
    source: Sequence[Span],
    target: Sequence[Span],
    matrices: dict[str, Tensor],
    gate: Sequence[float] | None = None,
    fertility: Sequence[float] | None = None,
    by: str | None = None,
    sources: dict[str, SourceExplanation] | None = None,
    between: dict[str, list[float]] | None = None,
) -> Explanation:
    """Build an explanation from matrices (target words, source words); empty `matrices` if there is no text source.

    Each target word is aligned to the source word with the largest weight in the matrix `by`; None selects the best
    available kind.
    """
    rows = matrices[by or best_kind(matrices)].tolist() if matrices else ()
    links = [(row.index(max(row)), j) for j, row in enumerate(rows) if row and max(row) > 0]
    return Explanation(
        source=list(source),
        target=list(target),
        matrices=round_matrices(matrices),
        gate=None if gate is None else [round(float(g), 4) for g in gate],
        fertility=None if fertility is None else [round(float(f), 4) for f in fertility],
        alignment=sorted(links),
        sources=sources,
        between=None if between is None else {name: [round(w, 4) for w in row] for name, row in between.items()},
    )


def round_matrices(matrices: dict[str, Tensor]) -> dict[str, list[list[float]]]:
    """Matrices as nested lists, rounded to four decimals."""
    return {name: [[round(w, 4) for w in row] for row in matrix.tolist()] for name, matrix in matrices.items()}


def pool_to_words(
    weights_LT: Tensor,
    source: Sequence[tuple[int, int]],
    target: Sequence[tuple[int, int]],
    source_words: Sequence[tuple[int, int]],
    target_words: Sequence[tuple[int, int]],
) -> Tensor:
    """Pool weights between subwords to weights between words: the sum over a source word, the mean over a target word.

    `source` and `target` are the subwords' character spans, one for each column and row. Positions outside every word
    (the end symbol) are left out, so a row may sum to less than 1.
    """
    columns_TS = membership_matrix(source, source_words, weights_LT)
    return pool_to_target_words(weights_LT[:, : len(source)], target, target_words) @ columns_TS


def pool_to_target_words(
    weights_LT: Tensor, target: Sequence[tuple[int, int]], words: Sequence[tuple[int, int]]
) -> Tensor:
    """Pool weights (target subwords, T) to (target words, T): the mean over each word."""
    return averaging_matrix(target, words, weights_LT).T @ weights_LT[: len(target)]


def mean_by_word(values_L: Tensor, target: Sequence[tuple[int, int]], words: Sequence[tuple[int, int]]) -> list[float]:
    """The mean of the subwords' values for each target word."""
    result: list[float] = (averaging_matrix(target, words, values_L).T @ values_L[: len(target)]).tolist()
    return result


def sum_by_word(values_T: Tensor, source: Sequence[tuple[int, int]], words: Sequence[tuple[int, int]]) -> list[float]:
    """The sum of the subwords' values for each source word."""
    result: list[float] = (membership_matrix(source, words, values_T).T @ values_T[: len(source)]).tolist()
    return result


def averaging_matrix(pieces: Sequence[tuple[int, int]], words: Sequence[tuple[int, int]], like: Tensor) -> Tensor:
    """(pieces, words): weight of each piece in a word's mean; a column sums to 1, or to 0 for a word without pieces."""
    shares = membership_matrix(pieces, words, like)
    return shares / shares.sum(0).clamp(min=torch.finfo(shares.dtype).tiny)


def membership_matrix(pieces: Sequence[tuple[int, int]], words: Sequence[tuple[int, int]], like: Tensor) -> Tensor:
    """(pieces, words): of a piece's characters that lie in words, the share that lies in each word.

    The share is 1 where a piece lies in one word. A piece of Chinese may cover several words, which are displayed
    separately.
    """
    shares = []
    for start, end in pieces:
        overlaps = [max(0, min(end, last) - max(start, first)) for first, last in words]
        total = sum(overlaps) or 1
        shares.append([overlap / total for overlap in overlaps])
    return like.new_tensor(shares).view(len(pieces), len(words))  # keeps two axes when there are no words
