"""Limits on repetition: a word that is said twice of one source word, repeated n-grams, and a penalty on tokens that an
output has. A step of the search sees what each hypothesis has written as tensors.

The guard: a *word* is not written a second time while attention is on the same source word as the first time. One
source word may become several different words (*Krankenschwester*, *the nurse*). A word that stands twice in the source
may be said twice: attention does not say which of both it is on, so that such words are not guarded. A network without
coverage repeats itself in this way (Tu et al. 2016), mostly a small one.

Axes: N sentences in the table (rows), K hypotheses of each, L output positions, C words that may come next, T source
positions, G tokens of the longest n-gram.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from interlinear.batch import moved
from interlinear.models.memory import pad_or_trim
from interlinear.search.options import SearchRequest
from interlinear.text import PAD

# The share of attention on a source word from which a word is said of it. With less, articles and prepositions, for
# which attention is spread, could not be said twice.
SAID_OF = 0.4

OTHER, WORD, JOINED = 0, 1, 2  # kinds of tokens: marks and symbols, begins of words, and what continues a word

HASH, PRIME = 2**31 - 1, 1_000_003  # a word's tokens as one number


@dataclass(frozen=True)
class RepetitionState:
    """The limits of every row, and what its hypotheses have written. The first axis of every tensor is N.

    The history of a hypothesis is in the order of its output, without back-pointers. For each of its tokens it has the
    column, the kind, the hash of the tokens of its word before it, and the source word that its word is said of, -1 for
    none.
    """

    kind_NC: Tensor  # OTHER, WORD or JOINED, of each word that may come next
    guarded_N: Tensor
    gram_NG: Tensor  # True for the tokens of a row's n-grams, from the last one back
    penalty_N: Tensor
    word_NT: Tensor  # the source word of each position; -1 for none
    hash_NK: Tensor  # of the tokens of the word that is being written
    source_NK: Tensor  # the source word that it is said of; -1 for none
    history_NKL4: Tensor

    def map(self, change: Callable[[Tensor], Tensor]) -> "RepetitionState":
        """Applies a function to every tensor."""
        return RepetitionState(**{name: change(value) for name, value in vars(self).items()})

    def concatenate(self, other: "RepetitionState") -> "RepetitionState":
        """These rows followed by those of `other`, which has the same widths."""
        second = vars(other)
        return RepetitionState(**{name: torch.cat([value, second[name]]) for name, value in vars(self).items()})

    def resize(self, outputs: int, positions: int, words: int, grams: int) -> "RepetitionState":
        """Pads or trims to so many output positions, source positions, words that may come next, and tokens of
        n-grams."""
        return replace(
            self,
            kind_NC=pad_or_trim(self.kind_NC, 1, words, OTHER),
            gram_NG=pad_or_trim(self.gram_NG, 1, grams, False),
            word_NT=pad_or_trim(self.word_NT, 1, positions, -1),
            history_NKL4=pad_or_trim(self.history_NKL4, 2, outputs, PAD),
        )

    def said_of(self, attention_NKT: Tensor) -> Tensor:
        """The source word (N, K) with most attention; -1 where it has less than SAID_OF."""
        index_NKT = self.word_NT.clamp(min=0)[:, None].expand_as(attention_NKT)
        on_words_NKT = attention_NKT * (self.word_NT >= 0)[:, None]
        share_NK, word_NK = torch.zeros_like(attention_NKT).scatter_add(-1, index_NKT, on_words_NKT).max(-1)
        return torch.where(share_NK >= SAID_OF, word_NK, -1)

    def limit(self, log_NKC: Tensor, now_NK: Tensor, length_N: Tensor) -> Tensor:
        """Limits the log-probabilities of the next words; returns the same tensor. now_NK: as `said_of`. length_N: the
        number of words before. PAD must have -inf already."""
        column_NKL, kind_NKL, before_NKL, said_of_NKL = self.history_NKL4.unbind(-1)
        last_N11 = length_N[:, None, None] - 1
        position_L = torch.arange(column_NKL.shape[2], device=length_N.device)
        # The last token of each word that would be said a second time if it came next.
        ends_NKL = (kind_NKL.roll(-1, -1) != JOINED) | (position_L == last_N11)
        again_NKL = (kind_NKL == WORD) & (said_of_NKL == now_NK[..., None])
        continued_NKL = (kind_NKL == JOINED) & (before_NKL == self.hash_NK[..., None])
        again_NKL = again_NKL | (continued_NKL & (said_of_NKL == self.source_NK[..., None]))
        repeated_NKL = again_NKL & ends_NKL & (said_of_NKL >= 0) & self.guarded_N[:, None, None]
        if self.gram_NG.shape[1]:
            repeated_NKL = repeated_NKL | self.grams_NKL(column_NKL, position_L, last_N11)
        limited_NKL = log_NKC.gather(-1, column_NKL) * self.penalty_N[:, None, None]
        limited_NKL = limited_NKL.masked_fill(repeated_NKL & (position_L <= last_N11), -torch.inf)
        # A token that is written twice has two places here, and the smallest value counts; PAD, behind the last, has
        # the smallest already.
        return log_NKC.scatter_reduce_(-1, column_NKL, limited_NKL, "amin")

    def grams_NKL(self, column_NKL: Tensor, position_L: Tensor, last_N11: Tensor) -> Tensor:
        """True for tokens that followed the same tokens as those just written."""
        matches_NKL = self.gram_NG[:, :1, None].expand_as(column_NKL)
        for back in range(1, self.gram_NG.shape[1]):
            index_NK1 = (last_N11 + 1 - back).clamp(min=0).expand(-1, column_NKL.shape[1], 1)
            same_NKL = (column_NKL.roll(back, -1) == column_NKL.gather(-1, index_NK1)) & (position_L >= back)
            matches_NKL = matches_NKL & (same_NKL | ~self.gram_NG[:, back, None, None])
        return matches_NKL

    def advance(self, flat_M: Tensor, column_NK: Tensor, now_NK: Tensor, position_N1L: Tensor) -> "RepetitionState":
        """The state of the chosen hypotheses. flat_M: the hypotheses (N * K) that they extend. position_N1L: True at
        the output position of this step, False everywhere in a finished row."""

        def chosen(value: Tensor) -> Tensor:
            return value.flatten(0, 1).index_select(0, flat_M).view(*column_NK.shape, *value.shape[2:])

        kind_NK = self.kind_NC.gather(1, column_NK).long()
        before_NK = torch.where(kind_NK == JOINED, chosen(self.hash_NK), 0)
        source_NK = torch.where(kind_NK == JOINED, chosen(self.source_NK), chosen(now_NK))
        written_NK14 = torch.stack([column_NK, kind_NK, before_NK, source_NK], -1)[:, :, None]
        return replace(
            self,
            hash_NK=(before_NK * PRIME + column_NK + 1) % HASH,
            source_NK=source_NK,
            history_NKL4=torch.where(position_N1L[..., None], written_NK14, chosen(self.history_NKL4)),
        )


def longest_gram(requests: Sequence[SearchRequest]) -> int | None:
    """The number of tokens of the longest n-gram that may not be repeated, 0 if all may; None if no request limits
    repetition."""
    return max((one.options.no_repeat_ngram_size for one in requests if one.limits_repetition), default=None)


def initial_repetition(
    requests: Sequence[SearchRequest], outputs: int, positions: int, kind_NC: Tensor, score_NK: Tensor
) -> RepetitionState:
    """The limits of rows at their begin, on the device of their scores. kind_NC: of the words that may come next, on
    the host."""
    n, k = score_NK.shape
    options = [one.options if one.limits_repetition else None for one in requests]
    sizes = [o.no_repeat_ngram_size if o else 0 for o in options]
    words = [[*one.source_words[:positions], *[-1] * (positions - len(one.source_words))] for one in requests]
    grams = [[i < size for i in range(max(sizes))] for size in sizes]
    on_host = replace(
        no_limits(torch.zeros(n, k, dtype=score_NK.dtype)),
        kind_NC=kind_NC,
        guarded_N=torch.tensor([o is not None and o.repetition_guard for o in options]),
        gram_NG=torch.tensor(grams, dtype=torch.bool).view(n, -1),
        penalty_N=torch.tensor([o.repetition_penalty if o else 1.0 for o in options], dtype=score_NK.dtype),
        word_NT=torch.tensor(words, dtype=torch.long),
        history_NKL4=torch.full((n, k, outputs, 4), PAD),
    )
    return moved(on_host, score_NK.device)


def no_limits(score_NK: Tensor) -> RepetitionState:
    """The state of rows without limits, of no width, on the device of their scores."""
    none_NK = torch.zeros(score_NK.shape, dtype=torch.long, device=score_NK.device)
    return RepetitionState(
        none_NK[:, :0].to(torch.int8),
        none_NK[:, 0].bool(),
        none_NK[:, :0].bool(),
        torch.ones_like(score_NK[:, 0]),
        none_NK[:, :0],
        none_NK,
        none_NK - 1,
        none_NK[..., None, None].expand(-1, -1, 0, 4),
    )
