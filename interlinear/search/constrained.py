"""The choice of continuations in a constrained search: dynamic beam allocation (Post and Vilar 2018), in tensors for
all constrained rows of a table together (Hu et al. 2019), with attention as the place of a constraint (Hasler et al.
2018).

A hypothesis of a constrained sentence goes on with any word, or with a constraint's token. A constraint may begin where
attention is on the words that it stands for, must begin where most of it is, and is then written to its end. The beam
is divided among banks: hypotheses with the same number of written constraint tokens. A hypothesis ends only when all of
them are written. Prefixes and branches: `prefix.py`.

Axes: N constrained rows of the table, K hypotheses of each, C constraint tokens, V words that may come next, k the best
words of a hypothesis, T source positions, M candidates of a row.
"""

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from interlinear.search.constraints import ConstraintState
from interlinear.search.prefix import advance_branches

# Attention on a constraint's source words: from ON_SOURCE it may begin, and its first token is not written otherwise;
# from DUE it must, since another word would say them a second time. By the BLEU of the rest of a sentence beside its
# term, of 0.1 to 0.5 and 0.2 to 0.8; with attention spread over ten words no constraint is ever due.
ON_SOURCE = 0.1
DUE = 0.4

LAST = 2**40  # the order of candidates without a score


@dataclass(frozen=True)
class ConstrainedStep:
    """What constraints allow in one step.

    token_NKC: log-probability of each constraint token; -inf where it may not be written now. free_NK: True where a
    hypothesis may go on with other words. complete_NK: True where it may end.
    """

    token_NKC: Tensor
    free_NK: Tensor
    complete_NK: Tensor


def constrain(
    constraints: ConstraintState,
    token_NKC: Tensor,
    attention_NKC: Tensor,
    late_NK: Tensor,
    position_N: Tensor,
    remaining_N: Tensor,
) -> ConstrainedStep:
    """What constraints allow.

    token_NKC: the log-probabilities of their tokens, wherever they may be written. attention_NKC: as `attention_on`.
    late_NK: True where a hypothesis would end. position_N: the number of words before. remaining_N: the number of words
    that may still be written. While a prefix is written, nothing else is allowed (`force_prefix`).
    """
    following_NKC = constraints.following_NKC
    begun_NK = following_NKC.any(-1)
    # Where attention never comes: when the hypothesis would end, and when no word more than the constraints fits.
    missing_NK = constraints.missing_NK
    forced_NK = (missing_NK > 0) & (missing_NK >= remaining_N[:, None])
    anytime_NKC = constraints.anywhere_NC[:, None] | (forced_NK | late_NK)[..., None]
    first_NKC = (constraints.first_NC & constraints.real_NC)[:, None]
    placed_NKC = (attention_NKC >= ON_SOURCE) | anytime_NKC
    beginning_NKC = first_NKC & placed_NKC & ~constraints.met_NKC & ~begun_NK[..., None]
    allowed_NKC = following_NKC | beginning_NKC
    # Where attention is on the words of a constraint that is missing, another word would say them a second time.
    due_NK = (beginning_NKC & (attention_NKC >= DUE)).any(-1)
    free_NK, complete_NK = ~(begun_NK | forced_NK | due_NK), missing_NK == 0
    if constraints.prefix is not None:
        in_prefix_N1 = constraints.prefix.forced_N(position_N)[:, None]
        free_NK, complete_NK = free_NK | in_prefix_N1, complete_NK & ~in_prefix_N1
        allowed_NKC = allowed_NKC & ~in_prefix_N1[..., None]
    return ConstrainedStep(token_NKC.masked_fill(~allowed_NKC, -torch.inf), free_NK, complete_NK)


def attention_on(constraints: ConstraintState, attention_NKT: Tensor) -> Tensor:
    """The attention of each hypothesis on the source positions of each constraint token, (N, K, C)."""
    position_T = torch.arange(attention_NKT.shape[-1], device=attention_NKT.device)[:, None]
    inside_NTC = (position_T >= constraints.start_NC[:, None]) & (position_T < constraints.end_NC[:, None])
    return attention_NKT @ inside_NTC.to(attention_NKT.dtype)


def exclude_repetitions(
    constraints: ConstraintState, log_NKV: Tensor, attention_NKC: Tensor, position_N: Tensor
) -> Tensor:
    """Sets the log-probabilities of words to -inf that would say a constraint a second time, or lengthen its last word
    or that of a prefix; returns the same tensor.

    While attention is on a constraint's source words, and directly behind it, its first token is not written as another
    word: it begins the constraint, or is not written.
    """
    behind_NK = (constraints.latest_NK > 0) & ~constraints.following_NKC.any(-1)
    latest_NK = constraints.index_NC.gather(1, (constraints.latest_NK - 1).clamp(min=0))
    repeated_NKC = behind_NK[..., None] & (constraints.index_NC[:, None] == latest_NK[..., None])
    beginnings_NC = constraints.first_NC & constraints.real_NC & ~constraints.anywhere_NC
    excluded_NKC = beginnings_NC[:, None] & ((attention_NKC >= ON_SOURCE) | repeated_NKC)
    # Added, since several tokens may have one column; padding adds to the column of PAD, which is -inf already.
    penalty_NKC = torch.zeros_like(attention_NKC, dtype=log_NKV.dtype).masked_fill(excluded_NKC, -torch.inf)
    log_NKV.scatter_add_(-1, constraints.column_NC[:, None].expand_as(penalty_NKC), penalty_NKC)
    if constraints.joined_NV.shape[1]:
        new_word_NK = behind_NK
        if (prefix := constraints.prefix) is not None:
            new_word_NK = new_word_NK | (prefix.new_word_N & (position_N == prefix.length_N))[:, None]
        log_NKV.masked_fill_(new_word_NK[..., None] & constraints.joined_NV[:, None], -torch.inf)
    return log_NKV


