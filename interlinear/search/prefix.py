"""Target prefixes: tokens with which an output begins; the rest is searched (prefix-constrained search).

With alternatives, the outputs of a sentence differ in the first word after its prefix, as CTranslate2's
`return_alternatives`: each of the best first words begins a *branch*. Branches share the beam equally, so that the best
output of each is found.

Axes: N sentences in the table (rows), K hypotheses of each, L output positions, V words that may come next, k the best
words of a hypothesis, M finished hypotheses of a row.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor
from torch.nn import functional as F

from interlinear.models.memory import pad_or_trim
from interlinear.text import PAD


@dataclass(frozen=True)
class TargetPrefix:
    """Token ids with which an output begins.

    new_word: the word after them does not continue their last word. alternatives: outputs differ in this first word.
    """

    ids: tuple[int, ...]
    new_word: bool = True
    alternatives: bool = False


@dataclass(frozen=True)
class PrefixState:
    """The prefix of every row, and the branches of its hypotheses. The first axis of every tensor is N."""

    column_NL: Tensor  # the columns of the prefix' tokens among the words that may come next; PAD behind them
    length_N: Tensor  # number of the prefix' tokens
    new_word_N: Tensor
    branches_N: Tensor  # number of branches; 0 without alternatives
    branch_NK: Tensor  # the branch of each hypothesis, 1 and more; 0 up to the first word
    final_branch_NK: Tensor  # the same of finished hypotheses

    def forced_N(self, position_N: Tensor) -> Tensor:
        """True for rows whose next token, at these output positions, is the prefix'."""
        return position_N < self.length_N

    def branching_N(self, position_N: Tensor) -> Tensor:
        """True for rows whose next token, at these output positions, begins the branches."""
        return (position_N == self.length_N) & (self.branches_N > 0)

    def map(self, change: Callable[[Tensor], Tensor]) -> "PrefixState":
        """Applies a function to every tensor."""
        return PrefixState(**{name: change(value) for name, value in vars(self).items()})

    def concatenate(self, other: "PrefixState") -> "PrefixState":
        """These rows followed by those of `other`, which has the same widths."""
        second = vars(other)
        return PrefixState(**{name: torch.cat([value, second[name]]) for name, value in vars(self).items()})

    def resize(self, outputs: int) -> "PrefixState":
        """Pads or trims to so many output positions."""
        return replace(self, column_NL=pad_or_trim(self.column_NL, 1, outputs, PAD))


def initial_prefixes(
    rows: Sequence[TargetPrefix | None],
    n_best: Sequence[int],
    hypotheses: int,
    outputs: int,
    columns: Callable[[Tensor], Tensor] = lambda token_NL: token_NL,
) -> PrefixState:
    """The prefixes of rows at their begin, on the host. columns: from ids to columns; by default they are the same."""
    given = [prefix or TargetPrefix((), new_word=False) for prefix in rows]
    padded = [[*prefix.ids, *[PAD] * (outputs - len(prefix.ids))] for prefix in given]
    none_NK = torch.zeros(len(rows), hypotheses, dtype=torch.long)
    return PrefixState(
        columns(torch.tensor(padded, dtype=torch.long).view(len(rows), outputs)),
        torch.tensor([len(prefix.ids) for prefix in given]),
        torch.tensor([prefix.new_word for prefix in given]),
        torch.tensor([count * prefix.alternatives for count, prefix in zip(n_best, given, strict=True)]),
        none_NK,
        none_NK.clone(),
    )


def next_columns(prefix: PrefixState, position_N: Tensor) -> Tensor:
    """The columns (N, 1) of the prefix' tokens at these output positions; PAD behind a prefix."""
    return prefix.column_NL.gather(1, position_N.clamp(max=prefix.column_NL.shape[1] - 1)[:, None])


def next_log_probability(prefix: PrefixState, position_N: Tensor, log_NKV: Tensor) -> Tensor:
    """The log-probability (N, K, 1) of the prefix' token at these output positions."""
    return log_NKV.gather(-1, next_columns(prefix, position_N)[:, None].expand(-1, log_NKV.shape[1], -1))


def force_prefix(
    prefix: PrefixState, position_N: Tensor, next_NK1: Tensor, best_NKk: Tensor, column_NKk: Tensor
) -> tuple[Tensor, Tensor]:
    """The best words of hypotheses and their columns: in rows whose prefix is not complete, only its next token, with
    the log-probability next_NK1."""
    forced_N11 = prefix.forced_N(position_N)[:, None, None]
    only_NKk = F.pad(next_NK1, (0, best_NKk.shape[-1] - 1), value=-torch.inf)
    next_N11 = next_columns(prefix, position_N)[:, None]
    return torch.where(forced_N11, only_NKk, best_NKk), torch.where(forced_N11, next_N11, column_NKk)


def advance_branches(prefix: PrefixState, parent_NK: Tensor, column_NK: Tensor, position_N: Tensor) -> PrefixState:
    """The branches of the chosen hypotheses, which wrote the tokens of these columns at these positions."""
    width = parent_NK.shape[1]
    number_K = torch.arange(width, device=parent_NK.device)
    # A token that begins a constraint, and is written as another word too, begins one branch.
    first_NK = torch.where(column_NK[:, None] == column_NK[..., None], number_K, width).amin(-1)
    # The best first word has the highest number, which is the first in turn.
    begun_NK = (prefix.branches_N[:, None] - first_NK).clamp(min=0)
    inherited_NK = prefix.branch_NK.gather(1, parent_NK)
    return replace(prefix, branch_NK=torch.where(prefix.branching_N(position_N)[:, None], begun_NK, inherited_NK))


def best_of_branches(prefix: PrefixState, score_NM: Tensor) -> Tensor:
    """Scores of finished hypotheses, the former ones (K) and the new ones (K): in rows with branches, only the best of
    each has one; -inf otherwise."""
    branch_NM = torch.cat([prefix.final_branch_NK, prefix.branch_NK], 1)
    index_M = torch.arange(score_NM.shape[1], device=score_NM.device)
    other_N1M, own_NM1 = score_NM[:, None], score_NM[..., None]
    better_NMM = (other_N1M > own_NM1) | ((other_N1M == own_NM1) & (index_M < index_M[:, None]))
    beaten_NM = (better_NMM & (branch_NM[:, None] == branch_NM[..., None])).any(-1)
    return score_NM.masked_fill(beaten_NM & (prefix.branches_N > 0)[:, None], -torch.inf)
