"""Limits on repetition: a word that is written twice for one source word, repeated n-grams, and a penalty on tokens
that an output contains already. A step of the search sees what each hypothesis has written as tensors.

The guard: a *word* is not written a second time while attention is on the same source word as the first time. One
source word may become several different words (*Krankenschwester*, *the nurse*). A word that occurs twice in the source
may be written twice: attention does not tell the two occurrences apart, so that such words are not guarded. A network
without coverage repeats itself in this way (Tu et al. 2016), mostly a small one.

Axes: N sentences in the table (rows), K hypotheses of each, L output positions, C tokens that may come next, T source
positions, G tokens of the longest n-gram.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, Self

import torch
from torch import Tensor

from interlinear.search.options import SearchRequest
from interlinear.search.processors.processor import (
    JOINED,
    OTHER,
    OUTPUTS,
    POSITIONS,
    WORD,
    WORDS,
    NewRows,
    Processor,
    Step,
    Written,
)
from interlinear.text import PAD

# The attention on a source word from which a target word counts as its translation. With less, articles and
# prepositions, for which attention is spread, could not be written twice.
SAID_OF = 0.4

GRAMS = "tokens of n-grams"

HASH, PRIME = 2**31 - 1, 1_000_003  # a word's tokens as one number


@dataclass(frozen=True)
class RepetitionLimits(Processor):
    """The limits of every row, and the tokens of its hypotheses.

    The history of a hypothesis is in the order of its output, without back-pointers. For each of its tokens it has the
    column, the kind, the hash of the tokens of its word before it, and the source word that its word translates, -1 for
    none.
    """

    axes: ClassVar = {
        "kind_NC": (1, WORDS, OTHER),
        "gram_NG": (1, GRAMS, False),
        "word_NT": (1, POSITIONS, -1),
        "history_NKL4": (2, OUTPUTS, PAD),
    }

    kind_NC: Tensor  # OTHER, WORD or JOINED, of each token that may come next
    guarded_N: Tensor
    gram_NG: Tensor  # True for the tokens of a row's n-grams, from the last one back
    penalty_N: Tensor
    word_NT: Tensor  # the source word of each position; -1 for none
    hash_NK: Tensor  # hash of the tokens of the word that is being written
    source_NK: Tensor  # the source word that it translates; -1 for none
    now_NK: Tensor  # the source word with most attention in this step; -1 where it has less than SAID_OF
    history_NKL4: Tensor

    @classmethod
    def wanted(cls, request: SearchRequest) -> bool:
        """Not wanted where the output must contain constraints, which may be words that it contains already."""
        options = request.options
        guarded = options.repetition_guard and len(request.source_words) > 0
        limited = guarded or options.no_repeat_ngram_size or options.repetition_penalty != 1
        return not request.constrained and bool(limited)

    @classmethod
    def sizes(cls, requests: Sequence[SearchRequest]) -> dict[str, int]:
        return {GRAMS: max(one.options.no_repeat_ngram_size if cls.wanted(one) else 0 for one in requests)}

    @classmethod
    def start(cls, new: NewRows) -> Self:
        options = [one.options if cls.wanted(one) else None for one in new.requests]
        ngrams = [o.no_repeat_ngram_size if o else 0 for o in options]
        positions = max(len(one.source_words) for one in new.requests)
        words = [[*one.source_words, *[-1] * (positions - len(one.source_words))] for one in new.requests]
        none_NK = new.zeros(new.hypotheses)
        return cls(
            kind_NC=new.kind_NC,
            guarded_N=torch.tensor([o is not None and o.repetition_guard for o in options]),
            gram_NG=torch.arange(max(ngrams)) < torch.tensor(ngrams)[:, None],
            penalty_N=torch.tensor([o.repetition_penalty if o else 1.0 for o in options], dtype=new.dtype),
            word_NT=torch.tensor(words, dtype=torch.long),
            hash_NK=none_NK,
            source_NK=none_NK - 1,
            now_NK=none_NK - 1,
            history_NKL4=new.zeros(new.hypotheses, 0, 4),
        )

    def observe(self, step: Step) -> Self:
        attention_NKT = step.attention_weights.attention
        index_NKT = self.word_NT.clamp(min=0)[:, None].expand_as(attention_NKT)
        on_words_NKT = attention_NKT * (self.word_NT >= 0)[:, None]
        share_NK, word_NK = torch.zeros_like(attention_NKT).scatter_add(-1, index_NKT, on_words_NKT).max(-1)
        return replace(self, now_NK=torch.where(share_NK >= SAID_OF, word_NK, -1))

    def limit(self, log_NKC: Tensor, step: Step) -> Tensor:
        column_NKL, kind_NKL, before_NKL, said_of_NKL = self.history_NKL4.unbind(-1)
        last_N11 = step.length_N[:, None, None] - 1
        position_L = torch.arange(column_NKL.shape[2], device=last_N11.device)
        # The last token of each word that would be written a second time if it came next.
        ends_NKL = (kind_NKL.roll(-1, -1) != JOINED) | (position_L == last_N11)
        again_NKL = (kind_NKL == WORD) & (said_of_NKL == self.now_NK[..., None])
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
        """True for tokens directly after an earlier occurrence of the tokens just written."""
        matches_NKL = self.gram_NG[:, :1, None].expand_as(column_NKL)
        for back in range(1, self.gram_NG.shape[1]):
            index_NK1 = (last_N11 + 1 - back).clamp(min=0).expand(-1, column_NKL.shape[1], 1)
            same_NKL = (column_NKL.roll(back, -1) == column_NKL.gather(-1, index_NK1)) & (position_L >= back)
            matches_NKL = matches_NKL & (same_NKL | ~self.gram_NG[:, back, None, None])
        return matches_NKL

    def advance(self, written: Written) -> Self:
        kind_NK = self.kind_NC.gather(1, written.column_NK).long()
        before_NK = torch.where(kind_NK == JOINED, written.of_parents(self.hash_NK), 0)
        source_NK = torch.where(kind_NK == JOINED, written.of_parents(self.source_NK), written.of_parents(self.now_NK))
        token_NK14 = torch.stack([written.column_NK, kind_NK, before_NK, source_NK], -1)[:, :, None]
        return replace(
            self,
            hash_NK=(before_NK * PRIME + written.column_NK + 1) % HASH,
            source_NK=source_NK,
            history_NKL4=torch.where(written.here_N1L[..., None], token_NK14, written.of_parents(self.history_NKL4)),
        )
