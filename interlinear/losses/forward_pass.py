"""One forward pass over a training batch, from which all loss terms are computed, and the loss of words.

Axes: B sentences, L target positions, N target positions of all sentences, R readout.
"""

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional as F

from interlinear.batch import Batch, target_lengths
from interlinear.devices import to_device
from interlinear.losses.cross_entropy import chunked_cross_entropy
from interlinear.losses.loss import Loss
from interlinear.models.attention_weights import AttentionWeights
from interlinear.models.memory import Memory, pad_or_trim
from interlinear.models.model import Model
from interlinear.text import PAD


@dataclass(frozen=True)
class ForwardPass:
    """A model's outputs for a batch with teacher forcing.

    batch: without the sources that source dropout removed. target_BL: the batch's, with the alignment module padded
    with <null> (PAD) to the longest source. readouts_BLR: of every position, after dropout. attention_weights: (B, L,
    ...), where asked for. lengths_B: numbers of target tokens (END included), on the host where the batch has them
    there.
    """

    model: Model
    batch: Batch
    memory: Memory
    target_BL: Tensor
    readouts_BLR: Tensor
    attention_weights: AttentionWeights
    lengths_B: Tensor

    @classmethod
    def of(cls, model: Model, batch: Batch, attention: bool) -> "ForwardPass":
        """Runs the model, with dropout in training."""
        target_BL = batch.target_BL
        assert target_BL is not None
        lengths_B = target_lengths(target_BL) if batch.target_lengths is None else torch.tensor(batch.target_lengths)
        if model.alignment is not None:
            sources = batch.text(model.config.first_text).ids_BT.shape[1]
            target_BL = pad_or_trim(target_BL, 1, max(target_BL.shape[1], sources), PAD)
        batch = model.with_source_dropout(batch)
        memory = model.encode_present(batch)
        readouts_BKLR, weights = model.unroll(memory, target_BL[:, None], attention)
        readouts_BLR = F.dropout(readouts_BKLR[:, 0], model.output_dropout, model.training)
        return cls(model, batch, memory, target_BL, readouts_BLR, weights.map(lambda tensor: tensor[:, 0]), lengths_B)

    @property
    def width(self) -> int:
        """Number of target positions without the <null> padding."""
        assert self.batch.target_BL is not None
        return self.batch.target_BL.shape[1]

    @property
    def on_host(self) -> bool:
        """Whether the numbers of target tokens are known on the host."""
        return self.batch.target_lengths is not None

    def word_loss(self, first_B: Tensor, last_B: Tensor, width: int, smoothing: float) -> Loss:
        """Cross-entropy of each row's positions first <= l < last <= width.

        Where these positions are known on the host, only their logits are computed; otherwise the logits of all
        positions, with weight 0 for the others.
        """
        output = self.model.output
        position_L = torch.arange(width, device=first_B.device)
        counted_N = ((position_L >= first_B[:, None]) & (position_L < last_B[:, None])).flatten()
        readouts_NR, targets_N = self.readouts_BLR[:, :width].flatten(0, 1), self.target_BL[:, :width].flatten()
        if not self.on_host:
            return chunked_cross_entropy(readouts_NR, output.weight, output.bias, targets_N, smoothing, counted_N)
        (chosen_N,) = to_device([counted_N.nonzero().squeeze(1)], targets_N.device)
        readouts_NR, targets_N = readouts_NR.index_select(0, chosen_N), targets_N.index_select(0, chosen_N)
        return chunked_cross_entropy(readouts_NR, output.weight, output.bias, targets_N, smoothing)
