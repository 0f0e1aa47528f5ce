"""What the decoder looked at, by name; and the explanation of an output, which people and programs read."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field

import torch
from pydantic import BaseModel, Field
from torch import Tensor


@dataclass(frozen=True)
class Looks:
    """What was looked at in a step, (B, K, ...), or in L steps, (B, K, L, ...). Never kept on a module.

    weights: by (source, kind) over source positions, (..., T); a row sums to 1 (with a flat combination those of all
        sources together), and to 0 in a source that is absent. Kinds: attention, word_attention.
    gates: a contextual gate's vector o (..., H) for every decoder layer.
    fertility: by source what linguistic coverage predicts of every position, (B, T): the same at every step.
    between: by source, and `sentinel`, what it weighs in all, (...); empty where no softmax goes over sources. With a
        flat combination a source's weights sum to this.
    """

    weights: dict[tuple[str, str], Tensor]
    gates: tuple[Tensor, ...] = ()
    fertility: dict[str, Tensor] = field(default_factory=dict)
    between: dict[str, Tensor] = field(default_factory=dict)

    @staticmethod
    def stack(steps: Sequence["Looks"]) -> "Looks":
        """The looks of successive steps, with an axis for the steps after (B, K)."""
        first = steps[0]
        return Looks(
            {name: torch.stack([look.weights[name] for look in steps], 2) for name in first.weights},
            tuple(torch.stack(layer, 2) for layer in zip(*(look.gates for look in steps), strict=True)),
            first.fertility,
            {name: torch.stack([look.between[name] for look in steps], 2) for name in first.between},
        )

    def pick(self, row: int, hypotheses: int) -> "Looks":
        """The looks of one sentence's first hypotheses, (1, n, ...)."""
        return Looks(
            {name: weights[row : row + 1, :hypotheses] for name, weights in self.weights.items()},
            tuple(gate[row : row + 1, :hypotheses] for gate in self.gates),
            {source: fertility[row : row + 1] for source, fertility in self.fertility.items()},
            {name: weight[row : row + 1, :hypotheses] for name, weight in self.between.items()},
        )

    @staticmethod
    def mean(several: Sequence["Looks"]) -> "Looks":
        """The mean of what several models looked at, of every kind that all have, the gated included.

        A gate and a fertility say what one model did inside: they have no mean, and are left out.
        """
        tables = [look.weights | look.gated for look in several]
        common = [name for name in tables[0] if all(name in table for table in tables)]
        shared = [name for name in several[0].between if all(name in look.between for look in several)]
        return Looks(
            {name: torch.stack([table[name] for table in tables]).mean(0) for name in common},
            between={name: torch.stack([look.between[name] for look in several]).mean(0) for name in shared},
        )

    @property
    def attention(self) -> Tensor:
        """The first source's attention, (..., T)."""
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


class SourceLooks(BaseModel):
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
    sources: dict[str, SourceLooks] | None = Field(
        None, description="of a model of several sources: each that it was given, by name"
    )
    between: dict[str, list[float]] | None = Field(
        None, description="what each source, and the sentinel, weighed for every target word"
    )


ALIGNING = ("uam", "gated", "attention")  # kinds of looks that alignments are read from, the best first


def best_of(kinds: Collection[str]) -> str:
    """The kind of looks that alignments are best read from."""
    return next(kind for kind in ALIGNING if kind in kinds)


def explain(
    source: Sequence[Span],
    target: Sequence[Span],
    matrices: dict[str, Tensor],
    gate: Sequence[float] | None = None,
    fertility: Sequence[float] | None = None,
    by: str | None = None,
    sources: dict[str, SourceLooks] | None = None,
    between: dict[str, list[float]] | None = None,
) -> Explanation:
    """An explanation from matrices (target words, source words); none where no text was read.

    A target word is aligned to the source word with the largest weight in `by`, or in the best matrix there is.
    """
    chosen = matrices[by or best_of(matrices)] if matrices else ()
    links = [(int(row.argmax()), j) for j, row in enumerate(chosen) if row.numel() and float(row.max()) > 0]
    return Explanation(
        source=list(source),
        target=list(target),
        matrices=rounded(matrices),
        gate=None if gate is None else [round(float(g), 4) for g in gate],
        fertility=None if fertility is None else [round(float(f), 4) for f in fertility],
        alignment=sorted(links),
        sources=sources,
        between=None if between is None else {name: [round(w, 4) for w in row] for name, row in between.items()},
    )


def rounded(matrices: dict[str, Tensor]) -> dict[str, list[list[float]]]:
    """Matrices as they are written."""
    return {name: [[round(float(w), 4) for w in row] for row in matrix] for name, matrix in matrices.items()}


def by_words(
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
    columns_TS = membership(source, source_words, weights_LT)
    return by_target_words(weights_LT[:, : len(source)], target, target_words) @ columns_TS


def by_target_words(weights_LT: Tensor, target: Sequence[tuple[int, int]], words: Sequence[tuple[int, int]]) -> Tensor:
    """Weights (target words, T) from weights (target subwords, T): averaged over a word."""
    rows_LW = membership(target, words, weights_LT)
    shares_LW = rows_LW / rows_LW.sum(0).clamp(min=1)
    return shares_LW.T @ weights_LT[: len(target)]


def means(values_L: Tensor, target: Sequence[tuple[int, int]], words: Sequence[tuple[int, int]]) -> list[float]:
    """A number for every target word from one for every subword: their mean."""
    rows_LW = membership(target, words, values_L)
    result: list[float] = ((rows_LW / rows_LW.sum(0).clamp(min=1)).T @ values_L[: len(target)]).tolist()
    return result


def sums(values_T: Tensor, source: Sequence[tuple[int, int]], words: Sequence[tuple[int, int]]) -> list[float]:
    """A number for every source word from one for every subword: their sum."""
    result: list[float] = (membership(source, words, values_T).T @ values_T[: len(source)]).tolist()
    return result


def membership(pieces: Sequence[tuple[int, int]], words: Sequence[tuple[int, int]], like: Tensor) -> Tensor:
    """(pieces, words): 1 where a piece has a character of the word (of the first such word only)."""
    member = like.new_zeros(len(pieces), len(words))
    for i, (start, end) in enumerate(pieces):
        for j, (first, last) in enumerate(words):
            if start < last and first < end:
                member[i, j] = 1
                break
    return member
