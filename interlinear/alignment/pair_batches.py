"""Sentence pairs as padded batches of word indexes, for the HMM aligner.

A *cell* is a source word and a target word that occur together in at least one sentence pair. A tensor's name ends in
its axes: N pairs, I source positions, J target positions, C cells, and W letters of a word.
"""

import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import count

import numpy as np
import torch
from torch import Tensor

from interlinear.alignment.hmm_constants import PREFIX, SIMILAR_LETTERS, SIMILAR_SHARE
from interlinear.text import word_spans
from interlinear.text.words import Span, spaced_spans

WordPair = tuple[Sequence[str], Sequence[str]]  # the words of a source sentence and of its translation

PADDING = -1
MAX_CELLS_IN_BATCH = 100_000  # N x I x J, padding included
SOURCE_BITS = 32  # bits of a cell's key: the source word is above them, the target word below


class Vocabulary(dict[str, int]):
    """Indexes of words, in the order of their first occurrence."""

    def __init__(self, words: Iterable[str] = ()) -> None:
        super().__init__(zip(words, count(), strict=False))

    def add(self, words: Sequence[str]) -> list[int]:
        """The words' indexes; new words are added."""
        return [self.setdefault(word, len(self)) for word in words]


@dataclass(frozen=True)
class PairBatch:
    """Sentence pairs of similar length, padded. pairs: their indexes in the corpus. Cell 0 is padding."""

    pairs: tuple[int, ...]
    source_NI: Tensor
    target_NJ: Tensor
    cell_NJI: Tensor

    @property
    def source_mask_NI(self) -> Tensor:
        return self.source_NI != PADDING

    @property
    def target_mask_NJ(self) -> Tensor:
        return self.target_NJ != PADDING


@dataclass(frozen=True)
class PairCorpus:
    """Batches of sentence pairs, and the keys of their cells in ascending order; `keys_C[0]` is padding's."""

    batches: list[PairBatch]
    keys_C: np.ndarray

    @classmethod
    def of(cls, pairs: Sequence[WordPair], source: Vocabulary, target: Vocabulary) -> "PairCorpus":
        """The pairs as batches; their words are added to the vocabularies. Pairs with an empty side are left out."""
        ids = [(source.add(words), target.add(translation)) for words, translation in pairs]
        found: list[tuple[tuple[int, ...], np.ndarray, np.ndarray, np.ndarray, np.ndarray]] = []
        for members in similar_lengths(ids):
            source_NI, target_NJ = (padded([ids[n][side] for n in members]) for side in (0, 1))
            key_NJI = np.where(
                (source_NI[:, None] != PADDING) & (target_NJ[:, :, None] != PADDING),
                source_NI[:, None] << SOURCE_BITS | target_NJ[:, :, None],
                PADDING,
            )
            keys, places = np.unique(key_NJI, return_inverse=True)
            found.append((members, source_NI, target_NJ, keys, places.reshape(key_NJI.shape)))
        keys_C = np.unique(np.concatenate([np.array([PADDING]), *(keys for *_, keys, _ in found)]))
        batches = [
            PairBatch(
                members,
                torch.from_numpy(source_NI),
                torch.from_numpy(target_NJ),
                torch.from_numpy(np.searchsorted(keys_C, keys).astype(np.int32)[places]),
            )
            for members, source_NI, target_NJ, keys, places in found
        ]
        return cls(batches, keys_C)

    @property
    def source_C(self) -> Tensor:
        """The source word of every cell; of padding, word 0."""
        return torch.from_numpy(np.maximum(self.keys_C, 0) >> SOURCE_BITS)

    @property
    def target_C(self) -> Tensor:
        """The target word of every cell; of padding, word 0."""
        return torch.from_numpy(np.maximum(self.keys_C, 0) & (1 << SOURCE_BITS) - 1)


