"""The best tokens of hypotheses, for the step of a search and for processors that choose.

Axes: N sentences (rows), K hypotheses of each, C tokens that may come next, k the best of them.
"""

import torch
from torch import Tensor

BLOCK = 64  # columns


def best_columns(log_NKC: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """The k largest values of each row and their columns, (N, K, k), as `topk`.

    On a CPU `topk` reads a row value by value. The k blocks with the largest maxima contain the k largest values, and
    maxima are computed by vector instructions.
    """
    blocks = log_NKC.shape[-1] // BLOCK
    if blocks < 4 * k or log_NKC.device.type != "cpu":
        best_NKk, column_NKk = log_NKC.topk(k, -1)
        return best_NKk, column_NKk
    block_NKCB = log_NKC[..., : blocks * BLOCK].unflatten(-1, (blocks, BLOCK))
    chosen_NKk = block_NKCB.amax(-1).topk(k, -1).indices
    column_B = torch.arange(BLOCK, device=log_NKC.device)
    candidate_NKC = (chosen_NKk[..., None] * BLOCK + column_B).flatten(-2)  # of the chosen blocks, then of the rest
    rest_C = torch.arange(blocks * BLOCK, log_NKC.shape[-1], device=log_NKC.device)
    candidate_NKC = torch.cat([candidate_NKC, rest_C.expand(*log_NKC.shape[:-1], -1)], -1)
    best_NKk, position_NKk = log_NKC.gather(-1, candidate_NKC).topk(k, -1)
    return best_NKk, candidate_NKC.gather(-1, position_NKk)
