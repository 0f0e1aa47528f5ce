"""Links between source and target tokens: by a model's attention, or by the links between words of another aligner."""

from collections.abc import Collection, Iterator, Mapping, Sequence

import numpy as np

from seq2seq.attention_reading import AttentionReading
from seq2seq.explain import TextWithWords, largest_weights, pool_to_words
from seq2seq.model.attention_weights import AttentionWeights

TokenLinks = tuple[np.ndarray, np.ndarray]  # source tokens (N) and the target token of each (N)


def attention_links(
    pairs: Sequence[tuple[Mapping[str, TextWithWords], TextWithWords]],
    attention_weights: AttentionWeights,
    best: AttentionReading,
) -> Iterator[tuple[str, TokenLinks]]:
    """The links of every pair and source of a batch: those between words, as `interlinear align` has them.

    attention_weights: of forced decoding, (B, 1, L, ...); best: the model's best reading, or else the attention of a
    source that lacks its kind.
    """
    for row, (sources, target) in enumerate(pairs):
        for name, source in sources.items():
            kinds = attention_weights.matrices(name, best)
            pieces = source.encoded.offsets, target.encoded.offsets, source.words, target.words
            weights = pool_to_words(kinds[best.matrix if best.matrix in kinds else "attention"][row, 0].cpu(), *pieces)
            yield name, word_links(source, target, largest_weights(weights))


def word_links(source: TextWithWords, target: TextWithWords, links: Collection[tuple[int, int]]) -> TokenLinks:
    """The links between all tokens of linked words, which are given by their indexes (source, target)."""
    source_tokens, target_tokens = (tokens_of_words(text) for text in (source, target))
    pairs = [(s, t) for i, j in links for s in source_tokens[i] for t in target_tokens[j]]
    linked = np.array(pairs, np.int64).reshape(-1, 2)
    return linked[:, 0], linked[:, 1]


def tokens_of_words(text: TextWithWords) -> list[list[int]]:
    """The tokens of each word of a text: those that share a character with it."""
    spans = list(zip(text.encoded.ids, text.encoded.offsets, strict=True))
    return [[token for token, (a, b) in spans if a < end and start < b] for start, end in text.words]
