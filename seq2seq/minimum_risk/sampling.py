"""Ancestral sampling of outputs from a model.

Axes: B sentences, K outputs of each, L positions, N words to draw, V vocabulary.
"""

from collections.abc import Sequence

import torch
from torch import Tensor

from seq2seq.layers.state import Memory, State
from seq2seq.losses.cross_entropy import chunk_rows
from seq2seq.model.decoder import repeat
from seq2seq.model.model import Model
from seq2seq.text import BEGIN, END, PAD

# Steps between two looks, on a GPU, at which outputs have ended. Each makes the host wait; on a CPU it costs nothing.
HOST_READ_STEPS = 8


@torch.no_grad()
def sample(model: Model, memory: Memory, count: int, max_lengths: Sequence[int]) -> Tensor:
    """Samples `count` outputs of each sentence, (B, K, L): each ends with END, followed by PAD.

    PAD and BEGIN are never drawn, as in search. An output of sentence b without END is cut after `max_lengths[b]`
    words. Seed the device's torch generator to reproduce samples.
    """
    state = repeat(model.start(memory), count)
    device = model.output.weight.device
    limits_B = torch.tensor(max_lengths).to(device, non_blocking=True)
    token_BK = torch.full((memory.rows, count), BEGIN, device=device)
    live_BK = torch.ones_like(token_BK, dtype=torch.bool)
    interval = 1 if device.type == "cpu" else HOST_READ_STEPS
    words = []
    for length in range(max(max_lengths) + 1):
        if length % interval == 0:
            rows_N = live_BK.flatten().nonzero().squeeze(1)  # the host waits for the device here
            if not len(rows_N):
                break
        state, token_BK, live_BK = sample_step(model, memory, state, token_BK, live_BK, rows_N, length >= limits_B)
        words.append(token_BK)
    return torch.stack(words, -1)


def sample_step(
    model: Model, memory: Memory, state: State, token_BK: Tensor, live_BK: Tensor, rows_N: Tensor, last_B: Tensor
) -> tuple[State, Tensor, Tensor]:
    """The next state, the next token of every output, and which outputs go on after it.

    `rows_N`: the outputs, as indices of the flattened (B, K), for which words are drawn. They include all that are
    live; the tokens of the others are PAD. `last_B`: sentences whose live outputs end here.
    """
    state, readout_BKR, _ = model.step(memory, state, token_BK)
    drawn_N = draw(model.logits(readout_BKR.flatten(0, 1).index_select(0, rows_N)))
    drawn_BK = torch.full_like(token_BK, PAD).flatten().index_copy(0, rows_N, drawn_N).view_as(token_BK)
    token_BK = drawn_BK.masked_fill(~live_BK, PAD).masked_fill(live_BK & last_B[:, None], END)
    return state, token_BK, live_BK & (token_BK != END)


def draw(logits_NV: Tensor) -> Tensor:
    """Samples one token per row by inverse transform sampling, (N,); never PAD or BEGIN.

    Faster than torch.multinomial, which draws one random number per word of the vocabulary
    (benchmarks/training/minimum_risk.py).
    """
    _, rows = chunk_rows(logits_NV.shape[1], logits_NV.device)
    return torch.cat([draw_token_block(block_NV) for block_NV in logits_NV.split(rows)])


def draw_token_block(logits_NV: Tensor) -> Tensor:
    """`draw` for a block of rows."""
    logits_NV = logits_NV.to(torch.promote_types(logits_NV.dtype, torch.float32), copy=True)
    for token in (PAD, BEGIN):
        logits_NV[:, token] = -torch.inf
    logits_NV -= logits_NV.amax(1, keepdim=True)
    sums_NV = logits_NV.exp_().cumsum(1)
    number_N1 = torch.rand(len(sums_NV), 1, dtype=sums_NV.dtype, device=sums_NV.device) * sums_NV[:, -1:]
    # Rounding can make the number equal to the total, which is past the last word.
    return torch.searchsorted(sums_NV, number_N1, right=True).squeeze(1).clamp(max=sums_NV.shape[1] - 1)
