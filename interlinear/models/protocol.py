"""The interface of models to search, training and explanations (`EncoderDecoder`), and of decoders to models
(`Decoder`); nothing else is used.

Axes: B sentences, K hypotheses of each, L target positions, T source positions, E embedding, R readout, C tokens that
may come next, V vocabulary.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar, NamedTuple, Protocol

from torch import Tensor, nn
from torch.nn import Module, Parameter

from interlinear.batch import Batch
from interlinear.models.attention_reading import AttentionReading
from interlinear.models.attention_weights import AttentionWeights
from interlinear.models.memory import Memory, View
from interlinear.models.state import State


class Step(NamedTuple):
    """One more token of each hypothesis: the new state, the readouts (B, K, R) and the attention weights (B, K,
    ...)."""

    state: State
    readout_BKR: Tensor
    attention_weights: AttentionWeights


class Unrolled(NamedTuple):
    """All steps over known targets: the readouts (B, K, L, R), and the attention weights (B, K, L, ...), empty where
    they were not asked for."""

    readouts_BKLR: Tensor
    attention_weights: AttentionWeights


class EncoderDecoder(Protocol):
    """A model that reads sources once, and writes word by word. An `Ensemble` of them is one."""

    @property
    def target_vocabulary(self) -> int:
        """The size of the vocabulary of the output layer."""

    @property
    def readout_size(self) -> int:
        """The size R of a readout, from which the next token is predicted."""

    @property
    def attention_kinds(self) -> list[str]:
        """The kinds of attention weights that explanations have."""

    @property
    def readings(self) -> Sequence[AttentionReading]:
        """The weights that words can be aligned by, the best first; at least one needs no other pass."""

    def encode(self, batch: Batch) -> Memory:
        """The sources of a batch, encoded, with at least one view."""

    def start(self, memory: Memory) -> State:
        """The state before the first token, with one hypothesis a sentence."""

    def step(self, memory: Memory, state: State, token_BK: Tensor) -> Step:
        """One more token of each hypothesis, after the word `token_BK`."""

    def unroll(self, memory: Memory, target_BKL: Tensor, attention: bool = True) -> Unrolled:
        """The steps that output K given targets of each sentence, with their attention weights or without."""

    def next_words(self, memory: Memory, readout_BKR: Tensor) -> tuple[Tensor, Tensor]:
        """Log-probabilities (B, K, C) of the tokens that may come next, in at least fp32, and their ids (B, C): all, or
        the candidates of the memory. A special symbol's column is its id."""

    def log_probabilities(self, readout: Tensor) -> Tensor:
        """Log-probabilities over the vocabulary, (..., R) -> (..., V), in at least fp32."""

    def forced_attention(
        self, memory: Memory, target_BKL: Tensor, reading: AttentionReading | None = None
    ) -> AttentionWeights:
        """The attention weights of given targets, with the reading's weights and the additions of
        `with_explanation_weights`."""

    def with_explanation_weights(
        self, memory: Memory, readouts_BKLR: Tensor, attention_weights: AttentionWeights
    ) -> AttentionWeights:
        """The weights of steps, with the weights that only explanations need."""

    def parameters(self) -> Iterator[Parameter]:
        """The weights, as of a torch module."""

    def modules(self) -> Iterator[Module]:
        """The parts, as of a torch module."""


@dataclass(frozen=True)
class EncoderOutput:
    """An encoded source: annotations (B, T, D), the summary (B, S) from which the decoder's first state is computed,
    padding (B, T), and for a text its word embeddings (B, T, E)."""

    states_BTD: Tensor
    summary_BS: Tensor
    padding_BT: Tensor
    words_BTE: Tensor | None = None

    @property
    def absent_B1(self) -> Tensor:
        """True for a sentence without this source."""
        return self.padding_BT.all(-1, keepdim=True)


def masked_mean(states_BTD: Tensor, padding_BT: Tensor) -> Tensor:
    """Mean over each row's real positions, (B, D); zeros for a row without any."""
    present_BT1 = (~padding_BT)[:, :, None]
    return (states_BTD * present_BT1).sum(1) / present_BT1.sum(1).clamp(min=1)


class Decoder(nn.Module, ABC):
    """The part of a `Model` between the embeddings of target words and the output layer.

    `best_readings`: the names of the readings that its attention weights have, the best first.
    """

    best_readings: ClassVar[tuple[str, ...]] = ("uam", "attention")

    @abstractmethod
    def views(self, source: str, read: EncoderOutput) -> dict[str, View]:
        """The views of a source that this decoder attends to, by name, with all terms that are computed once a
        sentence."""

    @abstractmethod
    def start(self, memory: Memory) -> State:
        """The state before the first token, one hypothesis a sentence."""

    @abstractmethod
    def step(self, memory: Memory, state: State, words_BKE: Tensor) -> Step:
        """One more token of each hypothesis, after words with these embeddings."""

    @abstractmethod
    def unroll(self, memory: Memory, words_BKLE: Tensor, attention: bool) -> Unrolled:
        """All steps over known words, with their attention weights or without."""

    def with_explanation_weights(self, memory: Memory, attention_weights: AttentionWeights) -> AttentionWeights:
        """The weights of steps, with the weights that only explanations need: by default no more."""
        return attention_weights
