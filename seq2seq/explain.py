"""What the decoder looked at, by name; and the explanation of an output, which people and programs read."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace

import torch
from pydantic import BaseModel, Field
from torch import Tensor

from seq2seq.layers.state import pad_or_trim


@dataclass(frozen=True)
class AttentionWeights:
    """What was looked at in a step, (B, K, ...), or in L steps, (B, K, L, ...). Never kept on a module.

    weights: by (source, kind) over source positions, (..., T); a row sums to 1 (with a flat combination those of all
        sources together), and to 0 in a source that is absent. Kinds: attention, word_attention.
    gates: a contextual gate's vector o (..., H) for every decoder layer.
    fertility: by source what linguistic coverage predicts of every position, (B, T): the same at every step.
    between: by source, and `sentinel`, what it weighs in all, (...); empty where no softmax goes over sources. With a
        flat combination a source's weights sum to this.
    members: of several models that write together, what each of them looked at, until `mean` makes one of it.
    """

    weights: dict[tuple[str, str], Tensor]
    gates: tuple[Tensor, ...] = ()
    fertility: dict[str, Tensor] = field(default_factory=dict)
    source_weights: dict[str, Tensor] = field(default_factory=dict)
    members: tuple["AttentionWeights", ...] = ()

    def map(self, change: Callable[[Tensor], Tensor]) -> "AttentionWeights":
        """The same change to every tensor that has an axis of hypotheses."""
        return self.combine([self], lambda tensors: change(tensors[0]))

    @staticmethod
    def combine(several: Sequence["AttentionWeights"], join: Callable[[list[Tensor]], Tensor]) -> "AttentionWeights":
        """Looks of the same kinds as one: every tensor that has an axis of hypotheses is joined with its like."""
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
        """The looks of successive steps, with an axis for the steps after (B, K)."""
        return AttentionWeights.combine(steps, lambda tensors: torch.stack(tensors, 2))

    def resize(self, capacity: Mapping[str, int]) -> "AttentionWeights":
        """Weights over so many positions of each source: padding is added or cut at the end."""
        return replace(
            self,
            weights={(s, kind): pad_or_trim(w, w.dim() - 1, capacity[s], 0.0) for (s, kind), w in self.weights.items()},
            members=tuple(member.resize(capacity) for member in self.members),
        )

    def of_hypothesis(self, row: int, hypothesis: int) -> "AttentionWeights":
        """The looks of one hypothesis, without its two axes."""
        return self.map(lambda tensor: tensor[row, hypothesis])

    def of_sentence(self, row: int, hypotheses: int) -> "AttentionWeights":
        """The looks of one sentence's first hypotheses, (1, n, ...)."""
        picked = self.map(lambda tensor: tensor[row : row + 1, :hypotheses])
        return replace(picked, fertility={source: f[row : row + 1] for source, f in self.fertility.items()})

    @staticmethod
    def mean(several: Sequence["AttentionWeights"]) -> "AttentionWeights":
        """The mean of what several models looked at, of every kind that all have, the gated included.

        A gate and a fertility say what one model did inside: they have no mean, and are left out.
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
        """The first source's attention, (..., T)."""
        if self.members:
            return torch.stack([member.attention for member in self.members]).mean(0)
        return next(weights for (_, kind), weights in self.weights.items() if kind == "attention")

    @property
    def gate(self) -> Tensor | None:
        """The mean of the contextual gates' numbers, over all layers: how much the annotations count, (...)."""
        return torch.stack([gate.mean(-1) for gate in self.gates]).mean(0) if self.gates else None

    @property
    def gated(self) -> dict[tuple[str, str], Tensor]:
        """With contextual gates, kind `gated` of the source: o alpha + (1 - o) beta (Wu et al. 2018, figure 2)."""
        if (gate := self.gate) is None:
            return {}
        ((source, words_LT),) = (
            (name, weights) for (name, kind), weights in self.weights.items() if kind == "word_attention"
        )
        annotations_share = gate[..., None].to(words_LT.dtype)  # in half precision the weights alone are in fp32
        return {(source, "gated"): torch.lerp(words_LT, self.weights[source, "attention"], annotations_share)}

    def matrices(self, source: str) -> dict[str, Tensor]:
        """A source's weights by kind, the gated included."""
        return {kind: weights for (name, kind), weights in (self.weights | self.gated).items() if name == source}


class Span(BaseModel):
    """A word, and its place in the text as characters [start, end)."""

    text: str
    start: int
    end: int


