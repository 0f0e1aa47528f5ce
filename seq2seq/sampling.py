"""Outputs drawn at random from a model, word by word.

Axes: B sentences, K outputs of each, L positions, N words to draw, V vocabulary.
"""

import torch
from torch import Tensor

from seq2seq.decoder import repeat
from seq2seq.memory import Memory
from seq2seq.model import Model
from seq2seq.text import BEGIN, END, PAD


@torch.no_grad()
def sample(model: Model, memory: Memory, count: int, longest_B: Tensor) -> Tensor:
    """`count` outputs of each sentence by ancestral sampling, (B, K, L): END behind each, then PAD.

    PAD and BEGIN are never drawn, as search never chooses them. An output that has `longest_B` words without an end is
    cut there. The random numbers are torch's own of the device: who wants the same outputs again seeds them.
    """
    state = repeat(model.start(memory), count)
    token_BK = torch.full((memory.rows, count), BEGIN, device=longest_B.device)
    live_BK = torch.ones_like(token_BK, dtype=torch.bool)
    words = []
    for length in range(int(longest_B.max()) + 1):
        state, readout, _ = model.step(memory, state, token_BK)
        drawn_N = draw(model.log_probabilities(readout[live_BK]))
        token_BK = torch.full_like(token_BK, PAD).masked_scatter(live_BK, drawn_N)
        token_BK = token_BK.masked_fill(live_BK & (length >= longest_B)[:, None], END)
        words.append(token_BK)
        live_BK = live_BK & (token_BK != END)
        if not live_BK.any():
            break
    return torch.stack(words, -1)


def draw(log_p_NV: Tensor) -> Tensor:
    """A word by each row's probabilities, but for PAD and BEGIN: where a number drawn from the whole falls as they are
    summed up (torch.multinomial would draw one for every word of the vocabulary)."""
    p_NV = log_p_NV.exp()
    p_NV[:, [PAD, BEGIN]] = 0
    sums_NV = p_NV.cumsum(-1)
    number_N1 = torch.rand(len(p_NV), 1, dtype=p_NV.dtype, device=p_NV.device) * sums_NV[:, -1:]
    # Rounding may lift a number to the whole itself, behind the last word.
    return torch.searchsorted(sums_NV, number_N1, right=True).squeeze(1).clamp(max=p_NV.shape[1] - 1)
