"""What search, forced decoding and explanations ask of a model; nothing else is asked.

Axes: B sentences, K hypotheses of each, L target positions, R readout, C words that may come next, V vocabulary.
"""

from collections.abc import Iterator, Sequence
from typing import Protocol

from torch import Tensor
from torch.nn import Module, Parameter

from interlinear.batch import Batch
from interlinear.models.attention_reading import AttentionReading
from interlinear.models.attention_weights import AttentionWeights
from interlinear.models.memory import Memory
from interlinear.models.state import State


class EncoderDecoder(Protocol):
    """A model that reads sources once, and writes word by word. An `Ensemble` of them is one."""

    @property
    def target_vocabulary(self) -> int:
        """The number of words that the output layer knows."""

    @property
    def readout_size(self) -> int:
        """The size R of a readout, from which the next word is predicted."""

    @property
    def attention_kinds(self) -> list[str]:
        """The kinds of attention weights that explanations have."""

    @property
    def readings(self) -> Sequence[AttentionReading]:
        """The weights that words can be aligned by, the best first; one of them takes no pass of its own."""

    def encode(self, batch: Batch) -> Memory:
        """The sources of a batch, encoded, with at least one view."""

    def start(self, memory: Memory) -> State:
        """The state before the first word, with one hypothesis a sentence."""

    def step(self, memory: Memory, state: State, token_BK: Tensor) -> tuple[State, Tensor, AttentionWeights]:
        """One more word of each hypothesis: the new state, the readouts (B, K, R) and the attention weights."""

    def next_words(self, memory: Memory, readout_BKR: Tensor) -> tuple[Tensor, Tensor]:
        """Log-probabilities (B, K, C) of the words that may come next, in at least fp32, and their ids (B, C): all, or
        the candidates of the memory. A special symbol's column is its id."""

    def log_probabilities(self, readout: Tensor) -> Tensor:
        """Log-probabilities over the vocabulary, (..., R) -> (..., V), in at least fp32."""

    def forced_attention(
        self, memory: Memory, target_BKL: Tensor, reading: AttentionReading | None = None
    ) -> AttentionWeights:
        """The attention weights of given targets, with those of the reading, and of `with_explanation_weights`."""

    def forced_log_probabilities(self, memory: Memory, target_BKL: Tensor) -> Tensor:
        """The log-probability of each target token, given those before it, (B, K, L), in at least fp32."""

    def with_explanation_weights(
        self, memory: Memory, readouts_BKLR: Tensor, attention_weights: AttentionWeights
    ) -> AttentionWeights:
        """The weights of steps, with what only explanations need."""

    def parameters(self) -> Iterator[Parameter]:
        """The weights, as of a torch module."""

    def modules(self) -> Iterator[Module]:
        """The parts, as of a torch module."""
