"""Random segmentation of training text: BPE-dropout (Provilkov et al. 2020) and subword regularization (Kudo 2018).

A text is segmented anew in every epoch. The random numbers depend on seed, epoch, field and row alone, so that a
resumed training reads the same ids, whoever reads a row. Computed segmentations of a word are cached for its next
occurrence.
"""

import math
from bisect import bisect
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import accumulate, pairwise
from random import Random
from typing import Generic, Protocol, TypeVar

import numpy as np

from interlinear.text import BYTES, TextConfig, Tokenizer
from interlinear.text.vocabulary import Vocabulary
from training.data.guide.piece_links import INDEX, RowArrays
from training.data.prepare.prepared import TARGET, PreparedSplit

WORDS = 1 << 15  # words that are cached, and texts between spaces
SEGMENTATIONS = 1 << 18  # segmentations that are cached, of all words
ROWS = 1 << 16  # whose ids are kept in an epoch: a few updates of all workers
UNKNOWN_PENALTY = 10.0  # below the least probable piece, in nats, for a character without a piece; as in SentencePiece

Draw = Callable[[], float]
"""Returns the next random number in [0, 1)."""


Word = TypeVar("Word")
Lattice = list[tuple[list[float], list[tuple[int, tuple[int, ...]]]]]
"""For every position in a word: the pieces that end there, each by its beginning and its ids, and their cumulative
weights."""


class WordSampler(Protocol[Word]):
    """Segments words at random."""

    def word(self, word: str) -> Word:
        """The cached data of a word of the pre-tokenizer."""

    def sample(self, words: Sequence[Word], draw: Draw) -> list[int]:
        """The ids of the words of a text."""


class Segmentation:
    """A word as pieces, and the merges that are possible in it.

    `places`: of the left pieces of pairs that a merge joins, in order of priority. `merges`: the number of merges until
    none is possible, if none is dropped, and `final`: the pieces then.
    """

    __slots__ = ("final", "following", "ids", "merges", "places")

    def __init__(self, ids: tuple[int, ...], places: list[int]) -> None:
        self.ids, self.places = ids, places
        self.following: list[Segmentation | None] = [None] * len(places)
        self.final, self.merges = ids, 0


class BpeDropout:
    """BPE-dropout: in every step of merging a word, each possible merge is dropped with a probability, and the one with
    the highest priority of the others is made, until all are dropped or none is possible."""

    def __init__(self, config: TextConfig, vocabulary: Vocabulary, dropout: float) -> None:
        self.dropout = dropout
        self.ids = vocabulary.ids(config)
        self.ranks = {
            (self.ids[left], self.ids[right]): (rank, self.ids[left + right])
            for rank, (left, right) in enumerate(vocabulary.merges)
        }
        self.known: dict[tuple[int, ...], Segmentation] = {}

    def word(self, word: str) -> Segmentation:
        return self.segmentation(tuple(number for letter in word for number in letter_ids(self.ids, letter)))

    def sample(self, words: Sequence[Segmentation], draw: Draw) -> list[int]:
        sampled: list[int] = []
        kept = self.kept_merges(draw)
        for state in words:
            place = 0
            while place < len(state.places):
                if not place and kept >= state.merges:
                    kept -= state.merges
                    sampled += state.final
                    break
                if kept:
                    state, place, kept = self.merged(state, place), 0, kept - 1
                else:
                    place, kept = place + 1, self.kept_merges(draw)
            else:
                sampled += state.ids
        return sampled

    def kept_merges(self, draw: Draw) -> int | float:
        """The number of merges before the next one that is dropped: geometrically distributed."""
        return int(math.log(1 - draw()) / math.log1p(-self.dropout)) if self.dropout else math.inf

    def merged(self, state: Segmentation, place: int) -> Segmentation:
        """The result of the possible merge with this priority."""
        if (following := state.following[place]) is None:
            following = state.following[place] = self.segmentation(self.join(state.ids, state.places[place]))
        return following

    def segmentation(self, ids: tuple[int, ...]) -> Segmentation:
        """The record of these pieces, created together with all records that follow while no merge is dropped."""
        if len(self.known) >= SEGMENTATIONS:
            for old in self.known.values():
                old.following = [None] * len(old.places)
            self.known.clear()
        new: list[Segmentation] = []
        while (state := self.known.get(ids)) is None:
            ranks = sorted((self.ranks[pair][0], at) for at, pair in enumerate(pairwise(ids)) if pair in self.ranks)
            state = self.known[ids] = Segmentation(ids, [at for _, at in ranks])
            if ranks:
                new.append(state)
                ids = self.join(ids, state.places[0])
        for before in reversed(new):
            before.following[0], before.final, before.merges = state, state.final, state.merges + 1
            state = before
        return state

    def join(self, ids: tuple[int, ...], at: int) -> tuple[int, ...]:
        """The pieces after the merge of a pair."""
        return (*ids[:at], self.ranks[ids[at], ids[at + 1]][1], *ids[at + 2 :])