def similar_lengths(ids: Sequence[tuple[Sequence[int], Sequence[int]]]) -> Iterator[tuple[int, ...]]:
    """Groups of pairs whose padded batch has at most MAX_CELLS_IN_BATCH cells; a longer pair is a group of its own."""
    order = sorted(
        (n for n, (source, target) in enumerate(ids) if source and target),
        key=lambda n: (len(ids[n][1]), len(ids[n][0]), n),
    )
    group: list[int] = []
    longest = (0, 0)
    for n in order:
        source, target = (max(length, len(side)) for length, side in zip(longest, ids[n], strict=True))
        if group and (len(group) + 1) * source * target > MAX_CELLS_IN_BATCH:
            yield tuple(group)
            group, (source, target) = [], (len(ids[n][0]), len(ids[n][1]))
        group.append(n)
        longest = source, target
    if group:
        yield tuple(group)


def padded(rows: Sequence[Sequence[int]]) -> np.ndarray:
    """The rows as one int64 array, filled up with PADDING."""
    array = np.full((len(rows), max(map(len, rows))), PADDING, dtype=np.int64)
    for row, ids in zip(array, rows, strict=True):
        row[: len(ids)] = ids
    return array


def similarity(corpus: PairCorpus, source: Vocabulary, target: Vocabulary) -> Tensor:
    """The similarity in spelling of the two words of every cell, (C): 1 for equal words, 0 for most.

    Names, numbers and words of a common origin begin alike: for words whose common beginning has SIMILAR_LETTERS
    letters, or SIMILAR_SHARE of the longer word, it is the share of the longer word that the beginning covers.
    """
    source_C, target_C = corpus.source_C.numpy(), corpus.target_C.numpy()
    source_letters_VW, target_letters_VW = letters(source), letters(target)
    source_length_V, target_length_V = (np.array([*map(len, words), 0]) for words in (source, target))
    same_V = np.array([source.get(word, PADDING) for word in target] or [PADDING])
    similar_C = np.zeros(len(corpus.keys_C), dtype=np.float32)
    for start in range(0, len(similar_C), MAX_CELLS_IN_BATCH):
        part = slice(start, start + MAX_CELLS_IN_BATCH)
        sources, targets = source_C[part], target_C[part]
        equal_CW = source_letters_VW[sources] == target_letters_VW[targets]
        common_C = np.cumprod(equal_CW & (source_letters_VW[sources] != 0), axis=1).sum(axis=1)
        longer_C = np.maximum(source_length_V[sources], target_length_V[targets])
        share_C = common_C / np.maximum(longer_C, 1)
        related_C = (common_C >= SIMILAR_LETTERS) | (share_C >= SIMILAR_SHARE)
        similar_C[part] = np.where(same_V[targets] == sources, 1.0, np.where(related_C, share_C, 0.0))
    similar_C[0] = 0.0
    return torch.from_numpy(similar_C)


def mixed_kinds(corpus: PairCorpus, source: Vocabulary, target: Vocabulary) -> Tensor:
    """Whether exactly one word of every cell is a punctuation mark or symbol, bool (C)."""
    source_V, target_V = (
        torch.tensor([any(letter.isalnum() for letter in word) for word in words] or [False])
        for words in (source, target)
    )
    return source_V[corpus.source_C] != target_V[corpus.target_C]


def letters(vocabulary: Vocabulary) -> np.ndarray:
    """The first PREFIX code points of every word, 0 after its end."""
    words = np.array(list(vocabulary) or [""], dtype=f"<U{PREFIX}")
    return words.view(np.uint32).reshape(len(words), PREFIX)


def split_words(text: str, tokenised: bool) -> list[Span]:
    """Spans of a text's words: in tokenised text separated by spaces, in raw text words and punctuation marks."""
    return spaced_spans(text) if tokenised else word_spans(text)


def normalize_words(words: Iterable[str]) -> list[str]:
    """Words as aligners compare them: in lower case, and without spaces, which a word of segmented text may have."""
    return [sys.intern("".join(word.lower().split())) for word in words]  # each once: a corpus repeats them


def normalized_words(text: str, tokenised: bool) -> list[str]:
    """The words of a text as aligners compare them."""
    return normalize_words(text[start:end] for start, end in split_words(text, tokenised))