class SourceExplanation(BaseModel):
    """What an output's words looked at in one of several sources.

    Rows of a matrix are target words, columns the source's words, or an image's regions, row by row.
    """

    words: list[Span] | None = Field(None, description="a text's words")
    grid: tuple[int, int] | None = Field(None, description="an image's rows and columns of regions")
    matrices: dict[str, list[list[float]]] = Field(description="weights by name; a row sums to at most 1")


class Explanation(BaseModel):
    """What an output's words looked at. Rows of a matrix are target words, columns source words.

    For a model of several sources `source`, `matrices` and `alignment` are those of the first text that it was given.
    """

    source: list[Span] = Field(description="the words of the request")
    target: list[Span] = Field(description="the words of the answer")
    matrices: dict[str, list[list[float]]] = Field(description="weights by name; a row sums to at most 1")
    gate: list[float] | None = Field(
        None, description="with contextual gates: how much of what each target word took came from the annotations"
    )
    fertility: list[float] | None = Field(
        None, description="with linguistic coverage: target words that each source word was expected to make"
    )
    alignment: list[tuple[int, int]] = Field(description="pairs of a source word and a target word")
    sentences: list[tuple[int, int]] | None = Field(
        None, description="of a text of several sentences: the numbers of source and target words of each"
    )
    sources: dict[str, SourceExplanation] | None = Field(
        None, description="of a model of several sources: each that it was given, by name"
    )
    between: dict[str, list[float]] | None = Field(
        None, description="what each source, and the sentinel, weighed for every target word"
    )


ALIGNMENT_KINDS = ("uam", "gated", "attention")  # kinds of looks that alignments are read from, the best first


def best_kind(kinds: Collection[str]) -> str:
    """The kind of looks that alignments are best read from."""
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
    """An explanation from matrices (target words, source words); none where no text was read.

    A target word is aligned to the source word with the largest weight in `by`, or in the best matrix there is.
    """
    chosen = matrices[by or best_kind(matrices)].tolist() if matrices else ()
    links = [(row.index(max(row)), j) for j, row in enumerate(chosen) if row and max(row) > 0]
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
    """Matrices as they are written."""
    return {name: [[round(w, 4) for w in row] for row in matrix.tolist()] for name, matrix in matrices.items()}


def pool_to_words(
    weights_LT: Tensor,
    source: Sequence[tuple[int, int]],
    target: Sequence[tuple[int, int]],
    source_words: Sequence[tuple[int, int]],
    target_words: Sequence[tuple[int, int]],
) -> Tensor:
    """Weights between words from weights between subwords: summed over a source word, averaged over a target word.

    `source` and `target` are the subwords' spans in characters, a row or column each; what lies in no word (the end
    symbol) is left out, so that a row may sum to less than 1.
    """
    columns_TS = membership_matrix(source, source_words, weights_LT)
    return pool_to_target_words(weights_LT[:, : len(source)], target, target_words) @ columns_TS


def pool_to_target_words(
    weights_LT: Tensor, target: Sequence[tuple[int, int]], words: Sequence[tuple[int, int]]
) -> Tensor:
    """Weights (target words, T) from weights (target subwords, T): averaged over a word."""
    return averaging_matrix(target, words, weights_LT).T @ weights_LT[: len(target)]


def mean_by_word(values_L: Tensor, target: Sequence[tuple[int, int]], words: Sequence[tuple[int, int]]) -> list[float]:
    """A number for every target word from one for every subword: their mean."""
    result: list[float] = (averaging_matrix(target, words, values_L).T @ values_L[: len(target)]).tolist()
    return result


def sum_by_word(values_T: Tensor, source: Sequence[tuple[int, int]], words: Sequence[tuple[int, int]]) -> list[float]:
    """A number for every source word from one for every subword: their sum."""
    result: list[float] = (membership_matrix(source, words, values_T).T @ values_T[: len(source)]).tolist()
    return result


def averaging_matrix(pieces: Sequence[tuple[int, int]], words: Sequence[tuple[int, int]], like: Tensor) -> Tensor:
    """(pieces, words): what each piece counts in a word's mean; a column sums to 1, or to 0 for a word of no piece."""
    member = membership_matrix(pieces, words, like)
    return member / member.sum(0).clamp(min=torch.finfo(member.dtype).tiny)


def membership_matrix(pieces: Sequence[tuple[int, int]], words: Sequence[tuple[int, int]], like: Tensor) -> Tensor:
    """(pieces, words): the share that a word has of the characters of a piece that lie in words.

    That is 1 for the one word that a piece is in, but a piece of Chinese may go over several that are shown apart.
    """
    member = []
    for start, end in pieces:
        common = [max(0, min(end, last) - max(start, first)) for first, last in words]
        touched = sum(common) or 1
        member.append([characters / touched for characters in common])
    return like.new_tensor(member).view(len(pieces), len(words))  # a view, for where there are no words
