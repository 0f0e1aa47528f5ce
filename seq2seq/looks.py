"""What the decoder looked at, by name; and the explanation of an output, which people and programs read."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from pydantic import BaseModel, Field
from torch import Tensor


@dataclass(frozen=True)
class Looks:
    """Weights over source positions by (source, kind), each (B, K, T), or (B, K, L, T) over L steps.

    Kinds: attention (later: word_attention, gated, ...). Returned by every step, never kept on a module.
    """

    weights: dict[tuple[str, str], Tensor]

    @staticmethod
    def stack(steps: Sequence["Looks"]) -> "Looks":
        """The looks of successive steps, with an axis for the steps after (B, K)."""
        return Looks({name: torch.stack([look.weights[name] for look in steps], 2) for name in steps[0].weights})


class Span(BaseModel):
    """A word, and its place in the text as characters [start, end)."""

    text: str
    start: int
    end: int


class Explanation(BaseModel):
    """What an output's words looked at. Rows of a matrix are target words, columns source words."""

    source: list[Span] = Field(description="the words of the request")
    target: list[Span] = Field(description="the words of the answer")
    matrices: dict[str, list[list[float]]] = Field(description="weights by name; a row sums to at most 1")
    alignment: list[tuple[int, int]] = Field(description="pairs of a source word and a target word")


def explain(source: Sequence[Span], target: Sequence[Span], matrices: dict[str, Tensor]) -> Explanation:
    """An explanation from matrices (target words, source words); a target word is aligned to what it most looked at."""
    attention = matrices["attention"]
    links = [(int(row.argmax()), j) for j, row in enumerate(attention) if row.numel() and float(row.max()) > 0]
    rounded = {name: [[round(float(w), 4) for w in row] for row in matrix] for name, matrix in matrices.items()}
    return Explanation(source=list(source), target=list(target), matrices=rounded, alignment=sorted(links))


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
    rows_LW = membership(target, target_words, weights_LT)
    shares_LW = rows_LW / rows_LW.sum(0).clamp(min=1)
    return shares_LW.T @ weights_LT[: len(target), : len(source)] @ columns_TS


def membership(pieces: Sequence[tuple[int, int]], words: Sequence[tuple[int, int]], like: Tensor) -> Tensor:
    """(pieces, words): 1 where a piece has a character of the word (of the first such word only)."""
    member = like.new_zeros(len(pieces), len(words))
    for i, (start, end) in enumerate(pieces):
        for j, (first, last) in enumerate(words):
            if start < last and first < end:
                member[i, j] = 1
                break
    return member