class UnigramSampling:
    """Subword regularization: a word's segmentation x is drawn from P(x)^alpha, normalised over all segmentations.

    P(x) is the product of its pieces' probabilities. Forward sums over the lattice of a word are computed once; pieces
    are then drawn from its end to its beginning.
    """

    def __init__(self, config: TextConfig, vocabulary: Vocabulary, alpha: float) -> None:
        self.alpha = alpha
        self.ids = vocabulary.ids(config)
        scored = vocabulary.pieces[len(vocabulary.pieces) - len(vocabulary.scores) :]
        self.scores = dict(zip(scored, vocabulary.scores, strict=True))
        self.longest = max(map(len, scored))
        self.unknown = min(vocabulary.scores) - UNKNOWN_PENALTY

    def sample(self, words: Sequence[Lattice], draw: Draw) -> list[int]:
        sampled: list[int] = []
        for lattice in words:
            pieces: list[tuple[int, ...]] = []
            end = len(lattice) - 1
            while end:
                totals, choices = lattice[end]
                chosen = 0 if len(choices) == 1 else min(bisect(totals, draw() * totals[-1]), len(choices) - 1)
                end, ids = choices[chosen]
                pieces.append(ids)
            sampled += (number for ids in reversed(pieces) for number in ids)
        return sampled

    def word(self, word: str) -> Lattice:
        forward = [0.0]
        lattice: Lattice = [([], [])]
        for end in range(1, len(word) + 1):
            weights, choices = [], []
            for start in range(max(0, end - self.longest), end):
                piece = word[start:end]
                score = self.scores.get(piece, self.unknown if end - start == 1 else None)
                if score is not None:
                    weights.append(forward[start] + self.alpha * score)
                    ids = (self.ids[piece],) if piece in self.scores else letter_ids(self.ids, piece)
                    choices.append((start, ids))
            largest = max(weights)
            totals = list(accumulate(math.exp(weight - largest) for weight in weights))
            forward.append(largest + math.log(totals[-1]))
            lattice.append((totals, choices))
        return lattice


def letter_ids(ids: Mapping[str, int], letter: str) -> tuple[int, ...]:
    """A character's id, or the ids of its UTF-8 bytes."""
    known = ids.get(letter)
    return (known,) if known is not None else tuple(ids[BYTES[byte]] for byte in letter.encode())


class TextSampler(Generic[Word]):
    """Segments the texts of one field, given as ids, at random."""

    def __init__(self, tokenizer: Tokenizer, sampler: WordSampler[Word]) -> None:
        self.tokenizer, self.sampler = tokenizer, sampler
        self.begins = np.array([piece.startswith("▁") for piece in tokenizer.pieces])
        self.sizes = np.array([len(piece.encode()) for piece in tokenizer.pieces])  # in bytes of UTF-8
        first = len(tokenizer.config.reserved)
        self.sizes[first : first + len(BYTES)] = 1
        self.word = lru_cache(WORDS)(sampler.word)
        self.words = lru_cache(WORDS)(self.read_words)

    def sample(self, ids: np.ndarray, draw: Draw) -> np.ndarray:
        """Other ids of the same text, (length) int64."""
        ids = np.ascontiguousarray(ids, np.int64)
        starts = np.flatnonzero(self.begins[ids]).tolist()
        words = [word for start, end in pairwise([*starts, len(ids)]) for word in self.words(ids[start:end].tobytes())]
        return np.array(self.sampler.sample(words, draw), np.int64)

    def overlaps(self, ids_N: np.ndarray, others_M: np.ndarray) -> np.ndarray:
        """Whether pieces of two segmentations of one text share text, bool (N, M)."""
        end_N, end_M = np.cumsum(self.sizes[ids_N]), np.cumsum(self.sizes[others_M])
        start_N, start_M = end_N - self.sizes[ids_N], end_M - self.sizes[others_M]
        shared_NM: np.ndarray = (start_N[:, None] < end_M) & (start_M < end_N[:, None])
        return shared_NM

    def read_words(self, ids: bytes) -> list[Word]:
        """The cached data of the words of a text between spaces, from its ids as int64."""
        return [self.word(word) for word in self.tokenizer.split_words(np.frombuffer(ids, np.int64).tolist())]


