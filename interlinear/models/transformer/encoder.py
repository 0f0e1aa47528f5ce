"""The encoder of a Transformer (Vaswani et al. 2017, section 3.1).

Axes: B sentences, T source positions, D size of a layer, S summary.
"""

import torch
from torch import Tensor, nn

from interlinear.batch import TextInput
from interlinear.models.layers.dropout import drop_words
from interlinear.models.layers.step_linear import product_dtype
from interlinear.models.protocol import EncoderOutput, masked_mean
from interlinear.models.transformer.attention import SelfAttention
from interlinear.models.transformer.layers import (
    FeedForward,
    LayerConfig,
    Residual,
    Top,
    skip_layer,
    with_positions,
)  # fmt: skip
from interlinear.text import PAD


class EncoderLayer(nn.Module):
    """Self-attention to all positions of the source, then a feed-forward layer."""

    def __init__(self, config: LayerConfig) -> None:
        super().__init__()
        self.residual, self.attention = Residual(config), SelfAttention(config)
        self.feedforward = FeedForward(config)
        self.layer_drop = config.layer_drop

    def forward(self, x_BTD: Tensor, masked_B11T: Tensor) -> Tensor:
        """(B, T, D) -> (B, T, D)."""
        attended_BTD = self.attention(self.residual.enter(x_BTD), masked_B11T)
        after_BTD = self.feedforward(self.residual.leave(x_BTD, attended_BTD))
        return skip_layer(x_BTD, after_BTD, self.layer_drop, self.training)


class TransformerEncoder(nn.Module):
    """Word embeddings, positions, and layers of self-attention. The summary is the mean of the states.

    vocabulary: its size. word_dropout: the share of words whose embedding is dropped in training. Padding does not
    affect the states of real positions; the states of an absent source are finite and have no meaning.
    """

    def __init__(self, config: LayerConfig, layers: int, vocabulary: int, word_dropout: float = 0.0) -> None:
        super().__init__()
        self.config, self.word_dropout = config, word_dropout
        self.words = nn.Embedding(vocabulary, config.size, padding_idx=PAD)
        self.layers = nn.ModuleList(EncoderLayer(config) for _ in range(layers))
        self.top = Top(config)

    def forward(self, text: TextInput) -> EncoderOutput:
        words_BTE = self.words(text.ids_BT)
        entering_BTE = drop_words(words_BTE, self.word_dropout, self.training)
        position_T = torch.arange(text.ids_BT.shape[1], device=words_BTE.device)
        x_BTD = with_positions(entering_BTE, position_T, self.config, self.training)
        padding_BT = text.padding_BT
        masked_B11T = (padding_BT & ~padding_BT.all(-1, keepdim=True))[:, None, None]
        for layer in self.layers:
            x_BTD = layer(x_BTD, masked_B11T)
        states_BTD = self.top(x_BTD, product_dtype(self.words.weight))
        return EncoderOutput(states_BTD, masked_mean(states_BTD, padding_BT), padding_BT, words_BTE)
