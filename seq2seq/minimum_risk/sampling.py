"""Ancestral sampling of outputs from a model.

Axes: B sentences, K outputs of each, L positions, N words to draw, V vocabulary.
"""

import torch
from torch import Tensor

from seq2seq.layers.state import Memory
from seq2seq.losses.cross_entropy import BLOCK
from seq2seq.model.decoder import repeat
from seq2seq.model.model import Model
from seq2seq.text import BEGIN, END, PAD


@torch.no_grad()
def sample(model: Model, memory: Memory, count: int, max_lengths_B: Tensor) -> Tensor:
    """Samples `count` outputs of each sentence, (B, K, L): each ends with END, followed by PAD.

    PAD and BEGIN are never drawn, as in search. An output without END is cut after `max_lengths_B` words. Seed the
    device's torch generator to reproduce samples.
    """
    state = repeat(model.start(memory), count)
    token_BK = torch.full((memory.rows, count), BEGIN, device=max_lengths_B.device)
    live_BK = torch.ones_like(token_BK, dtype=torch.bool)
    words = []
    for length in range(int(max_lengths_B.max()) + 1):
        state, readout, _ = model.step(memory, state, token_BK)
        drawn_N = draw(model.logits(readout[live_BK]))
        token_BK = torch.full_like(token_BK, PAD).masked_scatter(live_BK, drawn_N)
        token_BK = token_BK.masked_fill(live_BK & (length >= max_lengths_B)[:, None], END)
        words.append(token_BK)
        live_BK = live_BK & (token_BK != END)
        if not live_BK.any():
            break
    return torch.stack(words, -1)


def draw(logits_NV: Tensor) -> Tensor:
    """Samples one token per row by inverse transform sampling, (N,); never PAD or BEGIN.

    Faster than torch.multinomial, which draws one random number per word of the vocabulary
    (benchmarks/training/minimum_risk.py).
    """
    return torch.cat([draw_token_block(block_NV) for block_NV in logits_NV.split(max(1, BLOCK // logits_NV.shape[1]))])


def draw_token_block(logits_NV: Tensor) -> Tensor:
    """`draw` for a block of rows that fits a core's cache."""
    logits_NV = logits_NV.to(torch.promote_types(logits_NV.dtype, torch.float32), copy=True)
    logits_NV[:, [PAD, BEGIN]] = -torch.inf
    logits_NV -= logits_NV.amax(1, keepdim=True)
    sums_NV = logits_NV.exp_().cumsum(1)
    number_N1 = torch.rand(len(sums_NV), 1, dtype=sums_NV.dtype, device=sums_NV.device) * sums_NV[:, -1:]
    # Rounding can make the number equal to the total, which is past the last word.
    return torch.searchsorted(sums_NV, number_N1, right=True).squeeze(1).clamp(max=sums_NV.shape[1] - 1)
