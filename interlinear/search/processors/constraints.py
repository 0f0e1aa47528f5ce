"""Constraints: sequences of tokens that an output must contain, and the tokens that it must begin with (`prefix.py`).

A hypothesis of a constrained sentence continues with any token, or with a constraint's token. A constraint may begin
where attention is on the words that it stands for, must begin where most of it is (Hasler et al. 2018), and is then
written to its end. The beam is shared by dynamic beam allocation (`beam_allocation.py`). A hypothesis ends only when
all constraints are written.

Axes: N sentences in the table (rows), R rows with constraints or a prefix, K hypotheses of each, C constraint tokens, L
output positions, V tokens that may come next, k the best tokens of a hypothesis, T source positions.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import torch
from torch import Tensor
from torch.nn import functional as F

from interlinear.devices import to_device
from interlinear.search.best_columns import best_columns
from interlinear.search.options import Constraint, Hypothesis, SearchRequest
from interlinear.search.processors.beam_allocation import allocate
from interlinear.search.processors.prefix import Prefixes
from interlinear.search.processors.processor import (
    JOINED,
    OUTPUTS,
    WORDS,
    Choice,
    NewRows,
    NextWords,
    Processor,
    Step,
    Written,
    round_up_capacity,
)
from interlinear.text import PAD

# Attention on a constraint's source words: from ON_SOURCE it may begin, and its first token is not written otherwise;
# from DUE it must, since another token would translate them a second time. Chosen by the BLEU of a sentence without its
# term, of 0.1 to 0.5 and 0.2 to 0.8; with attention spread over ten words no constraint is ever due.
ON_SOURCE = 0.1
DUE = 0.4

TOKENS = "constraint tokens"


@dataclass(frozen=True)
class Constraints(Processor):
    """The constraints of every row, token by token, and the progress of its hypotheses.

    A row with fewer tokens is padded with the column PAD, which no constraint has.
    """

    axes: ClassVar = {
        "column_NC": (1, TOKENS, PAD),
        "first_NC": (1, TOKENS, False),
        "index_NC": (1, TOKENS, 0),
        "start_NC": (1, TOKENS, 0),
        "end_NC": (1, TOKENS, 0),
        "joined_NV": (1, WORDS, False),
        "met_NKC": (2, TOKENS, False),
        "written_NKL": (2, OUTPUTS, 0),
    }
    of_table = ("index_R",)
    compiled = False  # its programs for one row and several, and for prefixes, would take three times as long

    column_NC: Tensor  # the token's column among the tokens that may come next
    first_NC: Tensor  # True at a constraint's first token
    index_NC: Tensor  # the constraint's index in the request
    start_NC: Tensor  # source positions [start, end) of the constraint; [0, 0) where it may begin anywhere
    end_NC: Tensor
    joined_NV: Tensor  # True for tokens that would continue the word before them
    met_NKC: Tensor  # True for tokens that are written
    latest_NK: Tensor  # 1 + the constraint token that the last step wrote; 0 for another token
    written_NKL: Tensor  # the same of each step, with the back-pointers of `SlotState.parent_NKL`
    index_R: Tensor  # indices of the rows with constraints or a prefix, the last one repeated

    @classmethod
    def wanted(cls, request: SearchRequest) -> bool:
        return request.constrained

    @classmethod
    def sizes(cls, requests: Sequence[SearchRequest]) -> dict[str, int]:
        return {TOKENS: round_up_capacity(max(1, *(len(table_of(request.constraints)) for request in requests)))}

    @classmethod
    def start(cls, new: NewRows) -> Self:
        for request in new.requests:
            assert request.required_tokens <= request.max_length, "constraints longer than an output"
        tables = [table_of(request.constraints) for request in new.requests]
        width = max(map(len, tables))
        padded = [[*table, *[(PAD, 0, 0, 0, 0)] * (width - len(table))] for table in tables]
        numbers_NC5 = torch.tensor(padded, dtype=torch.long).view(len(tables), width, 5)
        token_NC, first_NC, index_NC, start_NC, end_NC = numbers_NC5.unbind(-1)
        return cls(
            column_NC=new.columns_of(token_NC),
            first_NC=first_NC.bool(),
            index_NC=index_NC,
            start_NC=start_NC,
            end_NC=end_NC,
            joined_NV=new.kind_NC == JOINED,
            met_NKC=new.zeros(new.hypotheses, width, dtype=torch.bool),
            latest_NK=new.zeros(new.hypotheses),
            written_NKL=new.zeros(new.hypotheses, 0),
            index_R=new.zeros()[:1],
        )

    def placed(self, requests: Sequence[SearchRequest]) -> Self:
        rows = [row for row, request in enumerate(requests) if self.wanted(request)]
        rows += rows[-1:] * (max(2, 1 << (len(rows) - 1).bit_length()) - len(rows))  # 2, 4, 8, ...: a few sizes occur
        return replace(self, index_R=to_device([torch.tensor(rows)], self.index_R.device)[0])

    @property
    def real_NC(self) -> Tensor:
        """True for tokens, False for padding."""
        return self.column_NC != PAD

    @property
    def begins_NC(self) -> Tensor:
        """True for the first token of each constraint."""
        return self.first_NC & self.real_NC

    @property
    def anywhere_NC(self) -> Tensor:
        """True for tokens of constraints that may begin anywhere."""
        return self.end_NC == 0

    @property
    def missing_NK(self) -> Tensor:
        """The number of constraint tokens that a hypothesis has not written yet."""
        return self.real_NC.sum(1, keepdim=True) - self.met_NKC.sum(-1)

    @property
    def following_NKC(self) -> Tensor:
        """True for the next token of a constraint that is begun and not complete."""
        before_NKC = F.pad(self.met_NKC, (1, -1))  # whether the token before is written
        return before_NKC & ~self.met_NKC & (~self.first_NC & self.real_NC)[:, None]

    def choose(self, choice: Choice, words: NextWords, step: Step) -> Choice:
        """The mark of a choice is 1 + the constraint token that is written."""

        def own_rows(value: Tensor) -> Tensor:
            return value.index_select(0, self.index_R)

        own_words = NextWords(**{name: own_rows(value) for name, value in vars(words).items()})
        of_step = (step.attention_weights.attention, step.score_NK, step.length_N, step.max_N, step.beam_N)
        constrained = self.select(self.index_R).chosen(own_words, self.prefixes(step), *map(own_rows, of_step))
        return choice.replace_rows(self.index_R, constrained)

    def prefixes(self, step: Step) -> Prefixes | None:
        """The prefixes of the constrained rows, if there are any."""
        found = next((one for one in step.processors if isinstance(one, Prefixes)), None)
        return found and found.select(self.index_R)

    def chosen(
        self,
        words: NextWords,
        prefixes: Prefixes | None,
        attention_NKT: Tensor,
        score_NK: Tensor,
        position_N: Tensor,
        max_N: Tensor,
        beam_N: Tensor,
    ) -> Choice:
        """The choice of these rows. position_N: the number of tokens before. beam_N: the current beam width."""
        width, tokens = score_NK.shape[1], self.column_NC.shape[1]
        column_NKC = self.column_NC[:, None].expand(-1, width, -1)
        token_NKC = words.log_NKC.gather(-1, column_NKC)
        next_NK1 = None if prefixes is None else prefixes.next_log_probability(position_N, words.log_NKC)
        attention_NKC = self.attention_on(attention_NKT)
        new_word_N = None if prefixes is None else prefixes.new_word_N & (position_N == prefixes.length_N)
        log_NKV = self.without_repetitions(words.log_NKC, attention_NKC, new_word_N)
        best_NKk, column_NKk = best_columns(log_NKV, min(width, log_NKV.shape[-1]))
        late_NK = words.end_NK >= best_NKk[..., 0]
        allowed_NKC, free_NK = self.allowed(attention_NKC, late_NK, max_N - position_N)
        complete_NK = self.missing_NK == 0
        if prefixes is not None and next_NK1 is not None:  # while a prefix is written, nothing else is allowed
            in_prefix_N1 = prefixes.forced_N(position_N)[:, None]
            free_NK, complete_NK = free_NK | in_prefix_N1, complete_NK & ~in_prefix_N1
            allowed_NKC = allowed_NKC & ~in_prefix_N1[..., None]
            best_NKk, column_NKk = prefixes.force(position_N, next_NK1, best_NKk, column_NKk)
            beam_N = prefixes.beam_N(position_N, beam_N)

        last_N11 = (position_N >= max_N)[:, None, None]
        word_NKk = (score_NK[..., None] + best_NKk).masked_fill(~free_NK[..., None] | last_N11, -torch.inf)
        token_NKC = (score_NK[..., None] + token_NKC).masked_fill(~allowed_NKC | last_N11, -torch.inf)
        end_NK = words.end_score_NK.masked_fill(~complete_NK, -torch.inf)
        branch_NK = None if prefixes is None else prefixes.branch_NK
        chosen_NK, ends_NK = allocate(self.met_NKC.sum(-1), branch_NK, word_NKk, token_NKC, end_NK, beam_N)

        candidates = best_NKk.shape[-1] + tokens
        chosen_score_NK = torch.cat([word_NKk, token_NKC], -1).flatten(1).gather(1, chosen_NK)
        outside_NK = torch.arange(width, device=beam_N.device) >= beam_N[:, None]
        return Choice(
            chosen_score_NK.masked_fill(outside_NK, -torch.inf),
            chosen_NK // candidates,
            torch.cat([column_NKk, column_NKC], -1).flatten(1).gather(1, chosen_NK),
            ends_NK,
            (chosen_NK % candidates - best_NKk.shape[-1] + 1).clamp(min=0),
        )

    def allowed(self, attention_NKC: Tensor, late_NK: Tensor, remaining_N: Tensor) -> tuple[Tensor, Tensor]:
        """The constraint tokens (N, K, C) that may come next, and the hypotheses (N, K) that may continue with other
        tokens.

        late_NK: True where a hypothesis would end. remaining_N: the number of tokens that may still be written.
        """
        following_NKC, missing_NK = self.following_NKC, self.missing_NK
        begun_NK = following_NKC.any(-1)
        # Constraints that attention never reaches: due when the hypothesis would end, or when only the constraints
        # still fit.
        forced_NK = (missing_NK > 0) & (missing_NK >= remaining_N[:, None])
        anytime_NKC = self.anywhere_NC[:, None] | (forced_NK | late_NK)[..., None]
        placed_NKC = (attention_NKC >= ON_SOURCE) | anytime_NKC
        beginning_NKC = self.begins_NC[:, None] & placed_NKC & ~self.met_NKC & ~begun_NK[..., None]
        # Where attention is on the words of a missing constraint, another token would translate them a second time.
        due_NK = (beginning_NKC & (attention_NKC >= DUE)).any(-1)
        return following_NKC | beginning_NKC, ~(begun_NK | forced_NK | due_NK)

    def attention_on(self, attention_NKT: Tensor) -> Tensor:
        """The attention of each hypothesis on the source positions of each constraint token, (N, K, C)."""
        position_T = torch.arange(attention_NKT.shape[-1], device=attention_NKT.device)[:, None]
        inside_NTC = (position_T >= self.start_NC[:, None]) & (position_T < self.end_NC[:, None])
        return attention_NKT @ inside_NTC.to(attention_NKT.dtype)

    def without_repetitions(self, log_NKV: Tensor, attention_NKC: Tensor, new_word_N: Tensor | None) -> Tensor:
        """Sets the log-probability of tokens to -inf that would repeat a constraint, or lengthen its last word; returns
        the same tensor. new_word_N: True where the next token cannot lengthen the last word.

        While attention is on a constraint's source words, and directly behind it, its first token is only written to
        begin the constraint.
        """
        behind_NK = (self.latest_NK > 0) & ~self.following_NKC.any(-1)
        latest_NK = self.index_NC.gather(1, (self.latest_NK - 1).clamp(min=0))
        repeated_NKC = behind_NK[..., None] & (self.index_NC[:, None] == latest_NK[..., None])
        beginnings_NC = self.begins_NC & ~self.anywhere_NC
        excluded_NKC = beginnings_NC[:, None] & ((attention_NKC >= ON_SOURCE) | repeated_NKC)
        # Added, since several tokens may have one column; padding adds to the column of PAD, which is -inf already.
        penalty_NKC = torch.zeros_like(attention_NKC, dtype=log_NKV.dtype).masked_fill(excluded_NKC, -torch.inf)
        log_NKV.scatter_add_(-1, self.column_NC[:, None].expand_as(penalty_NKC), penalty_NKC)
        new_word_NK = behind_NK if new_word_N is None else behind_NK | new_word_N[:, None]
        return log_NKV.masked_fill_(new_word_NK[..., None] & self.joined_NV[:, None], -torch.inf)

    def advance(self, written: Written) -> Self:
        number_C = torch.arange(1, self.met_NKC.shape[-1] + 1, device=written.mark_NK.device)
        mark_NK1 = written.mark_NK[..., None]
        return replace(
            self,
            met_NKC=written.of_parents(self.met_NKC) | (number_C == mark_NK1),
            latest_NK=written.mark_NK,
            written_NKL=torch.where(written.here_N1L, mark_NK1, self.written_NKL),
        )

    def to_read(self) -> list[Tensor]:
        return [self.written_NKL, self.index_NC, self.real_NC]

    @classmethod
    def complete(cls, hypothesis: Hypothesis, path: list[int], row: list[Any]) -> Hypothesis:
        """The output with the index of the constraint that each token writes; without indices in a row without
        constraints."""
        written, index, real = row
        marks = [written[k][position] for position, k in enumerate(path[1:])]
        return replace(
            hypothesis, constraints=[index[mark - 1] if mark else None for mark in marks] if any(real) else ()
        )

    @classmethod
    def shown_length(cls, hypothesis: Hypothesis) -> int | None:
        """The number of tokens before the first that writes a constraint."""
        return next((i for i, index in enumerate(hypothesis.constraints) if index is not None), None)


def table_of(constraints: Sequence[Constraint]) -> list[tuple[int, int, int, int, int]]:
    """For each token of a row's constraints: id, whether it is the first, index of the constraint, source positions."""
    return [
        (token, int(position == 0), index, *(constraint.positions or (0, 0)))
        for index, constraint in enumerate(constraints)
        for position, token in enumerate(constraint.ids)
    ]