AnyTextSampler = TextSampler[Segmentation] | TextSampler[Lattice]


def text_sampler(tokenizer: Tokenizer, dropout: float, alpha: float | None) -> AnyTextSampler:
    """The sampler of a field: of a BPE vocabulary by the probability of dropping a merge, of a unigram one by alpha."""
    if alpha is None:
        return TextSampler(tokenizer, BpeDropout(tokenizer.config, tokenizer.vocabulary, dropout))
    return TextSampler(tokenizer, UnigramSampling(tokenizer.config, tokenizer.vocabulary, alpha))


class SampledSplit:
    """A split in one epoch, whose texts with a sampler are segmented at random.

    A segmentation longer than `max_length`, the limit of the prepared split, is discarded, and the prepared ids are
    used.
    """

    def __init__(
        self, split: PreparedSplit, samplers: Mapping[str, AnyTextSampler], max_length: int, seed: int, epoch: int
    ) -> None:
        self.images = split.images
        self._split, self._samplers = split, samplers
        self._max_length, self._seed, self._epoch = max_length, seed, epoch
        self._sampled = lru_cache(ROWS)(self._sample)

    def row_lengths(self, field: str, rows: np.ndarray) -> np.ndarray:
        """The lengths of some rows, int64, without the end symbol; 0 if the text is absent."""
        if field not in self._samplers:
            return self._split.row_lengths(field, rows)
        return np.array([len(ids) for ids in self._rows(field, rows)], np.int64)

    def concatenated_ids(self, field: str, rows: np.ndarray) -> np.ndarray:
        """The ids of some rows, int64, one row after the other, without begin and end symbols."""
        if field not in self._samplers:
            return self._split.concatenated_ids(field, rows)
        return np.concatenate([np.zeros(0, np.int64), *self._rows(field, rows)])

    def links(self, links: RowArrays, source: str, rows: np.ndarray) -> RowArrays:
        """The links (target piece, source piece) of some rows, for `links` between prepared pieces: a piece has the
        links of the prepared pieces that it shares text with."""
        return RowArrays.of(self._links(links.row(row), source, row) for row in rows.tolist())

    def _links(self, links_N2: np.ndarray, source: str, row: int) -> np.ndarray:
        target_NL, source_NT = (
            self._overlaps(field, row)[links_N2[:, side].astype(np.int64)].astype(np.float32)
            for side, field in enumerate((TARGET, source))
        )
        return np.argwhere(target_NL.T @ source_NT > 0).astype(INDEX)

    def _overlaps(self, field: str, row: int) -> np.ndarray:
        """Whether each prepared piece of a row shares text with each that is read, bool."""
        prepared = self._split.ids(field, row)
        if field not in self._samplers:
            return np.eye(len(prepared), dtype=bool)
        return self._samplers[field].overlaps(prepared, self._sampled(field, row))

    def _rows(self, field: str, rows: np.ndarray) -> Iterator[np.ndarray]:
        return (self._sampled(field, row) for row in rows.tolist())

    def _sample(self, field: str, row: int) -> np.ndarray:
        ids = self._split.ids(field, row)
        draw = Random(f"{self._seed} {self._epoch} {field} {row}").random
        sampled = self._samplers[field].sample(ids, draw)
        return sampled if len(sampled) <= self._max_length else ids
