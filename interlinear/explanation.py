"""The explanation of an output: attention weights between words, and the word alignment (also the JSON of the API).

Axes: L target positions, T source positions.
"""

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import torch
from pydantic import BaseModel, Field
from torch import Tensor

from interlinear.models.attention_reading import AttentionReading
from interlinear.text import Encoded, Tokenizer
from interlinear.text.words import spaced_spans


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


class WeightedLink(BaseModel):
    """A link with its weight in the source-to-target model, and in the reverse model if there is one.

    A weight is the attention, or the link's posterior probability where the model is an aligner.

    With both, `symmetrized_weight` is their mean (the soft union of DeNero and Klein 2007): a link that only one of the
    models sees keeps half its weight, where a product would be about 0.
    """

    source: int = Field(description="index of the source word")
    target: int = Field(description="index of the target word")
    weight: float = Field(description="of the source word, for the target word")
    reverse_weight: float | None = Field(None, description="of the target word, for the source word, reverse model")
    symmetrized_weight: float | None = Field(None, description="the mean of both weights")

    @classmethod
    def of_both(cls, source: int, target: int, weight: float, reverse_weight: float) -> "WeightedLink":
        """The link of two words with its weights in both directions, rounded to four decimals."""
        return cls(
            source=source,
            target=target,
            weight=round(weight, 4),
            reverse_weight=round(reverse_weight, 4),
            symmetrized_weight=round((weight + reverse_weight) / 2, 4),
        )


class TermLocation(BaseModel):
    """A term: the characters [start, end) that it has in the request's text, and in the answer."""

    source: tuple[int, int]
    target: tuple[int, int]


class Doubt(BaseModel):
    """A word that is likely wrong, or likely left out, and why (see `interlinear.alignment.doubts`)."""

    reason: Literal["low_probability", "untranslated", "repeated", "unseen"] = Field(
        description="`low_probability`: a target word that the model found improbable; `untranslated`: a source word "
        "that no target word attended to; `repeated`: a target word that an earlier one said of the same source word; "
        "`unseen`: a source word that the model's training text did not have"
    )
    side: Literal["source", "target"] = Field(description="the side of the word")
    word: int = Field(description="index of the word on its side")
    earlier: int | None = Field(None, description="if `repeated`: index of the target word that said it before")


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
    aligned_by: str | None = Field(
        None, description="name of the matrix with the weights of `alignment`; absent if there is no text source"
    )
    confidence: list[float | None] | None = Field(
        None,
        description="probability of each target word after the words before it, 0 to 1: the product of its tokens' "
        "probabilities; null for a word that no token of the output wrote, and for the words of terms",
    )
    doubts: list[Doubt] | None = Field(
        None, description="with `confidence`: the words that are likely wrong, or likely not translated"
    )
    symmetrized: bool | None = Field(
        None,
        description="with a reverse model: whether `alignment` has the links of both directions; if false, the reverse "
        "model cannot read this pair",
    )
    links: list[WeightedLink] | None = Field(
        None, description="if `symmetrized`: the links of `alignment` with their weights in both directions"
    )
    sentences: list[tuple[int, int]] | None = Field(
        None, description="for a text with several sentences: the numbers of source and target words of each"
    )
    sources: dict[str, SourceExplanation] | None = Field(
        None, description="for a model with several sources: each source of the request, by name"
    )
    between: dict[str, list[float]] | None = Field(
        None, description="total weight of each source, and of the sentinel, for every target word"
    )
    terms: list[TermLocation] | None = Field(
        None, description="what was translated as a glossary says, or left as it is, in the order of the answer"
    )


EMPTY_EXPLANATION = Explanation(source=[], target=[], matrices={}, alignment=[])


def explain(
    source: Sequence[Span],
    target: Sequence[Span],
    matrices: dict[str, Tensor],
    gate: Sequence[float] | None = None,
    fertility: Sequence[float] | None = None,
    reading: AttentionReading | None = None,
    sources: dict[str, SourceExplanation] | None = None,
    between: dict[str, list[float]] | None = None,
    confidence: Sequence[float | None] | None = None,
) -> Explanation:
    """Build an explanation from matrices (target words, source words).

    Each target word is aligned to the source word with the largest weight in the matrix of `reading`; without a text
    source there is neither, and `matrices` is empty.
    """
    links = largest_weights(matrices[reading.matrix]) if reading else []
    return Explanation(
        source=list(source),
        target=list(target),
        matrices=round_matrices(matrices),
        gate=None if gate is None else [round(float(g), 4) for g in gate],
        fertility=None if fertility is None else [round(float(f), 4) for f in fertility],
        alignment=sorted(links),
        aligned_by=reading and reading.matrix,
        confidence=None if confidence is None else [None if c is None else round(c, 4) for c in confidence],
        sources=sources,
        between=None if between is None else {name: [round(w, 4) for w in row] for name, row in between.items()},
    )


