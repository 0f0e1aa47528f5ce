"""How good each of many outputs is, in ids and all at once: what minimum risk training needs of a metric.

The corpus-level scores that are reported stand beside this; these are made of tensors, since they are wanted for every
candidate of every batch. Words are compared by their ids. Axes: B sentences, K candidates of each, L and M positions.
"""

import torch
from torch import Tensor
from torch.nn import functional as F

ORDERS = 4
CANDIDATE_PAD, REFERENCE_PAD = (
    -1,
    -2,
)  # behind a candidate's end, and behind a reference's: equal to no word, nor to each other


def bleu(candidates_BKL: Tensor, lengths_BK: Tensor, references_BM: Tensor, lengths_B: Tensor) -> Tensor:
    """Smoothed BLEU of each candidate, 0 to 1, (B, K): one is added to the matches and to the number of n-grams of
    every order above the first (Lin and Och 2004). Only the first `lengths` ids are words; 0 where there are none.
    """
    candidates_BKL, references_BM = mark_padding(candidates_BKL, lengths_BK, references_BM, lengths_B)
    # same[i, j]: the n-gram that ends at i is the one that ends at j, for n = 1, then one more each time.
    repeats_BKLL = equal_repeats = (candidates_BKL[..., None] == candidates_BKL[..., None, :]).tril(-1)
    found_BKLM = equal_found = candidates_BKL[..., None] == references_BM[:, None, None]
    logs_BK = torch.zeros(lengths_BK.shape, dtype=torch.float64, device=lengths_BK.device)
    for order in range(1, ORDERS + 1):
        # An n-gram counts as often as the reference has it: where it stood less often before.
        matches_BK = (repeats_BKLL.sum(-1) < found_BKLM.sum(-1)).sum(-1).double()
        grams_BK = (lengths_BK - order + 1).clamp(min=0).double()
        if order > 1:
            matches_BK, grams_BK = matches_BK + 1, grams_BK + 1
        logs_BK += torch.log(matches_BK / grams_BK.clamp(min=1)) / ORDERS
        repeats_BKLL = F.pad(repeats_BKLL[..., :-1, :-1], (1, 0, 1, 0)) & equal_repeats
        found_BKLM = F.pad(found_BKLM[..., :-1, :-1], (1, 0, 1, 0)) & equal_found
    brevity_BK = (1 - lengths_B[:, None] / lengths_BK.clamp(min=1).double()).clamp(max=0)
    return torch.exp(logs_BK + brevity_BK)


def rouge_l(candidates_BKL: Tensor, lengths_BK: Tensor, references_BM: Tensor, lengths_B: Tensor) -> Tensor:
    """ROUGE-L's F1 of each candidate, 0 to 1, (B, K): the longest common subsequence's share of both (Lin 2004). Only
    the first `lengths` ids are words; 0 where there are none.
    """
    candidates_BKL, references_BM = mark_padding(candidates_BKL, lengths_BK, references_BM, lengths_B)
    found_BKLM = candidates_BKL[..., None] == references_BM[:, None, None]
    # longest[j]: of the words so far and the reference's first j; a word may lengthen what came before j.
    longest_BKM = F.pad(torch.zeros_like(found_BKLM[:, :, 0], dtype=torch.long), (1, 0))
    for found_BKM in found_BKLM.unbind(2):
        lengthened_BKM = torch.maximum(longest_BKM[..., 1:], longest_BKM[..., :-1] + found_BKM)
        longest_BKM = F.pad(lengthened_BKM.cummax(-1).values, (1, 0))
    return 2 * longest_BKM[..., -1].double() / (lengths_BK + lengths_B[:, None]).clamp(min=1)


def mark_padding(
    candidates_BKL: Tensor, lengths_BK: Tensor, references_BM: Tensor, lengths_B: Tensor
) -> tuple[Tensor, Tensor]:
    """Candidates and references with what is no word marked as such."""
    position_L = torch.arange(candidates_BKL.shape[-1], device=lengths_BK.device)
    position_M = torch.arange(references_BM.shape[-1], device=lengths_B.device)
    return (
        candidates_BKL.masked_fill(position_L >= lengths_BK[..., None], CANDIDATE_PAD),
        references_BM.masked_fill(position_M >= lengths_B[:, None], REFERENCE_PAD),
    )
