"""Sentence-level BLEU and ROUGE-L of many candidates at once, as tensor operations on token ids.

Minimum risk training computes these for every candidate of every batch; reported corpus-level scores come from the
other modules of this package. Axes: B sentences, K candidates of each, L candidate and M reference positions.
"""

import torch
from torch import Tensor
from torch.nn import functional as F

ORDERS = 4
CANDIDATE_PAD, REFERENCE_PAD = (
    -1,
    -2,
)  # padding values of candidates and of references: equal to no token id and not to each other


def bleu(candidates_BKL: Tensor, lengths_BK: Tensor, references_BM: Tensor, lengths_B: Tensor) -> Tensor:
    """Smoothed BLEU of each candidate, 0 to 1, (B, K).

    For every order above 1, one is added to the matches and to the number of n-grams (Lin and Och 2004). Only the
    first `lengths` ids are words; an empty candidate has 0.
    """
    candidates_BKL, references_BM = mark_padding(candidates_BKL, lengths_BK, references_BM, lengths_B)
    # [..., i, j] is True where the n-grams that end at i and j are equal; n grows from 1 by one in each pass.
    repeated_BKLL = repeated_words_BKLL = (candidates_BKL[..., None] == candidates_BKL[..., None, :]).tril(-1)
    shared_BKLM = shared_words_BKLM = candidates_BKL[..., None] == references_BM[:, None, None]
    logs_BK = torch.zeros(lengths_BK.shape, dtype=torch.float64, device=lengths_BK.device)
    for order in range(1, ORDERS + 1):
        # Clipped counts: an n-gram matches while it has occurred less often before than in the reference.
        matches_BK = (repeated_BKLL.sum(-1) < shared_BKLM.sum(-1)).sum(-1).double()
        ngrams_BK = (lengths_BK - order + 1).clamp(min=0).double()
        if order > 1:
            matches_BK, ngrams_BK = matches_BK + 1, ngrams_BK + 1
        logs_BK += torch.log(matches_BK / ngrams_BK.clamp(min=1)) / ORDERS
        repeated_BKLL = F.pad(repeated_BKLL[..., :-1, :-1], (1, 0, 1, 0)) & repeated_words_BKLL
        shared_BKLM = F.pad(shared_BKLM[..., :-1, :-1], (1, 0, 1, 0)) & shared_words_BKLM
    brevity_BK = (1 - lengths_B[:, None] / lengths_BK.clamp(min=1).double()).clamp(max=0)
    return torch.exp(logs_BK + brevity_BK)


def rouge_l(candidates_BKL: Tensor, lengths_BK: Tensor, references_BM: Tensor, lengths_B: Tensor) -> Tensor:
    """ROUGE-L F1 of each candidate, 0 to 1, (B, K), from the longest common subsequence (Lin 2004).

    Only the first `lengths` ids are words; an empty candidate has 0.
    """
    candidates_BKL, references_BM = mark_padding(candidates_BKL, lengths_BK, references_BM, lengths_B)
    equal_BKLM = candidates_BKL[..., None] == references_BM[:, None, None]
    # longest[j]: length of the longest common subsequence of the words so far and the reference's first j words.
    longest_BKM = F.pad(torch.zeros_like(equal_BKLM[:, :, 0], dtype=torch.long), (1, 0))
    for equal_BKM in equal_BKLM.unbind(2):
        lengthened_BKM = torch.maximum(longest_BKM[..., 1:], longest_BKM[..., :-1] + equal_BKM)
        longest_BKM = F.pad(lengthened_BKM.cummax(-1).values, (1, 0))
    return 2 * longest_BKM[..., -1].double() / (lengths_BK + lengths_B[:, None]).clamp(min=1)


def mark_padding(
    candidates_BKL: Tensor, lengths_BK: Tensor, references_BM: Tensor, lengths_B: Tensor
) -> tuple[Tensor, Tensor]:
    """Candidates and references with their padding positions set to CANDIDATE_PAD and REFERENCE_PAD."""
    position_L = torch.arange(candidates_BKL.shape[-1], device=lengths_BK.device)
    position_M = torch.arange(references_BM.shape[-1], device=lengths_B.device)
    return (
        candidates_BKL.masked_fill(position_L >= lengths_BK[..., None], CANDIDATE_PAD),
        references_BM.masked_fill(position_M >= lengths_B[:, None], REFERENCE_PAD),
    )
