"""Links between source and target tokens: by a model's attention, or by the links between words of another aligner."""

from collections.abc import Collection, Iterator, Mapping, Sequence

import numpy as np

from seq2seq.explain import TextWithWords, best_kind
from seq2seq.model.attention_weights import AttentionWeights
from seq2seq.text import END

TokenLinks = tuple[np.ndarray, np.ndarray]  # source tokens (N) and the target token of each (N)


def attention_links(
    pairs: Sequence[tuple[Mapping[str, TextWithWords], TextWithWords]], attention_weights: AttentionWeights
) -> Iterator[tuple[str, TokenLinks]]:
    """The links of a batch of pairs, by source: every target token is linked to the token with the largest weight.

    That may be the source's END. attention_weights: of forced decoding, (B, 1, L, ...), of which the best kind is read.
    A token without weight has no link.
    """
    names = dict.fromkeys(name for sources, _ in pairs for name in sources)
    for name in names:
        kinds = attention_weights.matrices(name)
        weight_BL, position_BL = (each.cpu().numpy() for each in kinds[best_kind(kinds)][:, 0].float().max(-1))
        for row, (sources, target) in enumerate(pairs):
            if name in sources:
                tokens_T = np.array([*sources[name].encoded.ids, END])
                target_J = np.array(target.encoded.ids, np.int64)
                linked_J = weight_BL[row, : len(target_J)] > 0
                yield name, (tokens_T[position_BL[row, : len(target_J)][linked_J]], target_J[linked_J])


def word_links(source: TextWithWords, target: TextWithWords, links: Collection[tuple[int, int]]) -> TokenLinks:
    """The links between all tokens of linked words, which are given by their indexes."""
    source_tokens, target_tokens = (tokens_of_words(text) for text in (source, target))
    pairs = [(s, t) for i, j in links for s in source_tokens[i] for t in target_tokens[j]]
    linked = np.array(pairs, np.int64).reshape(-1, 2)
    return linked[:, 0], linked[:, 1]


def tokens_of_words(text: TextWithWords) -> list[list[int]]:
    """The tokens of each word of a text: those that share a character with it."""
    spans = list(zip(text.encoded.ids, text.encoded.offsets, strict=True))
    return [[token for token, (a, b) in spans if a < end and start < b] for start, end in text.words]
