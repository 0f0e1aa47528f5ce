"""The model: sources to memory, words to readouts, readouts to probabilities. Single-device code.

Axes: B sentences, K hypotheses of each, T source positions, L target positions, E embedding, R readout,
V target vocabulary.
"""

import math

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from seq2seq.batch import Batch
from seq2seq.cells import LSTMCell
from seq2seq.config import ModelConfig
from seq2seq.decoder import Decoder
from seq2seq.encoders import BidirectionalEncoder, Encoded
from seq2seq.looks import Looks
from seq2seq.losses import Loss, cross_entropy
from seq2seq.memory import Memory, State
from seq2seq.recurrence import Moment
from seq2seq.text import BEGIN, PAD


class Model(nn.Module):
    """A recurrent encoder, a recurrent decoder, and the ways of looking that the config names."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.config = config
        (self.source,) = config.sources
        self.source_words = nn.Embedding(config.sources[self.source].vocabulary, config.embedding, padding_idx=PAD)
        self.encoder = BidirectionalEncoder(config)
        self.target_words = nn.Embedding(config.target.vocabulary, config.embedding, padding_idx=PAD)
        self.decoder = Decoder(config, summary=2 * config.hidden if config.first_state == "mean" else config.hidden)
        self.output = nn.Linear(config.embedding, config.target.vocabulary)
        if config.tie_embeddings in ("output", "all"):
            self.output.weight = self.target_words.weight
        if config.tie_embeddings == "all":
            self.source_words.weight = self.target_words.weight
        self.output_dropout = config.dropout if config.output_dropout is None else config.output_dropout
        self.initialize()

    def encode(self, batch: Batch) -> Memory:
        """What the decoder reads, computed once a sentence."""
        text = batch.sources[self.source]
        words_BTE = F.dropout(self.source_words(text.ids_BT), self.config.dropout, self.training)
        encoded = self.encoder(words_BTE, text.lengths_B)
        view = self.decoder.view(self.source, encoded.states_BTD, text.padding_BT)
        return Memory({"states": view}, self.summary(encoded, text.padding_BT))

    def summary(self, encoded: Encoded, padding_BT: Tensor) -> Tensor:
        """What the first decoder state is made from, by `first_state`."""
        if self.config.first_state == "mean":
            present_BT1 = (~padding_BT)[:, :, None]
            return (encoded.states_BTD * present_BT1).sum(1) / present_BT1.sum(1).clamp(min=1)
        return encoded.last_forward_BH if self.config.first_state == "last" else encoded.first_backward_BH

    def start(self, memory: Memory) -> State:
        """The decoder's state before the first word, one hypothesis a sentence."""
        return self.decoder.start(memory)

    def step(self, memory: Memory, state: State, token_BK: Tensor) -> tuple[State, Tensor, Looks]:
        """One word of every hypothesis: the state behind it, the readout (B, K, R) and what was looked at."""
        words_BKE = self.embed(token_BK)
        state, seen = self.decoder.advance(memory, state, Moment(self.decoder.given(words_BKE)))
        return state, self.decoder.read(words_BKE, seen.hidden, seen.contexts), seen.looks

    def teacher_forced(self, memory: Memory, target_BKL: Tensor) -> tuple[Tensor, Looks]:
        """Readouts (B, K, L, R) and looks at every position of K targets a sentence, given the words before it."""
        before_BKL = F.pad(target_BKL, (1, -1), value=BEGIN)
        words_BKLE = F.dropout(self.embed(before_BKL), self.config.dropout, self.training)
        return self.decoder.unroll(memory, words_BKLE)

    def embed(self, token: Tensor) -> Tensor:
        """The words before; the first may be a zero vector by `first_word`."""
        words: Tensor = self.target_words(token)
        if self.config.first_word == "zero":
            words = words.masked_fill((token == BEGIN)[..., None], 0.0)
        return words

    def logits(self, readout: Tensor) -> Tensor:
        """(..., R) -> (..., V)."""
        logits: Tensor = self.output(readout)
        return logits

    def log_probabilities(self, readout: Tensor) -> Tensor:
        """The output layer: (..., R) -> log p over the vocabulary (..., V), in fp32 or better."""
        logits = self.logits(readout)
        return torch.log_softmax(logits, -1, dtype=torch.promote_types(logits.dtype, torch.float32))

    def loss(self, batch: Batch, smoothing: float = 0.0) -> Loss:
        """The loss of a batch, summed over its target words (END counted)."""
        assert batch.target_BL is not None
        readouts_BLR = self.teacher_forced(self.encode(batch), batch.target_BL[:, None])[0][:, 0]
        real_BL = batch.target_BL != PAD
        readouts_NR = F.dropout(readouts_BLR[real_BL], self.output_dropout, self.training)
        return cross_entropy(readouts_NR, self.output.weight, self.output.bias, batch.target_BL[real_BL], smoothing)

    @torch.no_grad()
    def initialize(self) -> None:
        """Weights by `initialization`: Glorot's uniform, zero biases, open forget gates; or one uniform for all."""
        for parameter in self.parameters():
            if self.config.initialization == "uniform":
                scale = self.config.initialization_scale or 0.05
                nn.init.uniform_(parameter, -scale, scale)
            elif parameter.dim() > 1:
                nn.init.xavier_uniform_(parameter)
            else:
                nn.init.zeros_(parameter)
        own = self.output.weight is not self.target_words.weight
        if own and self.config.initialization == "xavier":  # Glorot's fan would be the vocabulary: far too small
            nn.init.normal_(self.output.weight, std=1 / math.sqrt(self.config.embedding))
        for module in self.modules():
            if isinstance(module, nn.Embedding):
                if self.config.initialization == "xavier":
                    nn.init.normal_(module.weight, std=1 / math.sqrt(self.config.embedding))
                module.weight[PAD] = 0
            elif isinstance(module, LSTMCell) and self.config.initialization == "xavier":
                module.open_forget_gate()
            elif isinstance(module, nn.LSTM) and self.config.initialization == "xavier":
                for layer in range(module.num_layers):
                    getattr(module, f"bias_ih_l{layer}")[self.config.hidden : 2 * self.config.hidden] = 1.0

    def parts(self) -> dict[str, int]:
        """Parameters by part; those that are shared count once."""
        seen: set[int] = set()
        counts: dict[str, int] = {}
        for name, parameter in self.named_parameters():
            part = ".".join(name.split(".")[: 2 if name.startswith("decoder") else 1])
            counts[part] = counts.get(part, 0) + (0 if id(parameter) in seen else parameter.numel())
            seen.add(id(parameter))
        return counts


def build(config: ModelConfig) -> Model:
    """A new model with fresh weights, drawn from torch's default generator."""
    return Model(config)
