"""Counts of links between source and target tokens, and the shortlist that is made of them."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import pairwise

import numpy as np

from interlinear.batch import TARGET
from interlinear.explanation import TextWithWords, largest_weights, pool_to_words
from interlinear.models.attention_reading import AttentionReading
from interlinear.models.attention_weights import AttentionWeights
from interlinear.shortlist.shortlist import Shortlist, WordLists, fingerprints
from interlinear.text import Tokenizer

PENDING = 1 << 20  # links that are kept until they are counted


class LinkCounts:
    """How often each source token is linked to each target token. Memory grows with the number of different pairs."""

    def __init__(self, source_size: int, target_size: int) -> None:
        """The sizes of both vocabularies."""
        self.source_size, self.target_size = source_size, target_size
        self._pairs = np.empty(0, np.int64)  # source token x target_size + target token, ascending
        self._counts = np.empty(0, np.int64)
        self._pending: list[np.ndarray] = []
        self._pending_links = 0

    def add(self, source_N: np.ndarray, target_N: np.ndarray) -> None:
        """Count a link between each source token and the target token beside it."""
        self._pending.append(source_N.astype(np.int64) * self.target_size + target_N)
        self._pending_links += len(source_N)
        if self._pending_links >= PENDING:
            self._count_pending()

    def _count_pending(self) -> None:
        pairs, counts = np.unique(np.concatenate([np.empty(0, np.int64), *self._pending]), return_counts=True)
        merged, index = np.unique(np.concatenate([self._pairs, pairs]), return_inverse=True)
        self._counts = np.bincount(index, np.concatenate([self._counts, counts]), len(merged)).astype(np.int64)
        self._pairs, self._pending, self._pending_links = merged, [], 0

    def likeliest(self, words: int, common: np.ndarray) -> list[np.ndarray]:
        """For every source token the `words` target tokens most often linked to it, the likeliest first.

        As p(target | source) is the count divided by the source token's, both have one order; of equal counts the
        lower id is first. `common` words need no place in the lists and are left out.
        """
        self._count_pending()
        source_N, target_N = np.divmod(self._pairs, self.target_size)
        listed = ~np.isin(target_N, common)
        source_N, target_N, count_N = source_N[listed], target_N[listed], self._counts[listed]
        order = np.lexsort((target_N, -count_N, source_N))
        source_N, target_N = source_N[order], target_N[order]
        starts = np.searchsorted(source_N, np.arange(self.source_size + 1))
        return [target_N[a : min(a + words, b)] for a, b in pairwise(starts)]


def build_shortlist(
    links: Mapping[str, LinkCounts],
    target_counts: np.ndarray,
    tokenizers: Mapping[str, Tokenizer],
    words: int,
    frequent: int,
) -> Shortlist:
    """The shortlist with the `words` likeliest target tokens of every source token and the `frequent` ones.

    links: of every text source. target_counts: how often each target token occurs. tokenizers: of the text sources and
    the target. A source token's list also has the target token with the same characters, if there is one, so that names
    and numbers without counted links can be copied.
    """
    target = tokenizers[TARGET]
    special = np.arange(len(target.config.reserved))
    ranked = np.lexsort((np.arange(len(target_counts)), -target_counts))
    ranked = ranked[(target_counts[ranked] > 0) & (ranked >= len(special))]
    common = np.sort(np.concatenate([special, ranked[:frequent]])).astype(np.int32)
    lists = {}
    ids = {piece: number for number, piece in enumerate(target.pieces) if number >= len(special)}
    for name, counts in links.items():
        pieces, likeliest = tokenizers[name].pieces, counts.likeliest(words, common)
        copies = [[ids[piece]] if piece in ids else [] for piece in pieces]
        lists[name] = WordLists.join(
            [np.setdiff1d(np.append(own, copy), common) for own, copy in zip(likeliest, copies, strict=True)]
        )
    return Shortlist(common, lists, fingerprints(tokenizers))


TokenLinks = tuple[np.ndarray, np.ndarray]  # source tokens (N) and the target token of each (N)


def attention_links(
    pairs: Sequence[tuple[Mapping[str, TextWithWords], TextWithWords]],
    attention_weights: AttentionWeights,
    best: AttentionReading,
) -> Iterator[tuple[str, TokenLinks]]:
    """The links between words of every pair and source of a batch, as in `interlinear align`.

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
    """The tokens of each word of a text: every token that shares a character with it."""
    spans = list(zip(text.encoded.ids, text.encoded.offsets, strict=True))
    return [[token for token, (a, b) in spans if a < end and start < b] for start, end in text.words]