def largest_weights(weights_LS: Tensor) -> list[tuple[int, int]]:
    """The link (source word, target word) of every target word to the source word with the largest weight, if any."""
    rows = weights_LS.tolist()
    return [(row.index(max(row)), j) for j, row in enumerate(rows) if row and max(row) > 0]


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


def word_probabilities(
    log_probabilities: Sequence[float], target: Sequence[tuple[int, int]], words: Sequence[tuple[int, int]]
) -> list[float | None]:
    """The probability of each target word: the product of the probabilities of its tokens.

    log_probabilities: of each token, given the tokens before it; `target`: their spans. A token that covers several
    words counts in each of them, since each word is written only if the token is. None for a word without tokens.
    """
    probabilities: list[float | None] = []
    for start, end in words:
        own = [log for log, (a, b) in zip(log_probabilities, target, strict=True) if a < end and start < b]
        probabilities.append(min(1.0, math.exp(sum(own))) if own else None)
    return probabilities


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


@dataclass(frozen=True)
class TextWithWords:
    """An encoded text with its words.

    display_words: the words with their offsets in the original text.
    words: the spans of the same words in the text that was encoded (`to_model_text`).
    """

    display_words: list[Span]
    words: list[tuple[int, int]]
    encoded: Encoded

    def words_with(self, ids: Collection[int]) -> list[int]:
        """The indices of the words that have a token with one of these ids."""
        spans = [span for i, span in zip(self.encoded.ids, self.encoded.offsets, strict=True) if i in ids]
        return [i for i, (start, end) in enumerate(self.words) if any(a < end and start < b for a, b in spans)]

    def append_symbols(self, symbols: Sequence[str]) -> "TextWithWords":
        """Append symbols, each as one word and one piece."""
        end = max([0, *(span.end for span in self.display_words), *(end for _, end in self.encoded.offsets)])
        spans = [(end + i, end + i + 1) for i in range(len(symbols))]
        appended = [Span(text=symbol, start=end, end=end) for symbol in symbols]
        encoded = replace(self.encoded, offsets=[*self.encoded.offsets, *spans])
        return TextWithWords([*self.display_words, *appended], [*self.words, *spans], encoded)


def needs_detokenizing(tokenizer: Tokenizer, raw: bool) -> bool:
    """Whether tokenised text (not `raw`) must be detokenized for a model that was trained on raw text."""
    return not raw and not tokenizer.config.tokenised


def to_model_text(tokenizer: Tokenizer, text: str, raw: bool) -> str:
    """The text in the form of the model's training data: detokenized if `needs_detokenizing`."""
    return tokenizer.detokenize(text).text if needs_detokenizing(tokenizer, raw) else text


def find_words(tokenizer: Tokenizer, text: str, raw: bool) -> list[tuple[int, int]]:
    """The spans of a text's words: separated by spaces in tokenised text for a raw model, else by the tokenizer."""
    if needs_detokenizing(tokenizer, raw):
        return spaced_spans(text)
    return tokenizer.word_spans(text, raw)


def to_text_with_words(tokenizer: Tokenizer, text: str, encoded: Encoded, raw: bool) -> TextWithWords:
    """Combine a text and its encoding with the text's words."""
    words = find_words(tokenizer, text, raw)
    model_words = find_model_words(tokenizer, text, raw) if needs_detokenizing(tokenizer, raw) else words
    return TextWithWords(to_spans(text, words), model_words, encoded)


def find_model_words(tokenizer: Tokenizer, text: str, raw: bool) -> list[tuple[int, int]]:
    """The spans of the same words in the text that the model reads (`to_model_text`)."""
    return (
        tokenizer.detokenize(text).offsets if needs_detokenizing(tokenizer, raw) else find_words(tokenizer, text, raw)
    )


def to_spans(text: str, words: Sequence[tuple[int, int]]) -> list[Span]:
    """The words at the given offsets of a text."""
    return [Span(text=text[start:end], start=start, end=end) for start, end in words]
