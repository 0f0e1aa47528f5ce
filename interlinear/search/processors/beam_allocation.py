"""Dynamic beam allocation (Post and Vilar 2018), vectorised over all rows of a table (Hu et al. 2019): the beam is
divided among banks, hypotheses with the same number of written constraint tokens.

Axes: N rows of the table, K hypotheses of each, C constraint tokens, k the best tokens of a hypothesis, M continuations
and ends of a row.
"""

import torch
from torch import Tensor

LAST = 2**40  # the order of continuations without a score


def allocate(
    bank_NK: Tensor, branch_NK: Tensor | None, word_NKk: Tensor, token_NKC: Tensor, end_NK: Tensor, beam_N: Tensor
) -> tuple[Tensor, Tensor]:
    """The K continuations of each row that stay in the beam, as indices (N, K) into (K, k + C) flattened, best first;
    and which hypotheses end, (N, K).

    bank_NK: the number of constraint tokens that each hypothesis has written. word_NKk, token_NKC, end_NK: scores of
    hypotheses followed by another token, by a constraint token, and by END. The beam is filled with the best
    continuation of each bank, banks with the most constraint tokens first, then with the second best of each bank, and
    so on: banks with few continuations leave their share to the others. Branches share the beam in the same way, and
    the banks of a branch share the branch's part.
    """
    width = word_NKk.shape[1]
    bank_NK1 = bank_NK[..., None]
    score_NM = with_ends(word_NKk, token_NKC, end_NK)
    bank_NM = with_ends(bank_NK1.expand_as(word_NKk), (bank_NK1 + 1).expand_as(token_NKC), bank_NK)
    if branch_NK is None:
        order_NM = bank_order(score_NM, bank_NM)
    else:
        branch_NK1, banks = branch_NK[..., None], token_NKC.shape[2] + 1
        branch_NM = with_ends(branch_NK1.expand_as(word_NKk), branch_NK1.expand_as(token_NKC), branch_NK)
        order_NM = bank_order(score_NM, branch_NM * banks + bank_NM)
        order_NM = bank_order(torch.where(order_NM < LAST, -order_NM.double(), -torch.inf), branch_NM)
    last_N1 = order_NM.topk(width, 1, largest=False).values.gather(1, beam_N[:, None] - 1)
    ends_NK = (order_NM[:, -width:] <= last_N1) & (end_NK > -torch.inf)
    return order_NM[:, :-width].topk(width, 1, largest=False).indices, ends_NK


def with_ends(word_NKk: Tensor, token_NKC: Tensor, end_NK: Tensor) -> Tensor:
    """Values of all continuations and ends, (N, M): tokens and constraint tokens of each hypothesis, then the ends of
    all hypotheses."""
    return torch.cat([torch.cat([word_NKk, token_NKC], -1).flatten(1), end_NK], 1)


def bank_order(score_NM: Tensor, bank_NM: Tensor) -> Tensor:
    """A sort key for each continuation and end, the lowest is taken first: rank in its bank, then bank, the higher ones
    first. Those without a score come last."""
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