def allocate(
    constraints: ConstraintState, word_NKk: Tensor, token_NKC: Tensor, end_NK: Tensor, beam_N: Tensor
) -> tuple[Tensor, Tensor]:
    """The K candidates of each row that go on, as indices (N, K) into (K, k + C) flattened, best first; and which
    hypotheses end, (N, K).

    word_NKk, token_NKC, end_NK: scores of hypotheses with another word, a constraint token and END behind them. The
    beam is filled with the best candidate of each bank, those with the most constraint tokens first, then with the
    second best of each, and so on: banks that have few candidates leave their share to the others. Branches share it in
    the same way, and the banks of a branch have its share.
    """
    width = word_NKk.shape[1]
    bank_NK1 = constraints.met_count_NK[..., None]
    score_NM = with_ends(word_NKk, token_NKC, end_NK)
    bank_NM = with_ends(bank_NK1.expand_as(word_NKk), (bank_NK1 + 1).expand_as(token_NKC), bank_NK1[..., 0])
    if constraints.prefix is None:
        order_NM = bank_order(score_NM, bank_NM)
    else:
        branch_NK = constraints.prefix.branch_NK
        branch_NK1, banks = branch_NK[..., None], token_NKC.shape[2] + 1
        branch_NM = with_ends(branch_NK1.expand_as(word_NKk), branch_NK1.expand_as(token_NKC), branch_NK)
        order_NM = bank_order(score_NM, branch_NM * banks + bank_NM)
        order_NM = bank_order(torch.where(order_NM < LAST, -order_NM.double(), -torch.inf), branch_NM)
    last_N1 = order_NM.topk(width, 1, largest=False).values.gather(1, beam_N[:, None] - 1)
    ends_NK = (order_NM[:, -width:] <= last_N1) & (end_NK > -torch.inf)
    return order_NM[:, :-width].topk(width, 1, largest=False).indices, ends_NK


def with_ends(word_NKk: Tensor, token_NKC: Tensor, end_NK: Tensor) -> Tensor:
    """Values of all candidates, (N, M): words and constraint tokens of each hypothesis, then the ends of all."""
    return torch.cat([torch.cat([word_NKk, token_NKC], -1).flatten(1), end_NK], 1)


def bank_order(score_NM: Tensor, bank_NM: Tensor) -> Tensor:
    """A number for each candidate, by which they are taken, the lowest first: by rank in its bank, then by bank, the
    higher ones first. Candidates without a score come last."""
    by_score_NM = score_NM.argsort(dim=1, descending=True, stable=True)
    by_bank_NM = bank_NM.gather(1, by_score_NM).argsort(dim=1, stable=True)
    index_NM = by_score_NM.gather(1, by_bank_NM)  # by bank, then by score
    sorted_NM = bank_NM.gather(1, index_NM)
    position_M = torch.arange(score_NM.shape[1], device=score_NM.device)
    begins_NM = torch.cat([torch.ones_like(sorted_NM[:, :1]), sorted_NM.diff(dim=1)], 1) != 0
    begin_NM = torch.where(begins_NM, position_M, 0).cummax(1).values
    rank_NM = torch.zeros_like(index_NM).scatter(1, index_NM, position_M - begin_NM)
    banks = bank_NM.amax() + 1
    return torch.where(score_NM > -torch.inf, rank_NM * banks + (banks - 1 - bank_NM), LAST)


def advance_constraints(
    constraints: ConstraintState,
    parent_NK: Tensor,
    column_NK: Tensor,
    token_NK: Tensor,
    position_N: Tensor,
    position_N1L: Tensor,
) -> ConstraintState:
    """The progress of the chosen hypotheses.

    column_NK: the columns of their words. token_NK: 1 + the constraint token that was written, 0 for another word.
    position_N: the output position of this step. position_N1L: True there, False everywhere in a finished row.
    """
    prefix = constraints.prefix
    tokens = constraints.met_NKC.shape[-1]
    met_NKC = constraints.met_NKC.gather(1, parent_NK[..., None].expand(-1, -1, tokens))
    number_C = torch.arange(1, tokens + 1, device=token_NK.device)
    return replace(
        constraints,
        met_NKC=met_NKC | (number_C == token_NK[..., None]),
        latest_NK=token_NK,
        written_NKL=torch.where(position_N1L, token_NK[..., None], constraints.written_NKL),
        prefix=prefix and advance_branches(prefix, parent_NK, column_NK, position_N),
    )
