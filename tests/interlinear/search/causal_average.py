"""A model of another kind than ours: its state grows with the output, and it has no recurrence."""

from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from interlinear.batch import Batch
from interlinear.models.attention_reading import READINGS, AttentionReading
from interlinear.models.attention_weights import AttentionWeights
from interlinear.models.memory import Memory, View
from interlinear.models.protocol import Step, Unrolled
from interlinear.models.state import WRITTEN, State
from interlinear.text import BEGIN


class CausalAverage(nn.Module):
    """Attends to the source's words with the mean of the embeddings written so far, all of which it keeps.

    Axes: B sentences, K hypotheses, L target positions, T source positions, E embedding.
    """

    def __init__(self, vocabulary: int, size: int = 6) -> None:
        super().__init__()
        self.source, self.target = nn.Embedding(vocabulary, size), nn.Embedding(vocabulary, size)
        self.output = nn.Linear(2 * size, vocabulary)
        self.target_vocabulary, self.readout_size = vocabulary, 2 * size
        self.attention_kinds = ["attention"]
        self.readings: Sequence[AttentionReading] = [READINGS["attention"]]

    def encode(self, batch: Batch) -> Memory:
        text = batch.text("source")
        words_BTE = self.source(text.ids_BT)
        return Memory({"words": View("source", words_BTE, words_BTE, words_BTE[..., :0], text.padding_BT)})

    def start(self, memory: Memory) -> State:
        empty = memory.first.values_BTD[:, None, :0]
        count = torch.zeros(memory.rows, 1, dtype=torch.long, device=empty.device)
        return State({"embedded": empty, "count": count}, {"embedded": WRITTEN})

    def step(self, memory: Memory, state: State, token_BK: Tensor) -> Step:
        embedded_BKLE, count_BK = state.leaves["embedded"], state.leaves["count"]
        here_L = torch.arange(embedded_BKLE.shape[2], device=count_BK.device)
        here_BKL1 = (here_L == count_BK[..., None])[..., None]
        embedded_BKLE = torch.where(here_BKL1, self.target(token_BK)[:, :, None], embedded_BKLE)
        mean_BKE = embedded_BKLE.sum(2) / (count_BK + 1)[..., None]
        energies_BKT = mean_BKE @ memory.first.keys_BTA.mT
        weights_BKT = energies_BKT.masked_fill(memory.first.masked_BT[:, None], -torch.inf).softmax(-1)
        readout_BKR = torch.cat([mean_BKE, weights_BKT @ memory.first.values_BTD], -1)
        after = State({"embedded": embedded_BKLE, "count": count_BK + 1}, state.axes)
        return Step(after, readout_BKR, AttentionWeights({("source", "attention"): weights_BKT}))

    def log_probabilities(self, readout: Tensor) -> Tensor:
        return torch.log_softmax(self.output(readout), -1)

    def next_words(self, memory: Memory, readout_BKR: Tensor) -> tuple[Tensor, Tensor]:
        words_V = torch.arange(self.target_vocabulary, device=readout_BKR.device)
        return self.log_probabilities(readout_BKR), words_V.expand(readout_BKR.shape[0], -1)

    def unroll(self, memory: Memory, target_BKL: Tensor, attention: bool = True) -> Unrolled:
        state = self.start(memory).resize({WRITTEN: target_BKL.shape[2]}).repeat(target_BKL.shape[1])
        readouts, weights = [], []
        for token_BK in F.pad(target_BKL, (1, -1), value=BEGIN).unbind(2):
            state, readout_BKR, step_weights = self.step(memory, state, token_BK)
            readouts.append(readout_BKR)
            weights.append(step_weights)
        return Unrolled(torch.stack(readouts, 2), AttentionWeights.stack(weights))

    def forced_attention(
        self, memory: Memory, target_BKL: Tensor, reading: AttentionReading | None = None
    ) -> AttentionWeights:
        return self.unroll(memory, target_BKL).attention_weights

    def with_explanation_weights(
        self, memory: Memory, readouts_BKLR: Tensor, attention_weights: AttentionWeights
    ) -> AttentionWeights:
        return attention_weights
