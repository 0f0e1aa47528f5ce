"""Target prefixes: tokens that an output begins with; the rest is searched (prefix-constrained search).

With alternatives, the outputs of a sentence differ in the first word after its prefix, as CTranslate2's
`return_alternatives`: each of the best first words begins a *branch*. Branches share the beam equally, so that the best
output of each is found.

Axes: N sentences in the table (rows), K hypotheses of each, L output positions, C tokens that may come next, k the best
tokens of a hypothesis, M finished hypotheses of a row.
"""

from dataclasses import dataclass, replace
from typing import ClassVar, Self

import torch
from torch import Tensor
from torch.nn import functional as F

from interlinear.search.options import SearchRequest, TargetPrefix
from interlinear.search.processors.processor import OUTPUTS, NewRows, Processor, Written
from interlinear.text import PAD


@dataclass(frozen=True)
class Prefixes(Processor):
    """The prefix of every row, and the branches of its hypotheses. `Constraints` chooses what is written."""

    axes: ClassVar = {"column_NL": (1, OUTPUTS, PAD)}
    compiled = False

    column_NL: Tensor  # the columns of the prefix' tokens among the tokens that may come next; PAD behind them
    length_N: Tensor  # how many tokens the prefix has
    new_word_N: Tensor
    branches_N: Tensor  # how many branches there are; 0 without alternatives
    branch_NK: Tensor  # the branch of each hypothesis, 1 and more; 0 up to the first word
    final_branch_NK: Tensor  # the same of finished hypotheses

    @classmethod
    def wanted(cls, request: SearchRequest) -> bool:
        return request.prefix is not None

    @classmethod
    def start(cls, new: NewRows) -> Self:
        given = [request.prefix or TargetPrefix((), new_word=False) for request in new.requests]
        outputs = max(len(prefix.ids) for prefix in given)
        token_NL = torch.tensor([[*prefix.ids, *[PAD] * (outputs - len(prefix.ids))] for prefix in given])
        branches = [
            request.options.n_best * prefix.alternatives for request, prefix in zip(new.requests, given, strict=True)
        ]
        return cls(
            new.columns_of(token_NL.long()),
            torch.tensor([len(prefix.ids) for prefix in given]),
            torch.tensor([prefix.new_word for prefix in given]),
            torch.tensor(branches),
            new.zeros(new.hypotheses),
            new.zeros(new.hypotheses),
        )

    def forced_N(self, position_N: Tensor) -> Tensor:
        """True for rows whose next token, at these output positions, is the prefix'."""
        return position_N < self.length_N

    def branching_N(self, position_N: Tensor) -> Tensor:
        """True for rows whose next token, at these output positions, begins the branches."""
        return (position_N == self.length_N) & (self.branches_N > 0)

    def beam_N(self, position_N: Tensor, beam_N: Tensor) -> Tensor:
        """The beam width where branches begin, which is their number; elsewhere `beam_N`."""
        return torch.where(self.branching_N(position_N), torch.minimum(beam_N, self.branches_N), beam_N)

    def next_columns(self, position_N: Tensor) -> Tensor:
        """The columns (N, 1) of the prefix' tokens at these output positions; PAD behind a prefix."""
        return self.column_NL.gather(1, position_N.clamp(max=self.column_NL.shape[1] - 1)[:, None])

    def next_log_probability(self, position_N: Tensor, log_NKC: Tensor) -> Tensor:
        """The log-probability (N, K, 1) of the prefix' token at these output positions."""
        return log_NKC.gather(-1, self.next_columns(position_N)[:, None].expand(-1, log_NKC.shape[1], -1))

    def force(
        self, position_N: Tensor, next_NK1: Tensor, best_NKk: Tensor, column_NKk: Tensor
    ) -> tuple[Tensor, Tensor]:
        """The best tokens of hypotheses and their columns: in rows whose prefix is not complete, only its next token,
        with the log-probability next_NK1."""
        forced_N11 = self.forced_N(position_N)[:, None, None]
        only_NKk = F.pad(next_NK1, (0, best_NKk.shape[-1] - 1), value=-torch.inf)
        next_N11 = self.next_columns(position_N)[:, None]
        return torch.where(forced_N11, only_NKk, best_NKk), torch.where(forced_N11, next_N11, column_NKk)

    def rank(self, final_NM: Tensor) -> Tensor:
        """In rows with branches, only the best of each has a score."""
        branch_NM = torch.cat([self.final_branch_NK, self.branch_NK], 1)
        index_M = torch.arange(final_NM.shape[1], device=final_NM.device)
        other_N1M, own_NM1 = final_NM[:, None], final_NM[..., None]
        better_NMM = (other_N1M > own_NM1) | ((other_N1M == own_NM1) & (index_M < index_M[:, None]))
        beaten_NM = (better_NMM & (branch_NM[:, None] == branch_NM[..., None])).any(-1)
        return final_NM.masked_fill(beaten_NM & (self.branches_N > 0)[:, None], -torch.inf)

    def advance(self, written: Written) -> Self:
        width, column_NK = written.parent_NK.shape[1], written.column_NK
        number_K = torch.arange(width, device=column_NK.device)
        # A token that is written both to begin a constraint and as any other token begins one branch.
        first_NK = torch.where(column_NK[:, None] == column_NK[..., None], number_K, width).amin(-1)
        # The best first token gets the highest number, which is served first.
        begun_NK = (self.branches_N[:, None] - first_NK).clamp(min=0)
        inherited_NK = self.branch_NK.gather(1, written.parent_NK)
        branching_N1 = self.branching_N(written.length_N)[:, None]
        return replace(
            self,
            branch_NK=torch.where(branching_N1, begun_NK, inherited_NK),
            final_branch_NK=torch.cat([self.final_branch_NK, self.branch_NK], 1).gather(1, written.kept_NK),
        )
