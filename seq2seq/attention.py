"""Attention: how a decoder looks at one view of a source.

A tensor's name ends in its axes. B sentences, K hypotheses of each, T source positions, A attention size,
H query size, D value size: `keys_BTA` is (B, T, A).
"""

import torch
from torch import Tensor, nn

from seq2seq.memory import View
from seq2seq.recurrence import Moment, Recurrent


class AdditiveAttention(nn.Module):
    """Additive attention (Bahdanau et al. 2015; Wu et al. 2018, equations 1-4).

        e_ij = v . tanh(W s_i + U h_j)      alpha_i = softmax(e_i)      c_i = sum_j alpha_ij h_j

    U h_j does not change while a sentence is decoded: `keys` computes it once, and no hypothesis has a copy of its
    own.
    """

    def __init__(self, query_size: int, value_size: int, size: int) -> None:
        super().__init__()
        self.query = Recurrent(query_size, size)
        self.key = nn.Linear(value_size, size)
        self.energy = nn.Linear(size, 1, bias=False)

    def keys(self, values_BTD: Tensor) -> Tensor:
        """U h_j for every source position, (B, T, A)."""
        keys_BTA: Tensor = self.key(values_BTD)
        return keys_BTA

    def forward(self, at: Moment, query_BKH: Tensor, view: View) -> tuple[Tensor, Tensor]:
        """Look once: contexts (B, K, D) and weights (B, K, T). Padding gets a weight of exactly 0."""
        query_BK1A = at(self.query, query_BKH)[:, :, None]
        energy_BKT = self.energy(torch.tanh(query_BK1A + view.keys_BTA[:, None])).squeeze(-1)
        energy_BKT = energy_BKT.masked_fill(view.padding_BT[:, None], -torch.inf)
        weights_BKT = torch.softmax(energy_BKT, dim=-1, dtype=torch.promote_types(energy_BKT.dtype, torch.float32))
        weights_BKT = weights_BKT.to(view.values_BTD.dtype)
        return weights_BKT @ view.values_BTD, weights_BKT
